"""Documents to books: EPUB, plain text, Markdown, HTML, PDF and Word's .docx.

Documents may come from strangers: sizes are bounded, time is linear, and nothing is fetched from a network.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath

from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.documents import docx, epub, markdown, pdf, plain_text, web_page
from kokoro_server.longform.books.documents.limits import MAX_DOCUMENT, MIB

_READERS: dict[str, Callable[[bytes, str], Book]] = {
    ".epub": epub.read,
    ".txt": plain_text.read,
    ".md": markdown.read,
    ".markdown": markdown.read,
    ".html": web_page.read,
    ".htm": web_page.read,
    ".xhtml": web_page.read,
    ".pdf": pdf.read,
    ".docx": docx.read,
}
SUFFIXES = tuple(_READERS)


def read_book(path: Path) -> Book:
    """Read a file. Takes a while: call it in a thread. Raises UnreadableDocument."""
    _reader(path.name)
    try:
        if path.stat().st_size > MAX_DOCUMENT:
            raise _too_large(path.name)
        content = path.read_bytes()
    except OSError as error:
        raise UnreadableDocument(f"{path}: {error.strerror}") from error
    return read_document(path.name, content)


def read_document(name: str, content: bytes) -> Book:
    """Read the content of a file with that name. Takes a while: call it in a thread. Raises UnreadableDocument."""
    read = _reader(name)
    if len(content) > MAX_DOCUMENT:
        raise _too_large(name)
    try:
        return read(content, PurePath(name).stem.replace("_", " "))
    except UnreadableDocument as error:
        raise UnreadableDocument(f"{name[:200]}: {error.message}", field=error.field) from error


def _reader(name: str) -> Callable[[bytes, str], Book]:
    reader = _READERS.get(PurePath(name).suffix.lower())
    if reader is None:
        raise UnreadableDocument(f"{name[:200]!r} is not a document that can be read: {', '.join(SUFFIXES)} are")
    return reader


def _too_large(name: str) -> UnreadableDocument:
    return UnreadableDocument(f"{name[:200]}: it is larger than {MAX_DOCUMENT // MIB} MiB")
