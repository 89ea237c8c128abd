"""That nothing of a document is lost, seen by another parser than the one that reads it."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

from kokoro_server.longform.books.book import Book

IGNORED = {*"\u00ad\u200b\ufeff\u2060"}
POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")  # as which numbers that are set high are read


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._in_head = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_head = self._in_head or tag == "head"

    def handle_endtag(self, tag: str) -> None:
        self._in_head = self._in_head and tag != "head"

    def handle_data(self, data: str) -> None:
        if not self._in_head:
            self.pieces.append(data)


def html_text(markup: str) -> str:
    parser = _Text()
    parser.feed(markup)
    parser.close()
    return "".join(parser.pieces)


def letters(text: str) -> str:
    return "".join(
        character for character in text.translate(POWERS) if not character.isspace() and character not in IGNORED
    )


def read_aloud(book: Book) -> str:
    return " ".join(block.text for chapter in book.chapters for block in chapter.blocks)


def check(book: Book, document: str, silent: str = "") -> None:
    """All text of the document is read, in its order, or told as left out; `silent` are signs that are neither."""
    original = letters(document)
    for sign in silent:
        original = original.replace(sign, "")
    spoken = letters(read_aloud(book))
    for sign in silent:
        spoken = spoken.replace(sign, "")
    rest = iter(original)
    for place, character in enumerate(spoken):
        assert character in rest, f"not in the document, or out of order: …{spoken[place - 40 : place + 40]!r}"
    left = letters(" ".join(omission.text for omission in book.omissions))
    for sign in silent:
        left = left.replace(sign, "")
    assert Counter(original) == Counter(spoken) + Counter(left)
