"""A book as one HTML page: chapters are where its headings are."""

from __future__ import annotations

from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.documents import gutenberg, notes
from kokoro_server.longform.books.documents.elements import Budget, Element, parse
from kokoro_server.longform.books.documents.encoding import decode_document
from kokoro_server.longform.books.documents.flow import DocumentFlow, starts_from_headings, with_chapters
from kokoro_server.longform.books.documents.hypertext import Walker


def read(content: bytes, title: str) -> Book:
    text, remarks = decode_document(content, declared=True)
    root = parse(text, Budget())
    head = root.find("head")
    author = _meta(head, "author") or _meta(head, "dc.creator")
    book = Book(
        head.find("title").text() or title,
        authors=(author,) if author else (),
        language=root.find("html").language or _meta(head, "dc.language") or None,
        remarks=remarks,
    )
    return with_elements(book, root)


def with_elements(book: Book, root: Element) -> Book:
    """The book, of which only the metadata is known, with the text of the page."""
    flow = DocumentFlow()
    Walker(flow, notes.linked({"": root}), book.language).walk(root, {})
    return with_chapters(book, starts_from_headings(gutenberg.without_licence(flow.items)))


def _meta(head: Element, name: str) -> str:
    found = (meta.get("content").strip() for meta in head.all("meta") if meta.get("name").lower() == name)
    return next(found, "")
