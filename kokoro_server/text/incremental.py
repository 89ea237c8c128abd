"""Sentences out of a text that is still being written."""

from __future__ import annotations

from collections.abc import Iterator

from kokoro_server.text.splitter import WRAPPED_LINE, Span, sentences

# What may come next. An end that stands whichever of these does is certain: no dot of a number or an abbreviation, no
# half of an ellipsis, no quotation mark to follow.
_SEQUELS = ("x", "1", ".", "」", "。")
_CONTEXT = WRAPPED_LINE  # characters before a sentence that the splitter may look back at


class SentenceBuffer:
    """Takes a text in any pieces and gives each sentence once, as soon as no further text can change where it ends.

    The sentences are those that the splitter finds in the whole text.
    """

    def __init__(self) -> None:
        self._text = ""
        self._given = 0  # up to where in it sentences have been given

    def __len__(self) -> int:
        """Characters that are kept back."""
        return len(self._text) - self._given

    def append(self, text: str) -> list[str]:
        """The sentences that `text` completes."""
        self._text += text
        certain = self._common(*(list(self._found(self._text + sequel))[:-1] for sequel in _SEQUELS))
        if certain:
            self._given = certain[-1].end
            self._forget(certain)
        return [span.text for span in certain]

    def flush(self) -> list[str]:
        """What is left, the text being at an end. What is appended next begins anew."""
        left = [span.text for span in self._found(self._text)]
        self._text, self._given = "", 0
        return left

    def _found(self, text: str) -> Iterator[Span]:
        for span in sentences(text):
            if span.end > self._given:
                yield span if span.start >= self._given else span.between(self._given, span.end)

    @staticmethod
    def _common(first: list[Span], *others: list[Span]) -> list[Span]:
        length = next(
            (n for n, span in enumerate(first) if any(other[n : n + 1] != [span] for other in others)), len(first)
        )
        return first[:length]

    def _forget(self, given: list[Span]) -> None:
        """Drop what has been given, but for the context of what follows."""
        start = max((span.start for span in given if span.start <= self._given - _CONTEXT), default=0)
        self._text, self._given = self._text[start:], self._given - start
