"""Text that remembers where in the original each of its characters came from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Traced:
    """Character i of `text` stands for `original[starts[i]:ends[i]]`. Neither `starts` nor `ends` ever decreases."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    @classmethod
    def of(cls, text: str, start: int = 0) -> Traced:
        """`text` unchanged from the original, where it begins at `start`."""
        return cls(text, range(start, start + len(text)), range(start + 1, start + 1 + len(text)))

    @classmethod
    def join(cls, parts: Iterable[Traced]) -> Traced:
        text, starts, ends = "", list[int](), list[int]()
        for part in parts:
            text += part.text
            starts += part.starts
            ends += part.ends
        return cls(text, starts, ends)

    def between(self, start: int, end: int) -> Traced:
        return Traced(self.text[start:end], self.starts[start:end], self.ends[start:end])

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """The range of the original that `text[start:end]`, which must not be empty, stands for."""
        return self.starts[start], self.ends[end - 1]

    def replaced(self, text: str) -> Traced:
        """A new `text` for this one, which must not be empty. Each new character stands for all of this one."""
        start, end = self.origin(0, len(self.text))
        return Traced(text, [start] * len(text), [end] * len(text))

    def sub(self, pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str]) -> Traced:
        """As `re.sub`, for matches that are not empty. Replacements of the same length keep each character's origin."""
        parts, end = list[Traced](), 0
        for match in pattern.finditer(self.text):
            old, text = self.between(*match.span()), replacement(match)
            same = len(text) == len(old.text)
            replaced = Traced(text, old.starts, old.ends) if same else old.replaced(text)
            parts += (self.between(end, match.start()), replaced)
            end = match.end()
        return Traced.join((*parts, self.between(end, len(self.text)))) if parts else self

    def strip(self) -> Traced:
        inner = self.text.strip()
        start = len(self.text) - len(self.text.lstrip())
        return self.between(start, start + len(inner))
