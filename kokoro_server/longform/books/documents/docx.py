"""Word's .docx: paragraphs by their styles, without notes, deleted and hidden text, fields and running heads."""

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
    CONTENTS,
    FOOTNOTE,
    DocumentFlow,
    starts_from_headings,
    with_chapters,
)
from kokoro_server.longform.books.documents.hypertext import raised
from kokoro_server.longform.books.documents.omissions import HIDDEN, RUBY

_DOCUMENT = "word/document.xml"
_HEADING = re.compile(r"heading (\d)")
_QUOTES = ("quote", "intense quote", "block text")
_HEADS = re.compile(r"word/(?:header|footer)\d*\.xml")
_NOTES = {"w:footnoteReference": "word/footnotes.xml", "w:endnoteReference": "word/endnotes.xml"}
_SIGNS = {"w:tab": " ", "w:br": "\n", "w:cr": "\n", "w:noBreakHyphen": "-", "w:ptab": " "}
_TEXTS = ("w:t", "m:t")  # m:t is that of formulas
_MAIN = "/officeDocument"  # the end of the type of the relationship to the text
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
        self._language = _value(styles.find("docDefaults"), "lang") or None
        self._styles = {
            style.get("w:styleid"): _Style(_value(style, "name").lower(), _value(style, "basedOn"), _level(style))
            for style in styles.all("style")
        }
        self._notes = {
            (name, note.get("w:id")): _all_text(note)
            for name, part in _NOTES.items()
            for note in self._part(part).all(name.removeprefix("w:").removesuffix("Reference"))
        }
        self._pieces: list[str] = []
        self._left: list[tuple[str, str]] = []  # omissions of the open paragraph
        self._languages: set[str | None] = set()

    def read(self, title: str) -> Book:
        core = self._part("docProps/core.xml")
        facts = {
            element.local: element.text()
            for element in core.walk()
            if element.local in ("title", "creator", "language")
        }
        self._walk(self._part(_document(self._archive)))
        heads = (name for name in self._archive.names() if _HEADS.fullmatch(name))
        for text in dict.fromkeys(_all_text(self._part(name)) for name in heads):
            self._flow.leave("running head", text)
        self._flow.leave("comment", _all_text(self._part("word/comments.xml")))
        authors = tuple(filter(None, (name.strip() for name in facts.get("creator", "").split(";"))))
        book = Book(facts.get("title") or title, authors=authors, language=facts.get("language") or self._language)
        return with_chapters(book, starts_from_headings(self._flow.items))

    def _part(self, name: str) -> Element:
        if not self._archive.find(name):
            return Element("")
        markup = decode(self._archive.text(name), declared=True)[0]
        return parse(_with_usual_prefix(markup), self._budget, is_html=False)

    def _walk(self, element: Element) -> None:
        """Recursive: the parser bounds the depth."""
        for child in element.elements():
            if child.name == "w:p":
                self._paragraph(child)
            elif child.name == "w:sdt" and _value(child, "docPartGallery") == "Table of Contents":
                self._flow.leave(CONTENTS, _all_text(child))
            elif child.name not in _SKIPPED:
                self._walk(child)

    def _paragraph(self, paragraph: Element) -> None:
        self._pieces, self._left, self._languages = [], [], set()
        boxes = [*self._runs(paragraph)]  # their paragraphs come after this one
        for kind, text in self._left:
            self._flow.leave(kind, text)
        language = self._languages.pop() if len(self._languages) == 1 else None
        self._write(paragraph, "".join(self._pieces), language)
        for box in boxes:
            self._walk(box)

    def _runs(self, element: Element) -> Iterator[Element]:
        """Collects the text of a paragraph. Yields its text boxes, which have paragraphs of their own."""
        for child in element.elements():
            name = child.name
            if name in _TEXTS:
                text = child.raw_text()
                is_high = name == "w:t" and _value(element, "vertAlign") == "superscript"
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
                    self._languages.add(_value(child, "lang") or None)
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
        self._flow.lines(lines, kind, language, rank)

    def _style_of(self, properties: Element) -> tuple[str, int]:
        """The name of a paragraph's style, and its rank as a heading: 1 for the title, 0 for no heading."""
        outline, name, key = _level(properties), "", _value(properties, "pStyle")
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
    """Rename the namespace of Word's elements to w, as programs that rewrite XML may have another prefix or none."""
    found = _NAMESPACE.search(markup[:_HEAD])
    if found is None or found[1] == "w":
        return markup
    if found[1] is None:
        return re.sub(r"(</?)(?=[A-Za-z]\w*[\s/>])", r"\1w:", markup)
    return re.sub(rf"(</?|\s){found[1]}:(?=[A-Za-z])", r"\1w:", markup)


def _document(archive: Archive) -> str:
    """The part with the text, which some programs name differently than Word."""
    if archive.find(_DOCUMENT) or not archive.find("_rels/.rels"):
        return _DOCUMENT
    relations = parse(decode(archive.text("_rels/.rels"), declared=True)[0], Budget(), is_html=False)
    targets = (each.get("target") for each in relations.all("Relationship") if each.get("type").endswith(_MAIN))
    return resolve(next(targets, _DOCUMENT), "")[0]


def _value(element: Element, local: str) -> str:
    """The value of the first inner element of that name, or an empty text."""
    return element.find(local).get("w:val")


def _level(element: Element) -> int | None:
    value = _value(element, "outlineLvl")
    return int(value) if value.isdecimal() and len(value) < 3 else None


def _has(run: Element, name: str) -> bool:
    found = next((child for child in run.walk() if child.name == name), None)
    return found is not None and found.get("w:val") not in ("0", "false", "off")


def _all_text(element: Element) -> str:
    pieces = []
    for child in element.walk():
        if child.name in (*_TEXTS, "w:delText"):
            pieces.append(child.raw_text())
        elif child.name in ("w:p", *_SIGNS):
            pieces.append(" ")
    return " ".join("".join(pieces).split())
