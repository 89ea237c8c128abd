"""An SSML document as events: tags and text, each with its place in the markup. expat parses; what SSML has no use for
and what only an attack needs, such as entities of one's own, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from xml.parsers import expat

from kokoro_server.errors import InvalidSSML

MAX_DEPTH = 32
MAX_ELEMENTS = 10_000


@dataclass(frozen=True, slots=True)
class Tag:
    """A start tag and its place."""

    name: str
    attributes: Mapping[str, str]
    start: int
    line: int
    column: int

    def error(self, problem: str) -> InvalidSSML:
        return InvalidSSML(f"<{self.name[:40]}> {place(self.line, self.column, self.start)}: {problem}", field="text")


class Handler(Protocol):
    """Receives the events of a document. Places are offsets in the markup."""

    def start(self, tag: Tag) -> None: ...

    def end(self, tag: Tag, position: int) -> None: ...

    def text(self, text: str, start: int, end: int) -> None:
        """A character each, or a single one that is written as several."""


def place(line: int, column: int, character: int) -> str:
    return f"at line {line}, column {column} (character {character})"


class Document:
    def __init__(self, markup: str, handler: Handler) -> None:
        self._markup = markup
        self._handler = handler
        self._open: list[Tag] = []
        self._elements = 0
        self._data = b""
        self._is_ascii = markup.isascii()
        self._byte = self._character = 0  # the same place, as expat counts and as Python does
        self._plain_start = self._plain_end = 0  # of text that the handler has not received yet
        parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuse("a document type and entities of one's own are not allowed")
        parser.ProcessingInstructionHandler = self._refuse("processing instructions are not allowed")
        parser.StartCdataSectionHandler = lambda: self._set_cdata(True)
        parser.EndCdataSectionHandler = lambda: self._set_cdata(False)
        self._parser = parser
        self._in_cdata = False

    def _set_cdata(self, inside: bool) -> None:
        self._in_cdata = inside

    def parse(self) -> None:
        """Raises InvalidSSML for what is not well-formed, and for what the handler or this refuses."""
        try:
            self._data = self._markup.encode()
        except UnicodeEncodeError as error:
            raise InvalidSSML(f"half of a surrogate pair at character {error.start}", field="text") from None
        try:
            self._parser.Parse(self._data, True)
        except expat.ExpatError as error:
            self._seek(self._parser.ErrorByteIndex)
            where = place(error.lineno, error.offset + 1, self._character)
            problem = expat.ErrorString(error.code)
            raise InvalidSSML(
                f"not well-formed XML {where}: {problem}; SSML is <speak>…</speak>", field="text"
            ) from None

    def _seek(self, byte: int) -> int:
        """The offset of the character at this byte, which is never before the last one that was asked for."""
        if self._is_ascii:
            self._character = byte
        else:
            self._character += len(self._data[self._byte : byte].decode("utf-8", "ignore"))
            self._byte = byte
        return self._character

    def _refuse(self, problem: str) -> Callable[..., None]:
        def refuse(*_: object) -> None:
            parser = self._parser
            start = self._seek(parser.CurrentByteIndex)
            where = place(parser.CurrentLineNumber, parser.CurrentColumnNumber + 1, start)
            raise InvalidSSML(f"{problem} ({where})", field="text")

        return refuse

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._flush()
        parser = self._parser
        start = self._seek(parser.CurrentByteIndex)
        tag = Tag(name, attributes, start, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)
        self._elements += 1
        if len(self._open) == MAX_DEPTH:
            raise tag.error(f"more than {MAX_DEPTH} elements within each other")
        if self._elements > MAX_ELEMENTS:
            raise tag.error(f"more than {MAX_ELEMENTS} elements")
        self._open.append(tag)
        self._handler.start(tag)

    def _end(self, _name: str) -> None:
        self._flush()
        start = self._seek(self._parser.CurrentByteIndex)
        self._handler.end(self._open.pop(), start)

    def _text(self, text: str) -> None:
        """expat gives each line apart, and each bracket in CDATA: what is as in the markup is collected first."""
        start = self._seek(self._parser.CurrentByteIndex)
        first = self._markup[start]
        if first == text[0] and (first != "&" or self._in_cdata):
            if start != self._plain_end:
                self._flush()
                self._plain_start = start
            self._plain_end = start + len(text)
            return
        self._flush()
        end = start + 2 if self._markup.startswith("\r\n", start) else start + 1
        self._handler.text(text, start, self._markup.index(";", start) + 1 if first == "&" else end)

    def _flush(self) -> None:
        start, end = self._plain_start, self._plain_end
        if start < end:
            self._plain_start = end
            self._handler.text(self._markup[start:end], start, end)
