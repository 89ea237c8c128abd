"""Joins the lines of pages to paragraphs, which may cross pages, and finds the chapters that begin between them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from kokoro_server.longform.books.documents.flow import DocumentFlow
from kokoro_server.longform.books.documents.pdf.pages import Page
from kokoro_server.longform.books.documents.text_headings import heading
from kokoro_server.longform.books.documents.text_lines import LineJoiner

_SENTENCE_END = re.compile(r"[.!?…:。！？][\"'”’»)\]]*$")
_SHORT = 0.85  # of a full line: the last line of a paragraph may be as short
_TITLE_LINES = 3  # of a title in the outline, at most


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A chapter in the outline. Pages count from 0."""

    title: str
    level: int
    page: int


class ParagraphWriter:
    """Writes pages into a flow, in reading order. Without an outline, headings are found by how they are written."""

    def __init__(self, pages: Sequence[Page], outline: Sequence[OutlineEntry], flow: DocumentFlow) -> None:
        self._pages = pages
        self._flow = flow
        self._joiner = LineJoiner("\n".join(line for page in pages for line in page.lines), hyphenates=True)
        lengths = sorted(len(line) for page in pages for line in page.lines if line)
        self._full = lengths[int(len(lengths) * 0.9)] if lengths else 0
        self._outline: dict[int, list[OutlineEntry]] = defaultdict(list)
        for entry in outline:
            self._outline[entry.page].append(entry)
        self._lines: list[str] = []  # of the open paragraph

    def write(self) -> None:
        for number, page in enumerate(self._pages):
            starts, titles = self._places(number, page.lines)
            for kind, text in page.left:
                self._flow.leave(kind, text)
            for place, line in enumerate(page.lines):
                self._start(starts.get(place, ()))
                self._line(line, place in titles)
            self._start(starts.get(len(page.lines), ()))
        self._close()

    def _start(self, entries: Sequence[OutlineEntry]) -> None:
        if entries:
            self._close()
        for entry in entries:
            self._flow.start(entry.title, entry.level)

    def _line(self, line: str, is_title: bool) -> None:
        if not line:
            # Some programs put an empty line between any two: only the end of a sentence ends a paragraph.
            if self._lines and _SENTENCE_END.search(self._lines[-1]):
                self._close()
            return
        found = heading(line) if not self._outline else None
        if is_title or found:
            self._close()
            self._flow.text(line, "heading", rank=found.rank if found else 1)
            return
        self._lines.append(line)
        if len(line) < _SHORT * self._full and _SENTENCE_END.search(line):
            self._close()

    def _close(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            self._flow.text(self._joiner.join(lines))

    def _places(self, number: int, lines: Sequence[str]) -> tuple[dict[int, list[OutlineEntry]], set[int]]:
        """Where on a page its chapters begin: at the lines of their titles, else before its first line."""
        starts: dict[int, list[OutlineEntry]] = defaultdict(list)
        titles: set[int] = set()
        place = 0
        for entry in self._outline.get(number, ()):
            wanted = _letters(entry.title)
            found = next(((i, j) for i in range(place, len(lines)) if (j := _title_ends(lines, i, wanted))), None)
            if found is None:
                starts[place].append(entry)
                continue
            starts[found[0]].append(entry)
            titles.update(range(*found))
            place = found[1]
        return starts, titles


def _title_ends(lines: Sequence[str], start: int, wanted: str) -> int | None:
    """The place after the lines that make up the title, if it begins at `start`."""
    text = ""
    for place in range(start, min(start + _TITLE_LINES, len(lines))):
        text += _letters(lines[place])
        if not text or not wanted.startswith(text):
            return None
        if text == wanted:
            return place + 1
    return None


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
