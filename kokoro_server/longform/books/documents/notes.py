"""Finds footnotes by their links: from a marker to a note that begins with the same marker, or links back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count, islice, pairwise

from kokoro_server.longform.books.documents import omissions
from kokoro_server.longform.books.documents.archive import resolve
from kokoro_server.longform.books.documents.elements import Element
from kokoro_server.longform.books.documents.flow import FOOTNOTE, REFERENCE

_BLOCKS = frozenset(("p", "li", "dd", "dt", "td", "aside", "div"))
_LARGE = frozenset(("section", "article", "tr", "blockquote"))  # notes only if epub:type says so
_HOLDERS = frozenset(("li", "aside", "dd", "tr"))  # elements that hold a note and nothing else
_OUTSIDE = frozenset(("body", "html", "h1", "h2", "h3", "h4", "h5", "h6", "table", "ol", "ul", "dl", ""))
_NOTE_CLASSES = frozenset(("footnote", "endnote", "rearnote", "note", "fn"))
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_BRACKETS = "[]().: \u00a0^"
_LONGEST = 500  # elements of a note
_LOOKED_AT = 40  # nodes at the beginning of a block that may be the anchor of a note


@dataclass(frozen=True, slots=True)
class _Block:
    """A block that may be a note."""

    element: Element
    marker: str  # its first word
    leads_to: frozenset[str]  # fragments of its links
    may_be_note: bool  # not too long, and without a heading


class _Finder:
    def __init__(self, files: Mapping[str, Element]) -> None:
        self.found: dict[int, str] = {}
        self._links: list[tuple[int, str, Element]] = []
        self._places: dict[tuple[str, str], tuple[int, Element]] = {}
        self._blocks: dict[int, _Block] = {}
        self._described: dict[int, Element] = {}  # the dd after each dt
        positions = count(1)
        for name, root in files.items():
            for element in root.walk():
                position = next(positions)
                if element.name == "a" and element.get("href"):
                    self._links.append((position, name, element))
                if place := element.get("id") or (element.get("name") if element.name == "a" else ""):
                    self._places.setdefault((name, place), (position, element))
                if element.name == "dl":
                    for one, other in pairwise(element.elements()):
                        if one.name == "dt" and other.name == "dd":
                            self._described[id(one)] = other

    def find(self) -> dict[int, str]:
        for position, name, link in self._links:
            said = "noteref" in omissions.types(link)
            if not (said or omissions.is_marker(link)):
                continue
            if any(self.found.get(id(outer)) == FOOTNOTE for outer in link.upwards()):  # a link back
                continue
            where, target = self._places.get(resolve(link.get("href"), name), (0, None))
            if target is not None and (note := self._note(link, target, said, later=where > position)) is not None:
                self._mark(link, note)
        return self.found

    def _mark(self, link: Element, note: Element) -> None:
        self.found[id(_with_sup(link))] = REFERENCE
        self.found[id(note)] = FOOTNOTE
        if described := self._described.get(id(note)):
            self.found[id(described)] = FOOTNOTE

    def _note(self, link: Element, target: Element, said: bool, *, later: bool) -> Element | None:
        element = _enclosing(target, _BLOCKS | _LARGE if said else _BLOCKS)
        if element is None or any(outer is element for outer in link.upwards()) or not _begins(element, target):
            return None
        block = self._block(element)
        marker = link.beginning().strip(_BRACKETS)
        certain = said or (
            block.may_be_note
            and (
                bool(omissions.classes(element) & _NOTE_CLASSES)
                or (later and bool(marker) and block.marker == marker)
                or (element.name == "li" and not block.leads_to.isdisjoint(_names(link)))
            )
        )
        return _holder(element) if certain else None

    def _block(self, element: Element) -> _Block:
        found = self._blocks.get(id(element))
        if found is None:
            words = element.beginning().split(maxsplit=1)
            within = list(islice(element.walk(), _LONGEST + 1))
            found = self._blocks[id(element)] = _Block(
                element,
                words[0].strip(_BRACKETS) if words else "",
                frozenset(link.get("href").partition("#")[2] for link in within if "#" in link.get("href")),
                len(within) <= _LONGEST and not any(child.name in _HEADINGS for child in within),
            )
        return found


def linked(files: Mapping[str, Element]) -> dict[int, str]:
    """The kinds of linked notes and references, by the id() of their elements."""
    return _Finder(files).find()


def _with_sup(link: Element) -> Element:
    """The element that raises the link, if it holds nothing else; or the link."""
    parent = link.parent
    if parent is None or parent.name != "sup" or len(parent.children) > 3:
        return link
    others = (child for child in parent.children if child is not link)
    return parent if all(isinstance(child, str) and not child.strip() for child in others) else link


def _enclosing(element: Element, names: frozenset[str]) -> Element | None:
    while element.name not in names:
        if element.parent is None or element.name in _OUTSIDE:
            return None
        element = element.parent
    return element


def _holder(block: Element) -> Element:
    parent = block.parent
    while parent is not None and parent.name in _HOLDERS and _first(parent) is block:
        block, parent = parent, parent.parent
    return block


def _first(element: Element) -> Element | None:
    for child in element.children[:_LOOKED_AT]:
        if isinstance(child, Element):
            return child
        if child.strip():
            return None
    return None


def _begins(block: Element, target: Element) -> bool:
    """Whether the target stands before all text of the block."""
    for node in islice(block.nodes(_LOOKED_AT), _LOOKED_AT):
        if node is target or (isinstance(node, str) and node.strip()):
            return node is target
    return False


def _names(link: Element) -> set[str]:
    """The fragments by which a note may link back."""
    places = {link.get("id"), link.get("name"), *(child.get("id") for child in link.elements()[:3])}
    if link.parent is not None:
        places.add(link.parent.get("id"))
    return places - {""}
