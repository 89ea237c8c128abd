"""The content of a document in reading order, and the book made from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.books.book import Block, BlockKind, Book, Chapter, Omission
from kokoro_server.longform.books.data_files import load

BREAK = "break"
CONTENTS = "table of contents"
FOOTNOTE = "footnote"
ILLUSTRATION = "illustration mark"
LICENCE = "licence"
PAGE_NUMBER = "page number"
REFERENCE = "footnote reference"

BREAK_MARK = re.compile(r"(?:[*•·~∗⁂※☙❦❧#_=+–—-]\s*){1,20}")
_CHAPTER_RANKS = 3  # ranks of headings that begin chapters in a document without a table of contents
_HEADINGS = load("headings")
# Headings of omissions, which are omitted with them.
_NOTES = re.compile("|".join(_HEADINGS["notes"]), re.I)
_LISTS = re.compile("|".join(_HEADINGS["contents"] + _HEADINGS["lists"]), re.I)
_NUMBER_ONLY = re.compile(rf"(?:{'|'.join(_HEADINGS['before_number'])})?\s*(?:[ivxlc]+|\d+)\s*[.:]?", re.I)


@dataclass(frozen=True, slots=True)
class ChapterBegin:
    title: str
    level: int
    language: str | None = None


@dataclass(frozen=True, slots=True)
class FlowText:
    block: Block
    rank: int = 0  # of a heading, 1 to 6


@dataclass(frozen=True, slots=True)
class OmittedText:
    kind: str
    text: str


FlowItem = ChapterBegin | FlowText | OmittedText


@dataclass(slots=True)
class DocumentFlow:
    items: list[FlowItem] = field(default_factory=list)
    _after_break: bool = False

    def start(self, title: str, level: int, language: str | None = None) -> None:
        self.items.append(ChapterBegin(title, level, language))

    def text(self, text: str, kind: BlockKind = "paragraph", language: str | None = None, rank: int = 0) -> None:
        self.items.append(FlowText(Block(text, kind, language, self._after_break), rank))
        self._after_break = False

    def lines(self, lines: Iterable[str], kind: BlockKind, language: str | None, rank: int) -> None:
        for line in lines:
            if BREAK_MARK.fullmatch(line):
                self.leave(BREAK, line)
            else:
                self.text(line, kind, language, rank)

    def leave(self, kind: str, text: str) -> None:
        if text:
            self.items.append(OmittedText(kind, text))
        if kind == BREAK:
            self._after_break = True


def starts_from_headings(items: Iterable[FlowItem]) -> list[FlowItem]:
    """Begin chapters at headings. A heading that is only a number shares its chapter with the next one."""
    found = list(items)
    ranks = sorted({item.rank for item in found if isinstance(item, FlowText) and item.rank})[:_CHAPTER_RANKS]
    result: list[FlowItem] = []
    begun: int | None = None  # the start of a chapter that has only its heading so far
    for item in found:
        if not isinstance(item, FlowText):
            result.append(item)
        elif item.rank not in ranks:
            result.append(item)
            begun = None
        else:
            number = result[begun] if begun is not None else None
            if begun is not None and isinstance(number, ChapterBegin) and _NUMBER_ONLY.fullmatch(number.title):
                result[begun] = replace(number, title=f"{number.title.rstrip(' .:')}. {item.block.text}")
                begun = None
            else:
                begun = len(result)
                result.append(ChapterBegin(item.block.text, ranks.index(item.rank) + 1))
            result.append(item)
    return result


def with_chapters(book: Book, items: Iterable[FlowItem]) -> Book:
    """The book, of which only the metadata is known, with the chapters that have blocks. Raises UnreadableDocument."""
    chapters: list[Chapter] = []
    omissions: list[Omission] = []
    for start, content in _cut(items, book.title):
        blocks, left = _read(content)
        if blocks:
            chapters.append(_chapter(start, blocks, book.language))
        omissions.extend(Omission(item.kind, item.text, max(0, len(chapters) - 1)) for item in left)
    if not chapters:
        only = f", only text that is not read aloud: {omissions[0].kind}" if omissions else ""
        raise UnreadableDocument(f"it has no text{only}")
    return replace(book, chapters=tuple(chapters), omissions=tuple(omissions))


def same_language(one: str | None, other: str | None) -> bool:
    """Whether `one` adds nothing to `other`: no tag at all, the same one, or a longer or shorter form."""
    if not one or not other:
        return not one
    first, second = one.lower().split("-"), other.lower().split("-")
    shorter = min(len(first), len(second))
    return first[:shorter] == second[:shorter]


def _cut(items: Iterable[FlowItem], title: str) -> Iterator[tuple[ChapterBegin, list[FlowText | OmittedText]]]:
    start, content = ChapterBegin(title, 1), list[FlowText | OmittedText]()
    for item in items:
        if isinstance(item, ChapterBegin):
            yield start, content
            start, content = item, []
        else:
            content.append(item)
    yield start, content


def _read(content: list[FlowText | OmittedText]) -> tuple[list[Block], list[OmittedText]]:
    blocks: list[Block] = []
    left: list[OmittedText] = []
    for index, item in enumerate(content):
        if isinstance(item, OmittedText):
            left.append(item)
        elif kind := _heading_of_left(item, content, index):
            left.append(OmittedText(kind, item.block.text))
        else:
            blocks.append(item.block)
    return blocks, left


def _heading_of_left(item: FlowText, content: list[FlowText | OmittedText], index: int) -> str | None:
    """The kind of the omission that follows, if this is its heading."""
    words = item.block.text.strip(" .:")
    following = content[index + 1] if index + 1 < len(content) else None
    if not isinstance(following, OmittedText) or not words:
        return None
    if following.kind == FOOTNOTE and _NOTES.fullmatch(words):
        return FOOTNOTE
    if following.kind in (CONTENTS, "index", "navigation") and _LISTS.fullmatch(words):
        return following.kind
    return None


def _chapter(start: ChapterBegin, blocks: list[Block], book_language: str | None) -> Chapter:
    language = None if same_language(start.language, book_language) else start.language
    spoken = language or book_language
    return Chapter(
        " ".join(start.title.split()) or _first_words(blocks),
        tuple(replace(block, language=None) if same_language(block.language, spoken) else block for block in blocks),
        start.level,
        language,
    )


def _first_words(blocks: list[Block]) -> str:
    words = blocks[0].text.split()
    return " ".join(words[:8]) + ("…" if len(words) > 8 else "")
