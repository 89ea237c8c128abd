"""Word's .docx: paragraphs by their styles. Notes, deleted and hidden text, fields and running heads are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.books.book import BlockKind, Book
from kokoro_server.longform.books.documents.archive import Archive, resolve
from kokoro_server.longform.books.documents.elements import Budget, Element, parse
from kokoro_server.longform.books.documents.encoding import decode
from kokoro_server.longform.books.documents.flow import (
    BREAK,
    CONTENTS,
    FOOTNOTE,
    About,
    DocumentFlow,
    book,
    starts_from_headings,
)
from kokoro_server.longform.books.documents.hypertext import BREAK_MARK, raised
from kokoro_server.longform.books.documents.omissions import HIDDEN, RUBY

_DOCUMENT = "word/document.xml"
_HEADING = re.compile(r"heading (\d)")
_QUOTES = ("quote", "intense quote", "block text")
_HEADS = re.compile(r"word/(?:header|footer)\d*\.xml")
_NOTES = {"w:footnoteReference": "word/footnotes.xml", "w:endnoteReference": "word/endnotes.xml"}
_SIGNS = {"w:tab": " ", "w:br": "\n", "w:cr": "\n", "w:noBreakHyphen": "-", "w:ptab": " "}
_TEXTS = ("w:t", "m:t")  # the second of formulas
_MAIN = "/officeDocument"  # how the type of the relationship to the text ends
_NAMESPACE = re.compile(
    r"""\sxmlns(?::([A-Za-z]\w{0,40}))?=["']http://(?:schemas\.openxmlformats\.org|purl\.oclc\.org/ooxml)/wordprocessingml/"""
)
_HEAD = 20_000  # characters in which namespaces are declared
_SKIPPED = frozenset(("w:instrText", "w:rPr", "w:pPr", "w:tblPr", "w:sectPr", "mc:Fallback", "w:delInstrText"))


@dataclass(frozen=True, slots=True)
class _Style:
    name: str
    based_on: str
    outline: int | None  # its level, from 0


def read(content: bytes, title: str) -> Book:
    archive = Archive(content)
    if not archive.find(_document(archive)):
        raise UnreadableDocument(f"it is not a .docx: {_DOCUMENT} is missing in it")
    return _Docx(archive).read(title)


class _Docx:
    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._budget = Budget()
        self._flow = DocumentFlow()
        styles = self._part("word/styles.xml")
        self._language = _default_language(styles)
        self._styles = {style.get("w:styleid"): _style(style) for style in styles.all("style")}
        self._notes = {
            (name, note.get("w:id")): _all_text(note)
            for name, part in _NOTES.items()
            for note in self._part(part).all(name.removeprefix("w:").removesuffix("Reference"))
        }
        self._pieces: list[str] = []
        self._left: list[tuple[str, str]] = []  # of the paragraph that is open
        self._languages: set[str | None] = set()

    def read(self, title: str) -> Book:
        core = self._part("docProps/core.xml")
        told = {
            element.local: element.text()
            for element in core.walk()
            if element.local in ("title", "creator", "language")
        }
        self._walk(self._part(_document(self._archive)))
        heads = (name for name in self._archive.names() if _HEADS.fullmatch(name))
        for text in dict.fromkeys(_all_text(self._part(name)) for name in heads):
            self._flow.leave("running head", text)
        self._flow.leave("comment", _all_text(self._part("word/comments.xml")))
        authors = tuple(filter(None, (name.strip() for name in told.get("creator", "").split(";"))))
        about = About(told.get("title") or title, authors, told.get("language") or self._language)
        return book(starts_from_headings(self._flow.items), about)

    def _part(self, name: str) -> Element:
        if not self._archive.find(name):
            return Element("")
        markup = decode(self._archive.text(name), declared=True)[0]
        return parse(_with_usual_prefix(markup), self._budget, is_html=False)

    def _walk(self, element: Element) -> None:
        """Depth is bounded by the parser."""
        for child in element.elements():
            if child.name == "w:p":
                self._paragraph(child)
            elif child.name == "w:sdt" and _is_contents(child):
                self._flow.leave(CONTENTS, _all_text(child))
            elif child.name not in _SKIPPED:
                self._walk(child)

    def _paragraph(self, paragraph: Element) -> None:
        before = self._pieces, self._left, self._languages
        self._pieces, self._left, self._languages = [], [], set()
        boxes = [*self._runs(paragraph)]
        pieces, left, languages = self._pieces, self._left, self._languages
        self._pieces, self._left, self._languages = before
        for kind, text in left:
            self._flow.leave(kind, text)
        self._write(paragraph, "".join(pieces), languages.pop() if len(languages) == 1 else None)
        for box in boxes:
            self._walk(box)

    def _runs(self, element: Element) -> Iterator[Element]:
        """Takes the text of a paragraph; yields text boxes in it, which have paragraphs of their own."""
        for child in element.elements():
            name = child.name
            if name in _TEXTS:
                text = child.raw_text()
                is_high = name == "w:t" and _is_high(element)
                self._pieces.append(raised(text, "".join(self._pieces[-2:])) if is_high else text)
            elif name == "w:rt":
                self._left.append((RUBY, _all_text(child)))
            elif name in _SIGNS:
                if child.get("w:type") != "page":
                    self._pieces.append(_SIGNS[name])
            elif name in _NOTES:
                self._left.append((FOOTNOTE, self._notes.get((name, child.get("w:id")), "")))
            elif name == "w:del" or name == "w:moveFrom":
                self._left.append(("deleted text", _all_text(child)))
            elif name == "w:txbxContent":
                yield child
            elif name == "w:r" and _has(child, "w:vanish"):
                self._left.append((HIDDEN, _all_text(child)))
            elif name not in _SKIPPED:
                if name == "w:r" and child.first("t"):
                    self._languages.add(_run_language(child))
                yield from self._runs(child)

    def _write(self, paragraph: Element, text: str, language: str | None) -> None:
        properties = next((child for child in paragraph.elements() if child.name == "w:pPr"), Element(""))
        name, rank = self._style_of(properties)
        lines = [line for line in (" ".join(line.split()) for line in text.split("\n")) if line]
        if name.startswith("toc "):
            self._flow.leave(CONTENTS, " ".join(lines))
            return
        kind: BlockKind = "paragraph"
        if rank:
            kind, lines = "heading", [" ".join(lines)] if lines else []
        elif name in _QUOTES:
            kind = "quotation"
        elif properties.first("numPr") or name.startswith("list "):
            kind = "item"
        elif len(lines) > 1:
            kind = "verse"
        for line in lines:
            if BREAK_MARK.fullmatch(line):
                self._flow.leave(BREAK, line)
            else:
                self._flow.text(line, kind, language, rank)

    def _style_of(self, properties: Element) -> tuple[str, int]:
        """The name of a paragraph's style, and its rank as a heading: 0 for none, the title before all."""
        own = properties.first("outlineLvl")
        outline = _level(own) if own else None
        name = ""
        key = (properties.first("pStyle") or Element("")).get("w:val")
        for _ in range(10):  # styles are based on each other
            style = self._styles.get(key)
            if style is None:
                break
            name = name or style.name
            if match := _HEADING.fullmatch(style.name):
                return name, 1 + int(match[1])
            if style.name == "title":
                return name, 1
            outline = style.outline if outline is None else outline
            key = style.based_on
        return name, 2 + outline if outline is not None and outline < 9 else 0


def _with_usual_prefix(markup: str) -> str:
    """Programs that rewrite XML may call the namespace of Word's elements otherwise, or make it the default one."""
    found = _NAMESPACE.search(markup[:_HEAD])
    if found is None or found[1] == "w":
        return markup
    if found[1] is None:
        return re.sub(r"(</?)(?=[A-Za-z]\w*[\s/>])", r"\1w:", markup)
    return re.sub(rf"(</?|\s){found[1]}:(?=[A-Za-z])", r"\1w:", markup)


def _document(archive: Archive) -> str:
    """The part with the text. Some programs call it otherwise than Word does at first."""
    if archive.find(_DOCUMENT) or not archive.find("_rels/.rels"):
        return _DOCUMENT
    relations = parse(decode(archive.text("_rels/.rels"), declared=True)[0], Budget(), is_html=False)
    targets = (each.get("target") for each in relations.all("Relationship") if each.get("type").endswith(_MAIN))
    return resolve(next(targets, _DOCUMENT), "")[0]


def _style(style: Element) -> _Style:
    def value(local: str) -> str:
        found = style.first(local)
        return found.get("w:val") if found else ""

    outline = style.first("outlineLvl")
    return _Style(value("name").lower(), value("basedOn"), _level(outline) if outline else None)


def _level(outline: Element) -> int | None:
    value = outline.get("w:val")
    return int(value) if value.isdecimal() and len(value) < 3 else None


def _default_language(styles: Element) -> str | None:
    defaults = styles.first("docDefaults")
    return _run_language(defaults) if defaults else None


def _run_language(run: Element) -> str | None:
    language = run.first("lang")
    return language.get("w:val") or None if language else None


def _has(run: Element, name: str) -> bool:
    found = next((child for child in run.walk() if child.name == name), None)
    return found is not None and found.get("w:val") not in ("0", "false", "off")


def _is_high(run: Element) -> bool:
    align = run.first("vertAlign")
    return align is not None and align.get("w:val") == "superscript"


def _is_contents(block: Element) -> bool:
    gallery = block.first("docPartGallery")
    return gallery is not None and gallery.get("w:val") == "Table of Contents"


def _all_text(element: Element) -> str:
    pieces = []
    for child in element.walk():
        if child.name in (*_TEXTS, "w:delText"):
            pieces.append(child.raw_text())
        elif child.name in ("w:p", *_SIGNS):
            pieces.append(" ")
    return " ".join("".join(pieces).split())
