"""Decides which elements of HTML are not read aloud, and what kind of omission each of them is.

Captions (`figcaption`) are read; descriptions of pictures (`alt`) are not. An element without a rule is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kokoro_server.longform.books.data_files import load
from kokoro_server.longform.books.documents.elements import Element
from kokoro_server.longform.books.documents.flow import CONTENTS, FOOTNOTE, LICENCE, PAGE_NUMBER, REFERENCE

COVER = "cover page"
COPYRIGHT = "copyright page"
HIDDEN = "hidden text"
INDEX = "index"
NAVIGATION = "navigation"
RUBY = "ruby annotation"

_HTML = load("html")
_TYPES: dict[str, str] = {value: kind for kind, values in _HTML["types"].items() for value in values}
_NAMES: dict[str, str] = {name: kind for kind, names in _HTML["names"].items() for name in names}
_CLASSES = {kind: frozenset(names) for kind, names in _HTML["classes"].items()}
_MAY_BE_OMITTED = frozenset(_HTML["elements"]["may_be_omitted"])
_PAGE = re.compile(r"[\[({]?\s*(?:pg|page|p\.?)?\s*(?:\d{1,4}|[ivxlc]{1,8})\s*[\])}]?\.?", re.I)
_MARKER = re.compile(r"[\[(]\s*(?:note\s*)?(?:\d{1,4}|[a-z]{1,2}|[ivxlc]{1,8}|[*†‡§¶]{1,5})\s*[\])]|[*†‡§¶]{1,5}", re.I)
_BARE_MARKER = re.compile(r"\d{1,4}|[a-z]|[ivxlc]{1,8}", re.I)
_UNSEEN = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.I)
_LISTS = frozenset(("ul", "ol", "table", "dl"))
_LINKED = 0.8  # of the letters of a table of contents are in links
_LINKS = 3  # that a table of contents has, at least


class OmissionRules:
    """The rules for one document."""

    def __init__(self, root: Element) -> None:
        self._listings = _listings(root)

    def kind(self, element: Element) -> str | None:
        """The kind of omission that an element is by itself; None if it is read. `notes` finds more by their links."""
        name, attributes = element.local, element.attributes
        if found := _NAMES.get(name):
            return CONTENTS if name == "nav" and "toc" in types(element) else found
        if name == "title" and element.parent is not None and element.parent.local in ("svg", "g"):
            return "description of a picture"
        if name in _LISTS and self._listings[id(element)].links_only:
            return CONTENTS
        if not attributes:
            return None
        for type_ in types(element):
            if type_ in _TYPES:
                return _TYPES[type_]
        if element.get("role").lower() == "navigation":
            return NAVIGATION
        unseen = "hidden" in attributes or element.get("aria-hidden").lower() == "true"
        return HIDDEN if unseen or _UNSEEN.search(element.get("style")) else self._by_class(element)

    def _by_class(self, element: Element) -> str | None:
        names = classes(element)
        if names & _CLASSES["licence"] or element.get("id").lower() in _CLASSES["licence"]:
            return LICENCE
        if names & _CLASSES["notes"] and element.name in _MAY_BE_OMITTED:
            return FOOTNOTE
        if names & _CLASSES["pages"] and _PAGE.fullmatch(element.beginning()):
            return PAGE_NUMBER
        if names & _CLASSES["references"] and is_marker(element):
            return REFERENCE
        if names & _CLASSES["contents"] and element.name in _MAY_BE_OMITTED and self._listings[id(element)].links:
            return CONTENTS
        return None


def types(element: Element) -> list[str]:
    """The words of epub:type, and of the equivalent roles."""
    roles = [role[4:] for role in element.get("role").lower().split() if role.startswith("doc-")]
    return element.get("epub:type").lower().split() + roles


def classes(element: Element) -> set[str]:
    return {*element.get("class").lower().split()}


def is_marker(element: Element) -> bool:
    """Whether its whole text marks a note, such as [1], * or a raised number."""
    text = element.beginning()
    if _MARKER.fullmatch(text):
        return True
    return _BARE_MARKER.fullmatch(text) is not None and (
        element.name == "sup"
        or (element.parent is not None and element.parent.name == "sup")
        or element.first("sup") is not None
        or bool(classes(element) & (_CLASSES["references"] | _CLASSES["notes"]))
    )


@dataclass(slots=True)
class _Listing:
    """Counts of links into the book within an element."""

    letters: int = 0
    linked: int = 0  # letters within such links
    links: int = 0

    @property
    def links_only(self) -> bool:
        """Whether it lists links, with little more than page numbers beside them."""
        return self.links >= _LINKS and self.linked > 0 and self.linked >= _LINKED * self.letters


def _listings(root: Element) -> dict[int, _Listing]:
    """Counts of all elements, by id(). Inner elements are counted first, so that each is counted once."""
    elements = list(root.walk())
    found = {id(element): _Listing() for element in elements}
    for element in reversed(elements):
        here = found[id(element)]
        here.letters += sum(sum(map(str.isalpha, child)) for child in element.children if isinstance(child, str))
        if element.name == "a" and element.get("href") and "://" not in element.get("href"):
            here.links, here.linked = here.links + 1, here.letters
        if element.parent is not None:
            above = found[id(element.parent)]
            above.letters += here.letters
            above.linked += here.linked
            above.links += here.links
    return found
