"""Sentences out of a text that is still being written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kokoro_server.text.splitter import WRAPPED_LINE_COLUMNS, Span, sentences

# Text that may come next. A sentence end is certain if it stands whichever of these follows: then it is no dot of a
# number or an abbreviation, no half of an ellipsis, and no closing quotation mark is still to come.
_CONTINUATIONS = ("x", "1", ".", "」", "。")
_LONG_GAP = re.compile(r"(\s{1000})\s+")  # longer white space says nothing more, and would be split again each time
_CONTEXT = WRAPPED_LINE_COLUMNS  # characters before a sentence that the splitter may look back at


class SentenceBuffer:
    """Takes a text in any pieces and returns each sentence once, as soon as no further text can change where it ends.

    The sentences are those that the splitter finds in the whole text.
    """

    def __init__(self) -> None:
        self._text = ""
        self._emitted = 0  # characters of `_text` whose sentences have been returned

    def __len__(self) -> int:
        """Characters whose sentences have not been returned yet."""
        return len(self._text) - self._emitted

    def append(self, text: str) -> list[str]:
        """The sentences that `text` completes."""
        gap = min(len(self._text) - len(self._text.rstrip()), 1000)
        start = len(self._text) - gap
        self._text = self._text[:start] + _LONG_GAP.sub(r"\1", self._text[start:] + text)
        splits = (list(self._new_sentences(self._text + following))[:-1] for following in _CONTINUATIONS)
        certain = self._common_prefix(*splits)
        if certain:
            self._emitted = certain[-1].end
            self._trim(certain)
        return [span.text for span in certain]

    def flush(self) -> list[str]:
        """The sentences that are left, the text being at an end. What is appended next begins a new text."""
        left = [span.text for span in self._new_sentences(self._text)]
        self._text, self._emitted = "", 0
        return left

    def _new_sentences(self, text: str) -> Iterator[Span]:
        for span in sentences(text):
            if span.end > self._emitted:
                yield span if span.start >= self._emitted else span.between(self._emitted, span.end)

    @staticmethod
    def _common_prefix(first: list[Span], *others: list[Span]) -> list[Span]:
        length = next(
            (n for n, span in enumerate(first) if any(other[n : n + 1] != [span] for other in others)), len(first)
        )
        return first[:length]

    def _trim(self, emitted: list[Span]) -> None:
        """Drops the text of the sentences that were returned, except for the context of what follows."""
        start = max((span.start for span in emitted if span.start <= self._emitted - _CONTEXT), default=0)
        self._text, self._emitted = self._text[start:], self._emitted - start
