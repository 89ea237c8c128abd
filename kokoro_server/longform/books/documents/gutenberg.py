"""Project Gutenberg's additions to a text: its licence, and page numbers in brackets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kokoro_server.longform.books.documents.flow import (
    LICENCE,
    PAGE_NUMBER,
    ChapterBegin,
    DocumentFlow,
    FlowItem,
    FlowText,
    OmittedText,
)

_BEGIN = re.compile(
    r"\*{2,3}\s*START OF TH(?:E|IS) PROJECT GUTENBERG E-?(?:BOOK|TEXT)|\*\s*END\s*\*?\s*THE SMALL PRINT", re.I
)
_END = re.compile(r"\*{2,3}\s*END OF TH(?:E|IS) PROJECT GUTENBERG E-?(?:BOOK|TEXT)", re.I)
_LAST_LINE = re.compile(r"End of (?:the |this )?Project Gutenberg(?:'s|’s)?\b.{0,200}", re.I | re.S)
_CREDIT = re.compile(
    r"(?:Produced|Prepared|Transcribed|E-?text prepared|This e-?text was (?:produced|prepared)) (?:by|from)\b", re.I
)
_CREDITS_WITHIN = 4  # blocks after the beginning
PAGE = re.compile(r"\[(?:Pg|Page|p\.)\s*(?:\d{1,4}|[ivxlc]{1,8})\]", re.I)
_MOST_OF_A_HEADER = 0.5  # of a document that a header may take


def without_licence(items: Iterable[FlowItem]) -> list[FlowItem]:
    """Omit everything before and after the marks of a Project Gutenberg text."""
    found = list(items)
    begin = next((i for i in reversed(range(len(found))) if _matches(_BEGIN, found[i])), -1)
    end = next((i for i in range(max(begin, 0), len(found)) if _matches(_END, found[i])), len(found))
    if begin > _MOST_OF_A_HEADER * len(found) and end == len(found):
        return found  # a mark near the end is something else
    if begin < 0 and end == len(found):
        return found
    while end > 0 and isinstance(last := found[end - 1], FlowText) and _LAST_LINE.fullmatch(last.block.text):
        end -= 1
    result = [_left(item) for item in found[: begin + 1]]
    for number, item in enumerate(found[begin + 1 : end]):
        credit = begin >= 0 and number < _CREDITS_WITHIN and _matches(_CREDIT, item)
        result.append(_left(item) if credit else item)
    return [*result, *(_left(item) for item in found[end:])]


def _matches(pattern: re.Pattern[str], item: FlowItem) -> bool:
    return isinstance(item, FlowText) and pattern.match(item.block.text.strip()) is not None


def _left(item: FlowItem) -> FlowItem:
    return OmittedText(LICENCE, item.block.text) if isinstance(item, FlowText) else item


def without_page_numbers(text: str, flow: DocumentFlow, pattern: re.Pattern[str] = PAGE) -> str:
    """The text without page numbers in brackets, even within a word."""
    for match in pattern.finditer(text):
        flow.leave(PAGE_NUMBER, match[0])
    return pattern.sub("", text)


def facts(items: Iterable[FlowItem]) -> Iterator[tuple[str, str]]:
    """The facts of a header, such as "Title: …"."""
    for item in items:
        if isinstance(item, ChapterBegin):
            continue
        text = item.text if isinstance(item, OmittedText) else item.block.text
        if match := re.match(r"(Title|Author|Language):\s*(.{1,300})", text, re.S):
            yield match[1].lower(), " ".join(match[2].split())
        if isinstance(item, FlowText) and _BEGIN.match(text):
            return
