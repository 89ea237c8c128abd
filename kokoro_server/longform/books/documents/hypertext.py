"""HTML to the flow of a book. `omissions` decides which elements are left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kokoro_server.longform.books.book import BlockKind
from kokoro_server.longform.books.data_files import load
from kokoro_server.longform.books.documents import omissions
from kokoro_server.longform.books.documents.elements import BLOCKS, Element
from kokoro_server.longform.books.documents.flow import BREAK, ChapterBegin, DocumentFlow
from kokoro_server.longform.books.documents.gutenberg import without_page_numbers

_BLOCKS = BLOCKS | {*load("html")["elements"]["more_blocks"]}
_KINDS: dict[str, BlockKind] = {
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "heading"),
    "blockquote": "quotation",
    **dict.fromkeys(("li", "dd", "dt", "td", "th"), "item"),
}
_VERSE = frozenset(load("html")["classes"]["verse"])
_LINE = 80  # characters: lines of verse, addresses and inscriptions are not longer
_SPACE = re.compile(r"[^\S\n]+")
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\ufeff\u2060"))
_SUPERSCRIPTS = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
_POWER = re.compile(r"[+−-]?\d{1,3}")
_RAISED = re.compile(r"(?:[\d)]|(?<![^\W\d_])[^\W\d_]{1,2})\Z")  # a number, a variable or a unit


@dataclass(frozen=True, slots=True)
class _Context:
    """The effect of the open elements."""

    language: str | None
    kind: BlockKind = "paragraph"
    rank: int = 0
    preformatted: bool = False
    verse: bool = False


class Walker:
    """Writes HTML files into one flow."""

    def __init__(self, flow: DocumentFlow, notes: Mapping[int, str], language: str | None) -> None:
        self._flow = flow
        self._notes = notes
        self._language = language
        self._rules: omissions.OmissionRules
        self._starts: Mapping[str, ChapterBegin] = {}
        self._pieces: list[tuple[str, str | None]] = []  # text and language within the open block
        self._written = False  # whether the open block has more than space
        self._waiting: list[ChapterBegin] = []

    def walk(self, root: Element, starts: Mapping[str, ChapterBegin], omit: str | None = None) -> None:
        """Write a file. `starts` has its chapters by fragment, "" for its beginning. `omit` leaves all of it out."""
        self._starts = starts
        self._rules = omissions.OmissionRules(root)
        context = _Context(self._language)
        for outermost in (root.first("html"), root.first("body")):
            context = _in(outermost, context) if outermost is not None else context
        self._start(starts.get(""), context)
        if omit:
            for body in _bodies(root):
                self._leave(body, omit, context)
        else:
            self._children(root, context)
        self._flush(context)

    def _children(self, element: Element, context: _Context) -> None:
        for child in element.children:
            if isinstance(child, str):
                self._text(child, context)
            else:
                self._element(child, context)

    def _element(self, element: Element, context: _Context) -> None:
        if element.local == "head":
            return
        within = _in(element, context)
        is_block = element.local in _BLOCKS
        if is_block:
            self._flush(context)
        if found := self._notes.get(id(element)) or self._rules.kind(element):
            self._leave(element, found, context)
            return
        self._start(self._start_at(element), within)
        if element.name == "br":
            self._pieces.append(("\n", None))
        elif element.name == "sup" and self._pieces and not element.elements():
            self._text(raised(element.raw_text(), self._pieces[-1][0]), within)
        elif element.name == "hr":
            self._flow.leave(BREAK, "")
        else:
            self._children(element, within)
        if is_block:
            self._flush(within)

    def _start_at(self, element: Element) -> ChapterBegin | None:
        place = element.get("id") or (element.get("name") if element.name == "a" else "")
        return self._starts.get(place) if place else None

    def _start(self, start: ChapterBegin | None, context: _Context) -> None:
        if start is None:
            return
        start = replace(start, language=context.language)
        if self._written and not self._pieces[-1][0][-1:].isspace():
            # Within a word or at the end of a heading: the chapter starts after this block.
            self._waiting.append(start)
            return
        self._flush(context)
        self._flow.items.append(start)

    def _leave(self, element: Element, kind: str, context: _Context) -> None:
        for within in element.walk():
            self._start(self._start_at(within), context)
        self._flow.leave(kind, element.text())

    def _text(self, text: str, context: _Context) -> None:
        if not context.preformatted:
            text = text.replace("\n", " ").replace("\r", " ")
        if text:
            self._pieces.append((text, context.language))
            self._written = self._written or not text.isspace()

    def _flush(self, context: _Context) -> None:
        """End the open block."""
        pieces, self._pieces, self._written = self._pieces, [], False
        text = "".join(text for text, _ in pieces)
        if text.strip():
            languages = {language for text, language in pieces if language and text.strip()}
            language = languages.pop() if len(languages) == 1 else context.language
            self._write(without_page_numbers(text.translate(_INVISIBLE), self._flow), context, language)
        if self._waiting:
            self._flow.items.extend(self._waiting)
            self._waiting = []

    def _write(self, text: str, context: _Context, language: str | None) -> None:
        lines = [line for line in (_SPACE.sub(" ", line).strip() for line in text.split("\n")) if line]
        if context.kind in ("heading", "item"):
            lines = [" ".join(lines)] if lines else []
        kind = context.kind
        if kind == "paragraph" and (context.verse or (len(lines) > 1 and max(map(len, lines)) <= _LINE)):
            kind = "verse"
        self._flow.lines(lines, kind, language, context.rank)


def raised(text: str, before: str) -> str:
    """Raised text. A power gets superscript digits: 10 with a raised 6 is not 106."""
    is_power = _POWER.fullmatch(text.strip()) and _RAISED.search(before[-4:])
    return text.strip().translate(_SUPERSCRIPTS) if is_power else text


def _bodies(root: Element) -> list[Element]:
    """All elements of a file but its head. Broken files have text beside their body, or several bodies."""
    return [
        each for html in (root, *root.all("html")) for each in html.elements() if each.local not in ("head", "html")
    ]


def _in(element: Element, context: _Context) -> _Context:
    """The context within an element."""
    name = element.local
    language = element.language
    if not language and name not in _KINDS and name not in ("pre", "div", "p") and element.get("role") != "heading":
        return context
    kind, rank = _KINDS.get(name, context.kind), context.rank
    if kind == "heading" and name in _KINDS:
        rank = int(name[1])
    elif element.get("role") == "heading":
        level = element.get("aria-level")
        kind, rank = "heading", int(level) if level in ("1", "2", "3", "4", "5", "6") else 2
    if context.kind == "heading":
        kind, rank = context.kind, context.rank
    return _Context(
        language.strip() or context.language,
        kind,
        rank,
        context.preformatted or name == "pre",
        context.verse or bool(omissions.classes(element) & _VERSE),
    )
