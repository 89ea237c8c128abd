"""The text of a PDF, by pypdf: pages to paragraphs, without what stands on each of them."""

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
from kokoro_server.longform.books.documents.flow import About, DocumentFlow, book, starts_from_headings
from kokoro_server.longform.books.documents.limits import MAX_PAGES, MAX_TEXT, MIB
from kokoro_server.longform.books.documents.pdf.notes import Chunk, without_notes
from kokoro_server.longform.books.documents.pdf.pages import without_furniture
from kokoro_server.longform.books.documents.pdf.paragraphs import ChapterStart, OmittedLine, paragraphs

if TYPE_CHECKING:
    from pypdf import PdfReader

_DEEPEST = 6  # levels of an outline
_MOST_MARKS = 20_000
_LONGEST_COMPLAINT = 200  # characters


def read(content: bytes, title: str) -> Book:
    import pypdf  # half a second that other documents need not wait for

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
    # Whatever a stranger's bytes make of a parser of this size.
    except Exception as error:
        raise UnreadableDocument(f"it is not a PDF, or broken: {type(error).__name__}: {error}"[:300]) from error


class _Complaints(logging.Handler):
    """What the parser finds amiss: thousands of lines, for some files."""

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
        return (f"it is not as a PDF should be, and some of its text may be missing: {self.first}{more}",)


@contextmanager
def _complaints() -> Iterator[_Complaints]:
    """They are told as one remark, and not in the log."""
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
    marks = list(islice(_marks(reader), _MOST_MARKS))
    for item in paragraphs(without_furniture(pages), marks):
        if isinstance(item, ChapterStart):
            flow.start(item.title, item.level)
        elif isinstance(item, OmittedLine):
            flow.leave(item.kind, item.text)
        else:
            flow.text(item.text, "heading" if item.rank else "paragraph", rank=item.rank)
    metadata = reader.metadata
    author = " ".join(str(metadata.author or "").split()) if metadata else ""
    told = " ".join(str(metadata.title or "").split()) if metadata else ""
    language = reader.root_object.get("/Lang")
    about = About(
        told or title,
        (author,) if author else (),
        str(language) if language else None,
        remarks=complaints.remarks(),
    )
    items = gutenberg.without_licence(flow.items)
    return book(items if marks else starts_from_headings(items), about)


def _pages(reader: PdfReader) -> Iterator[list[Chunk]]:
    left = MAX_TEXT
    for page in reader.pages:
        chunks: list[Chunk] = []

        def visit(
            text: str, cm: list[float], tm: list[float], _font: object, size: float, to: list[Chunk] = chunks
        ) -> None:
            # Two matrices, of the page and of the text, tell where it stands and how large it is.
            height = tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
            to.append(Chunk(text.replace("\r", "\n"), height, abs(size * (tm[2] * cm[1] + tm[3] * cm[3]))))

        left -= len(page.extract_text(visitor_text=visit) or "")
        if left < 0:
            raise UnreadableDocument(f"its text is larger than {MAX_TEXT // MIB} MiB")
        yield chunks


def _marks(reader: PdfReader) -> Iterator[ChapterStart]:
    """The outline: where chapters begin."""
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
            words = " ".join(str(entry.title).split())
            if page is not None and page >= 0 and words:
                yield ChapterStart(words, level, page)
