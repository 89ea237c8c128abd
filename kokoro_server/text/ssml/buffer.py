"""Text that is taken out of markup, and remembers where it was there."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable

from kokoro_server.text.spoken import Claim
from kokoro_server.text.traced import Traced

_WHITE_SPACE = " \t\r\n"
_SPACE_OR_NOT = re.compile(r"(?P<space>[ \t\r\n]+)|[^ \t\r\n]+")
SENTENCE_END = "\n\v\n"  # ends a sentence, whatever its mark, and is no blank line
PARAGRAPH_END = "\n"  # makes it one


class TextBuffer:
    """Any amount of white space in XML is a single space."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._starts, self._ends = array("q"), array("q")
        self._last = ""  # character
        self.claims: list[Claim] = []

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def touches(self) -> bool:
        """Whether what comes next would be in the same word."""
        return bool(self._last) and not self._last.isspace()

    @property
    def ended(self) -> bool:
        """Whether a sentence has ended, whatever its mark."""
        return not self._parts or self._parts[-1] in (SENTENCE_END, PARAGRAPH_END)

    def add(self, text: str, start: int, end: int) -> None:
        """Text of the markup from `start` to `end`: as long as it, or a single character."""
        if len(text) == 1 and (not text.isspace() or self.touches):
            self._append(" " if text in _WHITE_SPACE else text, (start,), (end,))
            return
        for match in _SPACE_OR_NOT.finditer(text):
            first, last = start + match.start(), start + match.end()
            if not match["space"]:
                self._append(match[0], range(first, last), range(first + 1, last + 1))
            elif self.touches:
                self._append(" ", (first,), (last,))

    def insert(self, text: str, start: int, end: int | None = None) -> None:
        """Text that is not in the markup, each of whose characters stands for that range, or for a place in it."""
        self._append(text, [start] * len(text), [start if end is None else end] * len(text))

    def end_sentence(self, position: int) -> None:
        if not self.ended:
            self.insert(SENTENCE_END, position)

    def end_paragraph(self, position: int) -> None:
        self.end_sentence(position)
        if self._parts and self._parts[-1] == SENTENCE_END:
            self.insert(PARAGRAPH_END, position)

    def extend(self, text: Traced) -> None:
        self._append(text.text, text.starts, text.ends)

    def traced(self) -> Traced:
        return Traced("".join(self._parts), self._starts, self._ends)

    def _append(self, text: str, starts: Iterable[int], ends: Iterable[int]) -> None:
        self._parts.append(text)
        self._starts.extend(starts)
        self._ends.extend(ends)
        self._last = text[-1]
