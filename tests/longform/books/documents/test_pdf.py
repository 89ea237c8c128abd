"""PDFs: running heads, page numbers, hyphens, outlines."""

from __future__ import annotations

import contextlib

import pypdf
import pytest

from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.books.documents import read_document
from kokoro_server.longform.books.documents.pdf.notes import Chunk, without_notes
from tests.longform.books.documents.pdfs import pdf
from tests.longform.books.documents.whole import check

LINE = "It was a long day and this line of text is quite as full as it can be"
PAGES = [
    ["A SMALL BOOK", "Chapter One", LINE, "and the word some-", "thing was cut.", "A new paragraph", "1"],
    ["A SMALL BOOK", "goes on over the page.", LINE, "with a well-known end.", LINE, "2"],
    ["A SMALL BOOK", "Chapter Two", "Something well-", "known ends.", LINE, "here.", "3"],
    ["A SMALL BOOK", "The 4 of us", "left.", "4"],
]
FACTS = "/Title (A Small Book) /Author (Jane Doe)"
LOCKED = "/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O (" + "a" * 32 + ") /U (" + "b" * 32 + ") >> /ID [(a) (a)]"
ALL = "\n".join(line for page in PAGES for line in page)


@pytest.mark.parametrize("outline", [True, False])
def test_a_book(outline: bool) -> None:
    marks = [("Chapter One", 0), ("Chapter Two", 2)] if outline else []
    book = read_document("book.pdf", pdf(PAGES, marks, FACTS))
    assert (book.title, book.authors, book.language) == ("A Small Book", ("Jane Doe",), "en-GB")
    assert [chapter.title for chapter in book.chapters] == ["Chapter One", "Chapter Two"]
    assert [block.text for block in book.chapters[0].blocks] == [
        "Chapter One",
        f"{LINE} and the word something was cut.",
        "A new paragraph goes on over the page.",
        f"{LINE} with a well-known end.",
        LINE,
    ]
    assert [block.text for block in book.chapters[1].blocks] == [
        "Chapter Two",
        "Something well-known ends.",
        f"{LINE} here.",
        "The 4 of us left.",
    ]
    assert [o.text for o in book.omissions if o.kind == "page number"] == ["1", "2", "3", "4"]
    assert [o.text for o in book.omissions if o.kind == "running head"] == ["A SMALL BOOK"] * 4
    check(book, ALL, silent="-")


def test_notes_at_the_foot_of_a_page_are_left_out() -> None:
    pages = [["Chapter One", f"{LINE}^1 and on", LINE, "to its^12 end.", "1"], [LINE, "The 7 of us left.", "2"]]
    notes = {0: ["1 The first note goes on", "in another line.", "12. The second."], 1: ["* The last, on page 3"]}
    book = read_document("book.pdf", pdf(pages, notes=notes))
    assert [block.text for block in book.chapters[0].blocks][1:] == [
        f"{LINE} and on {LINE} to its end.",
        f"{LINE} The 7 of us left.",
    ]
    left = [(omission.kind, omission.text) for omission in book.omissions if omission.kind != "page number"]
    assert sorted(left) == [
        ("footnote", "* The last, on page 3"),
        ("footnote", "1 The first note goes on in another line."),
        ("footnote", "12. The second."),
        ("footnote reference", "1"),
        ("footnote reference", "12"),
    ]


def test_a_mark_may_stand_apart_from_its_note() -> None:
    text = [Chunk("The text goes on.", 200 - 10 * line, 10.0) for line in range(3)]
    note = [Chunk("1", 53, 5.0), Chunk("See there.\n", 50, 8.0), Chunk("7", 20, 8.0)]
    (page,) = without_notes([[*(Chunk(f"{each.text}\n", each.height, each.size) for each in text), *note]])
    assert page.left == [("footnote", "1See there.")]
    assert page.lines == ["The text goes on."] * 3 + ["7"]


def test_a_scan_has_no_text() -> None:
    with pytest.raises(UnreadableDocument, match="OCR"):
        read_document("scan.pdf", pdf([[], []]))


@pytest.mark.parametrize("content", [b"", b"%PDF-1.4\nnothing", b"not a pdf", pdf(PAGES)[:-400]])
def test_a_broken_one_is_read_or_refused(content: bytes) -> None:
    with contextlib.suppress(UnreadableDocument):
        assert read_document("book.pdf", content).chapters


@pytest.mark.filterwarnings("ignore")
def test_an_encrypted_one_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="encrypted"):
        read_document("book.pdf", pdf(PAGES, more=LOCKED))


def test_what_is_encrypted_with_aes_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many open without a password, and only forbid to print."""

    def decrypt(_reader: object, _password: str) -> None:
        raise pypdf.errors.DependencyError("cryptography>=3.1 is required for AES algorithm")

    monkeypatch.setattr(pypdf.PdfReader, "decrypt", decrypt)
    with pytest.raises(UnreadableDocument, match=r"AES.*pip install cryptography"):
        read_document("book.pdf", pdf(PAGES, more=LOCKED))


def test_what_the_parser_finds_amiss_is_one_remark(caplog: pytest.LogCaptureFixture) -> None:
    book = read_document("book.pdf", b"junk before it\n" * 10 + pdf(PAGES))
    assert [chapter.title for chapter in book.chapters] == ["Chapter One", "Chapter Two"]
    (remark,) = book.remarks
    assert "some of its text may be missing: invalid pdf header" in remark
    assert not caplog.records
    assert read_document("book.pdf", pdf(PAGES)).remarks == ()
