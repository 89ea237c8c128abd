"""Lines of pages to paragraphs, which may go on over a page, and the chapters that begin between them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kokoro_server.longform.books.documents.pdf.pages import Page
from kokoro_server.longform.books.documents.text_headings import heading
from kokoro_server.longform.books.documents.text_lines import LineJoiner

_SENTENCE_END = re.compile(r"[.!?…:。！？][\"'”’»)\]]*$")
_SHORT = 0.85  # of a full line: where the last line of a paragraph may end
_TITLE_LINES = 3  # that a title in the outline may go over on its page


@dataclass(frozen=True, slots=True)
class ChapterStart:
    """A chapter begins on a page, from 0."""

    title: str
    level: int
    page: int


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str
    rank: int = 0


@dataclass(frozen=True, slots=True)
class OmittedLine:
    kind: str
    text: str


def paragraphs(
    pages: Sequence[Page], marks: Sequence[ChapterStart]
) -> Iterator[ChapterStart | Paragraph | OmittedLine]:
    """In reading order. Where there are no marks, headings are found by how they are written."""
    return _Writer(pages, marks).write()


class _Writer:
    def __init__(self, pages: Sequence[Page], marks: Sequence[ChapterStart]) -> None:
        self._pages = pages
        self._joiner = LineJoiner("\n".join(line for page in pages for line in page.lines), hyphenates=True)
        lengths = sorted(len(line) for page in pages for line in page.lines if line)
        self._full = lengths[int(len(lengths) * 0.9)] if lengths else 0
        self._marks: dict[int, list[ChapterStart]] = defaultdict(list)
        for mark in marks:
            self._marks[mark.page].append(mark)
        self._lines: list[str] = []  # of the paragraph that is open

    def write(self) -> Iterator[ChapterStart | Paragraph | OmittedLine]:
        for number, page in enumerate(self._pages):
            starts, titles = self._places(number, page.lines)
            for kind, text in page.left:
                yield OmittedLine(kind, text)
            for place, line in enumerate(page.lines):
                if place in starts:
                    yield from self._close()
                    yield from starts[place]
                yield from self._line(line, place in titles)
            if len(page.lines) in starts:
                yield from self._close()
                yield from starts[len(page.lines)]
        yield from self._close()

    def _line(self, line: str, is_title: bool) -> Iterator[Paragraph]:
        if not line:
            # Some writers put an empty line between any two: only the end of a sentence ends a paragraph.
            if self._lines and _SENTENCE_END.search(self._lines[-1]):
                yield from self._close()
            return
        found = heading(line) if not self._marks else None
        if is_title or found:
            yield from self._close()
            yield Paragraph(line, found.rank if found else 1)
            return
        self._lines.append(line)
        if len(line) < _SHORT * self._full and _SENTENCE_END.search(line):
            yield from self._close()

    def _close(self) -> Iterator[Paragraph]:
        lines, self._lines = self._lines, []
        if lines:
            yield Paragraph(self._joiner.join(lines))

    def _places(self, number: int, lines: Sequence[str]) -> tuple[dict[int, list[ChapterStart]], set[int]]:
        """Where on a page its chapters begin: at the lines of their titles, else before its first line."""
        starts: dict[int, list[ChapterStart]] = defaultdict(list)
        titles: set[int] = set()
        place = 0
        for mark in self._marks.get(number, ()):
            wanted = _letters(mark.title)
            found = next(((i, j) for i in range(place, len(lines)) if (j := _title_ends(lines, i, wanted))), None)
            if found is None:
                starts[place].append(mark)
                continue
            starts[found[0]].append(mark)
            titles.update(range(*found))
            place = found[1]
        return starts, titles


def _title_ends(lines: Sequence[str], start: int, wanted: str) -> int | None:
    """Behind the last of the lines that are the title, which begins there."""
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
