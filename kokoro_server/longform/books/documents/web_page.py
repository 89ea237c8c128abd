"""A book as one HTML page: chapters are where its headings are."""

from __future__ import annotations

from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.documents import gutenberg, notes
from kokoro_server.longform.books.documents.elements import Budget, Element, parse
from kokoro_server.longform.books.documents.encoding import decode
from kokoro_server.longform.books.documents.flow import About, DocumentFlow, book, starts_from_headings
from kokoro_server.longform.books.documents.hypertext import Walker
from kokoro_server.longform.books.documents.limits import MAX_TEXT, MIB


def read(content: bytes, title: str) -> Book:
    if len(content) > MAX_TEXT:
        raise UnreadableDocument(f"its text is larger than {MAX_TEXT // MIB} MiB")
    text, guessed = decode(content, declared=True)
    remarks = (f"it is not UTF-8 and does not say what it is: read as {guessed}",) if guessed else ()
    root = parse(text, Budget())
    html = root.first("html")
    language = (html.get("xml:lang") or html.get("lang")) if html is not None else ""
    head = root.first("head")
    authors = _meta(head, "author") or _meta(head, "dc.creator")
    about = About(
        _title(head) or title,
        (authors,) if authors else (),
        language or _meta(head, "dc.language") or None,
        remarks=remarks,
    )
    return from_elements(root, about)


def from_elements(root: Element, about: About) -> Book:
    flow = DocumentFlow()
    Walker(flow, notes.linked({"": root}), about.language).walk(root, {})
    return book(starts_from_headings(gutenberg.without_licence(flow.items)), about)


def _title(head: Element | None) -> str:
    title = head.first("title") if head is not None else None
    return title.text() if title is not None else ""


def _meta(head: Element | None, name: str) -> str:
    metas = head.all("meta") if head is not None else ()
    return next((meta.get("content").strip() for meta in metas if meta.get("name").lower() == name), "")
