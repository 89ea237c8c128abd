"""Plain text such as Project Gutenberg's, with wrapped lines. Headings and notes are found by how they are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from kokoro_server.longform.books.book import BlockKind, Book
from kokoro_server.longform.books.documents import gutenberg, text_headings
from kokoro_server.longform.books.documents.encoding import decode_document
from kokoro_server.longform.books.documents.flow import (
    BREAK,
    CONTENTS,
    FOOTNOTE,
    ILLUSTRATION,
    PAGE_NUMBER,
    REFERENCE,
    DocumentFlow,
    FlowItem,
    FlowText,
    starts_from_headings,
    with_chapters,
)
from kokoro_server.longform.books.documents.text_headings import Heading
from kokoro_server.longform.books.documents.text_lines import (
    LineGroup,
    LineJoiner,
    is_unwrapped,
    is_verse,
    line_groups,
    width,
)

_PAGE = re.compile(
    r"\[(?:Pg|Page|p\.)\s*(?:\d{1,4}|[ivxlc]{1,8})\]\s?|\{(?:Pg\.?\s?|Page\s|p\.\s?)?(?:\d{1,4}|[ivxlc]{1,8})\}\s?",
    re.I,
)
_PAGE_LINE = re.compile(r"([-–—])\s*\d{1,4}\s*\1")
_EMPHASIS = re.compile(r"(?<![^\W_])_(?=[^\s_])([^_]{1,2000})(?<=[^\s_])_(?![^\W_])")
_ILLUSTRATION = re.compile(r"\[\s*(?:Illustration|Frontispiece)\b[:.]?\s*(.*?)\]?", re.I | re.S)
_FOOTNOTE = re.compile(r"\[Footnote\s*([^\s:\]]{1,8})?\s*:", re.I)
_MARKER = re.compile(r"\[(\d{1,4}|[A-Za-z]|[*†‡§]{1,3})\]")
_BY = re.compile(r"by\s+(.{3,80})", re.I)
_LANGUAGES = {
    "english": "en", "french": "fr", "spanish": "es", "italian": "it", "portuguese": "pt", "german": "de",
    "japanese": "ja", "chinese": "zh", "hindi": "hi", "dutch": "nl", "latin": "la",
}  # fmt: skip
_NOTE_GROUPS = 20  # that a footnote may span until its bracket is closed


def read(content: bytes, title: str) -> Book:
    text, remarks = decode_document(content)
    items = _Reader(text, line_groups(text)).read()
    facts = dict(gutenberg.facts(items[:80]))
    kept = gutenberg.without_licence(items)
    first_title, first_author = _title_page(kept)
    author = facts.get("author") or first_author
    book = Book(
        facts.get("title") or first_title or title,
        authors=(author,) if author else (),
        language=_LANGUAGES.get(facts.get("language", "").lower()),
        remarks=remarks,
    )
    return with_chapters(book, starts_from_headings(kept))


def _title_page(items: Sequence[FlowItem]) -> tuple[str, str]:
    """Title and author, if the text begins with them; else empty."""
    texts = [item.block.text for item in items[:12] if isinstance(item, FlowText)][:3]
    for title, following in pairwise(texts):
        if (match := _BY.fullmatch(following)) and len(title) <= 120:
            return title, match[1].strip(" .")
    return "", ""


class _Reader:
    def __init__(self, text: str, found: Sequence[LineGroup]) -> None:
        self._flow = DocumentFlow()
        self._groups = found
        self._joiner = LineJoiner(text, hyphenates=False)
        self._width = width(found)
        self._noted = {match[1] for match in _FOOTNOTE.finditer(text) if match[1]}

    def read(self) -> list[FlowItem]:
        contents = text_headings.contents(self._groups)
        headings = text_headings.headings(self._groups)
        number = 0
        while number < len(self._groups):
            group = self._groups[number]
            heading = headings.get(number)
            if number in contents:
                self._flow.leave(CONTENTS, " ".join(group.lines))
            elif heading:
                number += self._heading(number, heading)
            elif len(group.lines) == 1 and _PAGE_LINE.fullmatch(group.lines[0]):
                self._flow.leave(PAGE_NUMBER, group.lines[0])
            elif group.is_break:
                self._flow.leave(BREAK, group.lines[0])
            elif taken := self._footnote(number):
                number += taken
                continue
            else:
                self._group(group)
            number += 1
        return self._flow.items

    def _heading(self, number: int, heading: Heading) -> int:
        """Write it. Returns how many more groups belong to it."""
        self._flow.text(self._spoken(heading.text), "heading", rank=heading.rank)
        following = self._groups[number + 1] if number + 1 < len(self._groups) else None
        if heading.bare and following and text_headings.is_title(following) and not following.is_break:
            self._flow.text(self._spoken(" ".join(following.lines)), "heading", rank=heading.rank)
            return 1
        return 0

    def _footnote(self, number: int) -> int:
        """Omit the footnote that begins here. Returns the number of its groups; 0 for any other text."""
        if not _FOOTNOTE.match(self._groups[number].lines[0]):
            return 0
        depth = 0
        for taken, group in enumerate(self._groups[number : number + _NOTE_GROUPS], 1):
            text = " ".join(group.lines)
            depth += text.count("[") - text.count("]")
            if depth <= 0:
                for left in self._groups[number : number + taken]:
                    self._flow.leave(FOOTNOTE, " ".join(left.lines))
                return taken
        self._flow.leave(FOOTNOTE, " ".join(self._groups[number].lines))
        return 1

    def _group(self, group: LineGroup) -> None:
        text = self._joiner.join(group.lines)
        if match := _ILLUSTRATION.fullmatch(text):
            self._flow.leave(ILLUSTRATION, text.replace(match[1], "") if match[1] else text)
            if match[1]:
                self._write(match[1], "paragraph")
        elif is_verse(group, self._width):
            for line in group.lines:
                self._write(line, "verse")
        elif is_unwrapped(group):
            for line in group.lines:
                self._write(line, "paragraph")
        else:
            self._write(text, "quotation" if group.indented else "paragraph")

    def _write(self, text: str, kind: BlockKind) -> None:
        if spoken := self._spoken(text):
            self._flow.text(spoken, kind)

    def _spoken(self, text: str) -> str:
        """Without page numbers, references to footnotes and the signs of emphasis."""
        text = gutenberg.without_page_numbers(text, self._flow, _PAGE)
        if self._noted and "[" in text:
            text = _MARKER.sub(self._reference, text)
        return " ".join(_EMPHASIS.sub(r"\1", text).split())

    def _reference(self, match: re.Match[str]) -> str:
        if match[1] not in self._noted:
            return match[0]
        self._flow.leave(REFERENCE, match[0])
        return ""
