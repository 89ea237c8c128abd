"""Parses HTML, however broken, XHTML, and the XML of packages.

Only HTML's entities are known, nothing is fetched, and time is linear in the length. No text of broken markup is lost.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Set
from html.entities import html5

from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.books.data_files import load
from kokoro_server.longform.books.documents.limits import MAX_DEPTH, MAX_ELEMENTS

_VOID, BLOCKS, _SCOPES, _HEAD = (
    frozenset(load("html")["elements"][name]) for name in ("void", "blocks", "scopes", "head")
)
_RAW = frozenset(("script", "style"))
# A start tag ends an open element of the first names, unless one of the second names is open within it.
_ENDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    **dict.fromkeys(BLOCKS, (frozenset(("p",)), _SCOPES)),
    "li": (frozenset(("li",)), frozenset(("ul", "ol", "menu", *_SCOPES))),
    **dict.fromkeys(("dd", "dt"), (frozenset(("dd", "dt")), frozenset(("dl", *_SCOPES)))),
    **dict.fromkeys(("td", "th"), (frozenset(("td", "th")), frozenset(("tr", "table")))),
    "tr": (frozenset(("tr",)), frozenset(("table",))),
    "option": (frozenset(("option",)), frozenset(("select",))),
}
_BEGINNING = 80  # characters
_NAME = re.compile(r"[A-Za-z][^\s/>]*")
_ATTRIBUTE = re.compile(r"""([^\s=/"'<>]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
# A tag to its end, with any ">" in quotes.
_TAG = re.compile(r"""<(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""")
_PLAIN_TAG = re.compile("<[^>]*+>")
_ENTITY = re.compile(r"<!ENTITY\s+(?:%\s+)?([^\s>]{1,100})", re.I)


class Element:
    __slots__ = ("attributes", "children", "name", "parent")

    def __init__(self, name: str, attributes: dict[str, str] | None = None, parent: Element | None = None) -> None:
        self.name = name
        self.attributes = attributes or {}
        self.parent = parent
        self.children: list[Element | str] = []

    def get(self, name: str) -> str:
        return self.attributes.get(name, "")

    @property
    def local(self) -> str:
        """The name without its namespace prefix."""
        return self.name.rpartition(":")[2]

    @property
    def language(self) -> str:
        return self.get("xml:lang") or self.get("lang")

    def nodes(self, children: int | None = None) -> Iterator[Element | str]:
        """This, all inner elements and their texts, in document order. `children` limits those of each element."""
        stack: list[Element | str] = [self]
        while stack:
            node = stack.pop()
            yield node
            if isinstance(node, Element):
                stack.extend(reversed(node.children[:children]))

    def walk(self) -> Iterator[Element]:
        """This and all inner elements, in document order."""
        return (node for node in self.nodes() if isinstance(node, Element))

    def upwards(self) -> Iterator[Element]:
        """This and all outer elements."""
        element: Element | None = self
        while element is not None:
            yield element
            element = element.parent

    def all(self, local: str) -> Iterator[Element]:
        return (element for element in self.walk() if element.local == local)

    def first(self, local: str) -> Element | None:
        return next(self.all(local), None)

    def find(self, local: str) -> Element:
        """The first element of that name, or an empty one."""
        return self.first(local) or Element("")

    def elements(self) -> list[Element]:
        return [child for child in self.children if isinstance(child, Element)]

    def text(self) -> str:
        """All of its text, with single spaces."""
        return " ".join(self.raw_text().split())

    def beginning(self) -> str:
        """At least the first _BEGINNING characters of its text."""
        pieces, length = list[str](), 0
        for node in self.nodes(_BEGINNING):
            if isinstance(node, str):
                pieces.append(node[:_BEGINNING])
                length += len(node) if node.strip() else 0
            if length > _BEGINNING:
                break
        return " ".join("".join(pieces).split())

    def raw_text(self) -> str:
        return "".join(node if isinstance(node, str) else " " for node in self.nodes() if _is_written(node))


def _is_written(node: Element | str) -> bool:
    """Whether it is text, or separates words: a line break, a block."""
    return isinstance(node, str) or node.name == "br" or node.name in BLOCKS


class Budget:
    """Counts down the elements of a book. Raises UnreadableDocument at the end."""

    def __init__(self) -> None:
        self._left = MAX_ELEMENTS

    def take(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise UnreadableDocument(f"it has more than {MAX_ELEMENTS} elements of markup")


def parse(markup: str, budget: Budget, *, is_html: bool = True) -> Element:
    """The nameless root of a document."""
    return _Parser(markup, budget, is_html).parse()


class _Parser:
    def __init__(self, markup: str, budget: Budget, is_html: bool) -> None:
        self._markup = markup
        self._budget = budget
        self._is_html = is_html
        self._root = Element("")
        self._open = [self._root]
        self._tag = _TAG
        self._in_head = False
        self._begun = not is_html  # with its head or body, whose tags may both be left out
        self._endless: set[str] = set()  # strings that do not occur again

    def parse(self) -> Element:
        position = 0
        markup = self._markup
        while (start := markup.find("<", position)) >= 0:
            self._text(markup[position:start])
            position = self._markup_at(start)
        self._text(markup[position:])
        return self._root

    def _find(self, what: str, start: int) -> int:
        if what in self._endless:
            return -1
        found = self._markup.find(what, start)
        if found < 0:
            self._endless.add(what)
        return found

    def _markup_at(self, start: int) -> int:
        """Parse the markup that begins with "<" there. Returns where it ends."""
        following = self._markup[start + 1 : start + 2]
        if following == "!":
            return self._declaration(start)
        if following == "?":
            return self._until(">", start)
        if following == "/" or following.isalpha():
            return self._tag_at(start)
        self._append("<")
        return start + 1

    def _until(self, end: str, start: int) -> int:
        found = self._find(end, start)
        if found < 0:
            self._append("<")
            return start + 1
        return found + len(end)

    def _declaration(self, start: int) -> int:
        markup = self._markup
        if markup.startswith("<!--", start):
            end = self._find("-->", start + 2)
            return end + 3 if end >= 0 else self._until(">", start)
        if markup.startswith("<![CDATA[", start):
            end = self._find("]]>", start)
            if end >= 0:
                self._append(markup[start + 9 : end])
                return end + 3
        if markup[start + 2 : start + 9].lower() == "doctype":
            end, subset = self._find(">", start), self._find("[", start)
            if 0 <= subset < end:
                close = self._find("]", subset)
                self._check_entities(markup[subset : close if close >= 0 else len(markup)])
                return self._until(">", close if close >= 0 else start)
        return self._until(">", start)

    def _check_entities(self, declarations: str) -> None:
        for match in _ENTITY.finditer(declarations):
            if match[1] + ";" not in html5:
                raise UnreadableDocument(f"it declares an entity, {match[1][:40]!r}; only those of HTML are known")

    def _tag_at(self, start: int) -> int:
        match = self._tag.match(self._markup, start) if self._find(">", start) >= 0 else None
        if match is None and self._tag is _TAG:
            # A quote is never closed. From here on a tag ends at the first ">", so that no search is repeated.
            self._tag = _PLAIN_TAG
            match = _PLAIN_TAG.match(self._markup, start)
        if match is None:
            self._append("<")
            return start + 1
        body = match[0][1:-1]
        name = _NAME.match(body, 1 if body.startswith("/") else 0)
        if name is None:
            return match.end()
        spelled = name[0].lower() if self._is_html else name[0]
        if body.startswith("/"):
            self._end(spelled)
            return match.end()
        return self._start(spelled, body, name.end(), match.end())

    def _start(self, name: str, body: str, attributes_from: int, end: int) -> int:
        self._budget.take()
        if not self._begun and name != "html":
            self._begun = True
            if name in ("title", "meta", "base", "link"):
                self._start("head", "head", 4, end)
        if self._in_head and name not in _HEAD:
            self._end("head")
            self._in_head = False
        self._in_head = self._in_head or (self._is_html and name == "head")
        if self._is_html and name in _ENDS:
            self._close(*_ENDS[name])
        element = Element(name, _attributes(body, attributes_from), self._open[-1])
        self._open[-1].children.append(element)
        if body.endswith("/") or (self._is_html and name in _VOID):
            return end
        if self._is_html and name in _RAW:
            return self._raw(element, end)
        if len(self._open) <= MAX_DEPTH:
            self._open.append(element)
        elif not self._is_html:
            raise UnreadableDocument(f"its elements are nested more than {MAX_DEPTH} deep")
        return end

    def _raw(self, element: Element, start: int) -> int:
        close = re.compile(f"</{element.name}", re.I).search(self._markup, start)
        end = close.start() if close else len(self._markup)
        element.children.append(self._markup[start:end])
        return end

    def _end(self, name: str) -> None:
        if self._close({name}, frozenset()):
            self._in_head = self._in_head and name != "head"

    def _close(self, names: Set[str], scopes: Set[str]) -> bool:
        """End the last open element of the names, and all within, unless one of `scopes` is open within it."""
        for index in range(len(self._open) - 1, 0, -1):
            if self._open[index].name in names:
                del self._open[index:]
                return True
            if self._open[index].name in scopes:
                break
        return False

    def _text(self, text: str) -> None:
        if text:
            self._append(html.unescape(text) if "&" in text else text)

    def _append(self, text: str) -> None:
        if text:
            self._open[-1].children.append(text)


def _attributes(body: str, start: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, double, single, bare in _ATTRIBUTE.findall(body, start):
        value = double or single or bare.rstrip("/")
        found.setdefault(name.lower(), html.unescape(value) if "&" in value else value)
    return found
