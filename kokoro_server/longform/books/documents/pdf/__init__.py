"""The text of a PDF, by pypdf, without page numbers, running heads and notes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any

from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.documents import gutenberg
from kokoro_server.longform.books.documents.flow import DocumentFlow, starts_from_headings, with_chapters
from kokoro_server.longform.books.documents.limits import MAX_PAGES, MAX_TEXT, MIB
from kokoro_server.longform.books.documents.pdf.notes import Chunk, without_notes
from kokoro_server.longform.books.documents.pdf.pages import without_furniture
from kokoro_server.longform.books.documents.pdf.paragraphs import OutlineEntry, ParagraphWriter

if TYPE_CHECKING:
    from pypdf import PdfReader

_DEEPEST = 6  # levels of an outline
_MOST_ENTRIES = 20_000
_LONGEST_COMPLAINT = 200  # characters


def read(content: bytes, title: str) -> Book:
    import pypdf  # takes half a second

    try:
        with _complaints() as complaints:
            reader = pypdf.PdfReader(BytesIO(content))
            if reader.is_encrypted and not reader.decrypt(""):
                raise UnreadableDocument("it is encrypted with a password; only open documents can be read")
            return _read(reader, title, complaints)
    except (UnreadableDocument, MemoryError):
        raise
    except pypdf.errors.DependencyError:
        raise UnreadableDocument(
            "it is encrypted with AES; to read it, if it opens without a password: pip install cryptography"
        ) from None
    # A stranger's bytes may raise anything in a parser of this size.
    except Exception as error:
        raise UnreadableDocument(f"it is not a PDF, or broken: {type(error).__name__}: {error}"[:300]) from error


class _Complaints(logging.Handler):
    """Counts the parser's warnings: thousands, for some files."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first = ""
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.first = self.first or record.getMessage()[:_LONGEST_COMPLAINT]
        self.count += 1

    def remarks(self) -> tuple[str, ...]:
        if not self.count:
            return ()
        more = f" (and {self.count - 1:,} more)" if self.count > 1 else ""
        return (f"it is not a valid PDF, and some of its text may be missing: {self.first}{more}",)


@contextmanager
def _complaints() -> Iterator[_Complaints]:
    """Collects the parser's warnings for one remark, in place of the log."""
    log, handler = logging.getLogger("pypdf"), _Complaints()
    propagated, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield handler
    finally:
        log.removeHandler(handler)
        log.propagate = propagated


def _read(reader: PdfReader, title: str, complaints: _Complaints) -> Book:
    if len(reader.pages) > MAX_PAGES:
        raise UnreadableDocument(f"it has more than {MAX_PAGES} pages")
    pages = without_notes(list(_pages(reader)))
    if not any(line for page in pages for line in page.lines):
        raise UnreadableDocument(
            "it has no text, only pictures of it (a scan): its text must be recognised (OCR) first"
        )
    flow = DocumentFlow()
    outline = list(islice(_outline(reader), _MOST_ENTRIES))
    ParagraphWriter(without_furniture(pages), outline, flow).write()
    metadata, language = reader.metadata, reader.root_object.get("/Lang")
    author = _one_line(metadata.author) if metadata else ""
    book = Book(
        (_one_line(metadata.title) if metadata else "") or title,
        authors=(author,) if author else (),
        language=str(language) if language else None,
        remarks=complaints.remarks(),
    )
    items = gutenberg.without_licence(flow.items)
    return with_chapters(book, items if outline else starts_from_headings(items))


def _one_line(text: object) -> str:
    return " ".join(str(text or "").split())


def _pages(reader: PdfReader) -> Iterator[list[Chunk]]:
    left = MAX_TEXT
    for page in reader.pages:
        chunks: list[Chunk] = []

        def visit(
            text: str, cm: list[float], tm: list[float], _font: object, size: float, to: list[Chunk] = chunks
        ) -> None:
            # The matrices of the page and of the text give its place and size.
            height = tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
            to.append(Chunk(text.replace("\r", "\n"), height, abs(size * (tm[2] * cm[1] + tm[3] * cm[3]))))

        left -= len(page.extract_text(visitor_text=visit) or "")
        if left < 0:
            raise UnreadableDocument(f"its text is larger than {MAX_TEXT // MIB} MiB")
        yield chunks


def _outline(reader: PdfReader) -> Iterator[OutlineEntry]:
    stack: list[tuple[Iterator[Any], int]] = [(iter(reader.outline), 1)]
    while stack:
        entries, level = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
        elif isinstance(entry, list):
            if level < _DEEPEST:
                stack.append((iter(entry), level + 1))
        else:
            page = reader.get_destination_page_number(entry)
            words = _one_line(entry.title)
            if page is not None and page >= 0 and words:
                yield OutlineEntry(words, level, page)
