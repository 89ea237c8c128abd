"""Text that odd files have at odd places: it is read, or told as left out."""

from __future__ import annotations

import unicodedata

import pytest

from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.documents import read_document
from tests.longform.books.documents.test_docx import W, docx, paragraph
from tests.longform.books.library import epub, package, page, zipped

XHTML = 'media-type="application/xhtml+xml"'


def texts(book: Book) -> list[str]:
    return [block.text for chapter in book.chapters for block in chapter.blocks]


def left(book: Book) -> list[tuple[str, str]]:
    return [(omission.kind, omission.text) for omission in book.omissions]


def an_epub(files: dict[str, str | bytes], manifest: dict[str, str], spine: list[str], toc: str = "") -> Book:
    references = "".join(f'<itemref idref="{name}"/>' for name in spine)
    opf = package("<dc:title>Odd</dc:title>", manifest, f'<spine toc="{toc}">{references}</spine>')
    content = epub({"OPS/package.opf": opf, **{f"OPS/{name}": content for name, content in files.items()}})
    return read_document("odd.epub", content)


def test_files_of_the_spine_that_have_another_type_or_none() -> None:
    book = an_epub(
        {
            "a.xhtml": page("<p>One.</p>"),
            "b.html": page("<p>Two.</p>"),
            "c.svg": "<svg><text>Three.</text></svg>",
            "d.txt": "Four.",
        },
        {
            "a": f'href="a.xhtml" {XHTML}',
            "b": 'href="b.html" media-type="application/octet-stream"',
            "c": 'href="c.svg" media-type="image/svg+xml"',
            "d": 'href="d.txt" media-type="text/plain"',
        },
        ["a", "b", "c", "d", "e"],
    )
    assert texts(book) == ["One.", "Two.", "Three."]
    assert left(book) == [("file that is no text", "OPS/d.txt"), ("file that is missing", "e")]


def test_names_in_an_archive_are_found_however_they_are_spelled() -> None:
    manifest = {"a": f'href="K%C3%A9.xhtml" {XHTML}'}
    decomposed = unicodedata.normalize("NFD", "Ké.xhtml")
    assert texts(an_epub({decomposed: page("<p>One.</p>")}, manifest, ["a"])) == ["One."]
    opf = package("", manifest, '<spine><itemref idref="a"/></spine>')
    content = epub({"OPS/package.opf": opf, "OPS/K--.xhtml": page("<p>One.</p>")})
    unflagged = content.replace(b"K--.xhtml", "Ké.xhtml".encode())
    assert texts(read_document("odd.epub", unflagged)) == ["One."]


def test_a_cover_that_is_too_large_costs_only_itself() -> None:
    book = an_epub(
        {"a.xhtml": page("<p>One.</p>"), "c.png": b"\0" * (5 << 20)},
        {"a": f'href="a.xhtml" {XHTML}', "c": 'href="c.png" media-type="image/png" properties="cover-image"'},
        ["a"],
    )
    assert texts(book) == ["One."]
    assert book.cover is None
    assert book.remarks == ("its cover is left out: it is larger than 16 MiB, or broken",)


def test_contents_that_only_the_spine_names_and_a_place_that_is_the_body() -> None:
    ncx = (
        "<ncx><navMap><navPoint><navLabel><text>First</text></navLabel><content src='a.xhtml#all'/></navPoint>"
        "<navPoint><navLabel><text>Second</text></navLabel><content src='a.xhtml#two'/></navPoint></navMap></ncx>"
    )
    book = an_epub(
        {"a.xhtml": page("<p>One.</p><p id='two'>Two.</p>", ' id="all"'), "t.ncx": ncx},
        {"a": f'href="a.xhtml" {XHTML}', "t": 'href="t.ncx" media-type="text/xml"'},
        ["a"],
        toc="t",
    )
    assert [chapter.title for chapter in book.chapters] == ["First", "Second"]


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("Before <html><body><p>One</p></body><p>Outside</p><body><p>Two</p></body></html> After", 5),
        ("<html><head><title>T</title><p>One</p><p>Two</p></html>", 2),
        ("<html><head><title>T</title><body><p>One</p></body></html>", 1),
        ("<html><head><title>T<body><p>One</p></body></html>", 1),
    ],
)
def test_text_beside_the_body_of_a_page(markup: str, expected: int) -> None:
    book = read_document("page.html", markup.encode())
    assert len(texts(book)) == expected
    assert book.title in ("T", "page")
    assert left(book) == []


def test_powers_are_no_longer_numbers() -> None:
    markup = "<p>10<sup>6</sup> m<sup>2</sup>, the 1<sup>st</sup>, a word<sup>4</sup>"
    assert texts(read_document("page.html", markup.encode())) == ["10⁶ m², the 1st, a word4"]


def test_formulas_are_read_without_their_source() -> None:
    markup = "<p><math><mi>x</mi><annotation encoding='application/x-tex'>\\x_{i}</annotation></math> is there."
    book = read_document("page.html", markup.encode())
    assert texts(book) == ["x is there."]
    assert left(book) == [("source of a formula", "\\x_{i}")]


def test_formulas_ruby_and_powers_of_word() -> None:
    high = "<w:r><w:rPr><w:vertAlign w:val='superscript'/></w:rPr><w:t>6</w:t></w:r>"
    said, base = "<w:rt><w:r><w:t>kan</w:t></w:r></w:rt>", "<w:rubyBase><w:r><w:t>漢</w:t></w:r></w:rubyBase>"
    ruby = f"<w:r><w:ruby>{said}{base}</w:ruby></w:r>"
    book = read_document(
        "a.docx",
        docx(
            paragraph("10", more=high)
            + "<w:p><m:oMath><m:r><m:t>x+y</m:t></m:r></m:oMath></w:p>"
            + paragraph("A ", more=ruby)
        ),
    )
    assert texts(book) == ["10⁶", "x+y", "A 漢"]
    assert ("ruby annotation", "kan") in left(book)


def test_the_text_of_word_under_another_name_and_comments() -> None:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    content = zipped(
        {
            "_rels/.rels": f'<Relationships><Relationship Type="{kind}" Target="word/document2.xml"/></Relationships>',
            "word/document2.xml": f"<w:document {W}><w:body>{paragraph('Hello.')}</w:body></w:document>",
            "word/comments.xml": f"<w:comments {W}><w:comment>{paragraph('Is it?')}</w:comment></w:comments>",
        }
    )
    book = read_document("a.docx", content)
    assert texts(book) == ["Hello."]
    assert left(book) == [("comment", "Is it?")]


def test_numbers_at_the_beginning_of_a_line_of_markdown() -> None:
    source = "He was born in\n1986. Then came\n12) more.\n\n1986. A year.\n\n3. Three.\n4. Four.\n\nText\n1. One.\n"
    assert texts(read_document("a.md", source.encode())) == [
        "He was born in 1986. Then came 12) more.",
        "1986. A year.",
        "Three.",
        "Four.",
        "Text",
        "One.",
    ]


def test_addresses_and_tables_of_markdown() -> None:
    source = "Ask <me@example.org> or [him](http://x/(y)).\n\nName | Age\n---|:-:\nAnn | 5\n\nEnd.\n"
    assert texts(read_document("a.md", source.encode())) == [
        "Ask me@example.org or him.",
        "Name",
        "Age",
        "Ann",
        "5",
        "End.",
    ]


def test_a_broken_byte_does_not_make_all_of_a_text_another_encoding() -> None:
    book = read_document("a.txt", "He said “yes” and —".encode() + b" caf\xe9.")
    assert texts(book) == ["He said “yes” and — café."]
    assert book.remarks == ("it is not UTF-8: read as UTF-8 and, where it is none, Windows-1252",)
    book = read_document("a.txt", "Élan, café, naïve.".encode("cp1252"))
    assert texts(book) == ["Élan, café, naïve."]


def test_page_numbers_between_dashes() -> None:
    book = read_document("a.txt", b"One.\n\n- 12 -\n\nTwo, 3 - 4.\n\n-- 5 --\n")
    assert texts(book) == ["One.", "Two, 3 - 4.", "-- 5 --"]
    assert [each.text for each in book.omissions] == ["- 12 -"]


@pytest.mark.parametrize(
    "heading",
    ["CHAPTER THIRTY", "Chapter Forty-Two. The End", "CHAPTER THE SIXTH", "Book Fourth", "Interlude", "Author’s Note"],
)
def test_headings_in_words(heading: str) -> None:
    source = f"CHAPTER ONE\n\nIt was a long day, and it ended.\n\n\n{heading}\n\nIt was over, and all went home.\n"
    assert read_document("a.txt", source.encode()).chapters[-1].title == heading


@pytest.mark.parametrize("opening", ["", "<!DOCTYPE html>\n<html>", "<html>\n<head>"])
def test_the_tags_of_the_head_of_a_page_may_be_left_out(opening: str) -> None:
    page = f"{opening}\n<meta name=author content='Jane Doe'><title>A Book</title><link href=x><p>Text.</p><p>More."
    book = read_document("page.html", page.encode())
    assert (book.title, book.authors) == ("A Book", ("Jane Doe",))
    assert [block.text for block in book.chapters[0].blocks] == ["Text.", "More."]


def test_a_title_within_the_body_is_text() -> None:
    book = read_document("page.html", b"<p>Text.</p><title>Not of the book</title>")
    assert book.title == "page"
    assert [block.text for block in book.chapters[0].blocks] == ["Text.", "Not of the book"]
