"""Sentences out of a text that is still being written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from kokoro_server.g2p import languages
from kokoro_server.g2p.languages import Language
from kokoro_server.text import spoken
from kokoro_server.text.splitter import WRAPPED_LINE_COLUMNS, Span, sentences
from kokoro_server.text.traced import Traced

# Text that may come next. A sentence end is certain if it stands whichever of these follows: then it is no dot of a
# number or an abbreviation, no half of an ellipsis, and no closing quotation mark is still to come.
_CONTINUATIONS = ("x", "1", ".", "」", "。")
# What may come after a mark that opens something, and so change how all after the mark is read.
_CLOSINGS = {
    "[": ("x](x)", "](x)", "(x)", "x)", ")"),
    "```": ("x\n```\n",),
    "`": ("x`",),
    "$": ("x$",),
    "*": ("x*",),
    "_": ("x_",),
    "<": ("x>",),
    "\\(": ("x\\)",),
}
_LONG_GAP = re.compile(r"(\s{1000})\s+")  # longer white space says nothing more, and would be split again each time
_CONTEXT = WRAPPED_LINE_COLUMNS  # characters before a sentence that the splitter may look back at
_LONGEST_HELD = 1_000  # characters of whole sentences that are kept back until it is certain how they are read
_LOOK_AHEAD = 200  # characters after a sentence end in which something may stand that belongs to what is before it
_GROWTH = 1.25  # what is kept back is looked at again when there is so much more text
_NOT_SAID = re.compile(r"[\W_]+")


class SentenceBuffer:
    """Takes a text in any pieces and returns each sentence once, as soon as no further text can change it.

    The sentences are those that the splitter finds in the whole text. Those that would be read otherwise if they were
    apart, as when a link begins in one and ends in the next, are returned together.
    """

    def __init__(self, language: Language = languages.EN_US) -> None:
        self._language = language
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
        groups = list(self._groups(certain, _CLOSINGS))
        if sum(len(span.text) for span in groups[-1]) > _LONGEST_HELD:
            groups.append([])
        kept = groups.pop()
        self._look_again = int(len(self) * _GROWTH) if kept else 0
        found = [self._joined(group) for group in groups]
        if found:
            self._emitted = groups[-1][-1].end
            self._trim([group[0] for group in groups])
        return found

    def flush(self) -> list[str]:
        """The sentences that are left, the text being at an end. What is appended next begins a new text."""
        left = [self._joined(group) for group in self._groups(list(self._new_sentences(self._text)), {}) if group]
        self._text, self._emitted, self._look_again = "", 0, 0
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

    def _groups(self, spans: Sequence[Span], closings: Mapping[str, Sequence[str]]) -> Iterator[list[Span]]:
        """The fewest spans at a time that can be read apart from what follows, and last those that cannot, or none."""
        group = list[Span]()
        for span in spans:
            group.append(span)
            following = self._text[span.end : span.end + _LOOK_AHEAD]
            if self._are_apart(self._joined(group), following, closings):
                yield group
                group = []
        yield group

    def _are_apart(self, text: str, following: str, closings: Mapping[str, Sequence[str]]) -> bool:
        """Whether the same is said for `text` and what follows, if each is read alone, whatever may be written yet."""
        endings = ["", *chain.from_iterable(endings for opening, endings in closings.items() if opening in text)]
        return all(self._is_boundary(text, following + ending) for ending in endings)

    def _is_boundary(self, before: str, after: str) -> bool:
        claims = spoken.claims(before + after, self._language)
        together = _said(claims, before + after)
        apart = (_said(spoken.claims(part, self._language), part) for part in (before, after))
        return not claims or together == "".join(apart)

    def _joined(self, group: Sequence[Span]) -> str:
        return self._text[group[0].start : group[-1].end]

    def _trim(self, emitted: list[Span]) -> None:
        """Drops the text of the sentences that were returned, except for the context of what follows."""
        start = max((span.start for span in emitted if span.start <= self._emitted - _CONTEXT), default=0)
        self._text, self._emitted = self._text[start:], self._emitted - start


def _said(claims: Iterable[spoken.Claim], text: str) -> str:
    """The letters that are said for `text`."""
    return _NOT_SAID.sub("", spoken.apply(claims, Traced.of(text)).text).lower()
