"""Sentences out of a text that is still being written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kokoro_server import languages
from kokoro_server.languages import Language
from kokoro_server.text import spoken
from kokoro_server.text.options import DEFAULT_OPTIONS, ReadingOptions
from kokoro_server.text.splitter import WRAPPED_LINE_COLUMNS, TextSpan, sentences
from kokoro_server.text.traced import Traced

# Text that may come next. A sentence end is certain if it stands whichever of these follows: then it is no dot of a
# number or an abbreviation, no half of an ellipsis, and no closing quotation mark is still to come.
_CONTINUATIONS = ("x", "1", ".", "」", "。")
# A mark that opens something, and what may close it. As long as nothing closes it, later text may change the reading of
# everything after the mark.
_CLOSINGS = (
    ("[", "](", "x](/x)"),
    ("[", ")", "/x)"),
    ("[", "(", "(/x)"),
    ("`", "`", "x`"),
    ("```", "```", "x\n```\n"),
    ("$", "$", "x$"),
    ("<", ">", "x>"),
    ("\\(", "\\)", "x\\)"),
)
_LONG_GAP = re.compile(r"(\s{1000})\s+")  # longer white space says nothing more, and would be split again each time
_CONTEXT = WRAPPED_LINE_COLUMNS  # characters before a sentence that the splitter may look back at
_LONGEST_HELD = 1_000  # characters of whole sentences that are kept back until it is certain how they are read
_GROWTH = 1.25  # text that is kept back is looked at again when it has grown by this factor
_NOT_SAID = re.compile(r"[\W_]+")


class SentenceBuffer:
    """Takes a text in any pieces and returns each sentence once, as soon as no further text can change it.

    The sentences are those that the splitter finds in the whole text. Those that would be read otherwise if they were
    apart, as when a link begins in one and ends in the next, are returned together.
    """

    def __init__(self, language: Language = languages.EN_US, options: ReadingOptions = DEFAULT_OPTIONS) -> None:
        self.language = language  # by whose rules it is read
        self.options = options
        self._text = ""
        self._emitted = 0  # characters of `_text` whose sentences have been returned
        self._look_again = 0  # the length at which sentences that were kept back are looked at again

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
        if not certain or len(self) < self._look_again:
            return []
        readings = self._readings(self._text)
        groups, kept = self._groups(certain, readings)
        groups, kept = self._without_open(groups, kept, readings)
        if sum(len(span.text) for span in kept) > _LONGEST_HELD:
            groups, kept = [*groups, kept], []
        self._look_again = int(len(self) * _GROWTH) if kept else 0
        found = [self._joined(group) for group in groups]
        if found:
            self._emitted = groups[-1][-1].end
            self._trim([group[0] for group in groups])
        return found

    def flush(self) -> list[str]:
        """The remaining sentences, at the end of the text. Text that is appended later begins a new text."""
        groups, kept = self._groups(list(self._new_sentences(self._text)), self._readings(self._text))
        left = [self._joined(group) for group in (*groups, kept) if group]
        self._text, self._emitted, self._look_again = "", 0, 0
        return left

    def _new_sentences(self, text: str) -> Iterator[TextSpan]:
        for span in sentences(text):
            if span.end > self._emitted:
                yield span if span.start >= self._emitted else span.between(self._emitted, span.end)

    @staticmethod
    def _common_prefix(first: list[TextSpan], *others: list[TextSpan]) -> list[TextSpan]:
        length = next(
            (n for n, span in enumerate(first) if any(other[n : n + 1] != [span] for other in others)), len(first)
        )
        return first[:length]

    def _groups(
        self, spans: Sequence[TextSpan], readings: spoken.Readings
    ) -> tuple[list[list[TextSpan]], list[TextSpan]]:
        """The fewest spans at a time that are read alone as in the whole, and last those that are not."""
        groups, rest = list[list[TextSpan]](), list[TextSpan]()
        look_again = 0.0  # the length at which the rest is looked at again
        for span in spans:
            rest = [*rest, span]
            length = span.end - rest[0].start
            if length < look_again and span is not spans[-1]:
                continue
            if self._is_read_alone(rest[0].start, span.end, readings):
                groups.append(rest)
                rest, look_again = [], 0.0
            elif len(rest) == 1 and groups and self._is_read_alone(groups[-1][0].start, span.end, readings):
                groups[-1] += rest
                rest = []
            else:
                look_again = length * _GROWTH
        return groups, rest

    def _without_open(
        self, groups: list[list[TextSpan]], kept: list[TextSpan], readings: spoken.Readings
    ) -> tuple[list[list[TextSpan]], list[TextSpan]]:
        """Also keeps back text whose reading changes, or may yet change, with the text after it."""
        if groups and not kept:
            begun = self._text[groups[-1][-1].end :].strip()
            letter = len(begun) == 1 and begun.isalpha()  # of the next word: that it has a name says nothing
            if not letter and not self._is_read_alone(groups[-1][-1].end, len(self._text), readings):
                kept = groups.pop()
        for start, closing in self._open_marks():
            if not groups or start >= groups[-1][-1].end:
                continue
            end = kept[0].start if kept else groups[-1][-1].end
            whole = self._text + closing
            if not self._is_read_alone(end, len(whole), self._readings(whole), whole):
                index = next(n for n, group in enumerate(groups) if start < group[-1].end)
                groups, kept = groups[:index], [*(span for group in groups[index:] for span in group), *kept]
        return groups, kept

    def _open_marks(self) -> Iterator[tuple[int, str]]:
        """Where a mark is that nothing closes yet, and what would close it."""
        for opening, closed, closing in _CLOSINGS:
            start = self._text.rfind(opening, self._emitted)
            if start >= 0 and closed not in self._text[start + len(opening) :]:
                yield start, closing

    def _is_read_alone(self, start: int, end: int, readings: spoken.Readings, whole: str | None = None) -> bool:
        """Whether a part is read the same alone as in the whole text."""
        text = (whole or self._text)[start:end]
        return not text or _said(readings, text, start) == _said(spoken.Readings(self._claims(text), 0), text, 0)

    def _readings(self, text: str) -> spoken.Readings:
        """The claims on text that is not yet returned; returned sentences cannot change any more."""
        return spoken.Readings(self._claims(text[self._emitted :]), self._emitted)

    def _claims(self, text: str) -> list[spoken.Claim]:
        chosen = self.options
        return spoken.claims(
            text, self.language, kinds=chosen.kinds, code=chosen.code_blocks, code_spans=chosen.code_spans
        )

    def _joined(self, group: Sequence[TextSpan]) -> str:
        return self._text[group[0].start : group[-1].end]

    def _trim(self, emitted: list[TextSpan]) -> None:
        """Drops the text of the sentences that were returned, except for the context of what follows."""
        start = max((span.start for span in emitted if span.start <= self._emitted - _CONTEXT), default=0)
        self._text, self._emitted = self._text[start:], self._emitted - start


def _said(readings: spoken.Readings, text: str, start: int) -> str:
    """The letters that are said for `text`, which begins at `start`."""
    return _NOT_SAID.sub("", readings.read(Traced.of(text, start)).text).lower()
