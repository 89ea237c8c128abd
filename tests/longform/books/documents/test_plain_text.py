"""Plain text as Project Gutenberg has it."""

from __future__ import annotations

import pytest

from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.documents import read_document
from tests.longform.books.documents.whole import check, read_aloud

GUTENBERG = """\
The Project Gutenberg eBook of A Small Book

This ebook is for the use of anyone anywhere in the United States.

Title: A Small Book

Author: Jane Doe

Language: French

*** START OF THE PROJECT GUTENBERG EBOOK A SMALL BOOK ***

Produced by Somebody and the Online Team




A SMALL BOOK

by Jane Doe


CONTENTS

CHAPTER I. The Beginning ....... 1
CHAPTER II. The Middle ......... 12


CHAPTER I.

The Beginning

It was a _very_ long day, and nobody had thought of the well-
known fact that lines are wrapped where they are full, so that a
some-
thing may be cut in two.[1] There was something in it, it was a well-known
thing.

[Illustration: The well]

[Illustration]

[Pg 7]

    How doth the little crocodile
      Improve his shining tail,
    And pour the waters of the Nile

       *       *       *       *       *

After the break there {8} was an array[2] of things, and it was as wide as the
whole of this long line is--
and went on.

[Footnote 1: It may be cut in many
places.

And go on.]


CHAPTER II.

The Middle

Part one of the plan was done, though nobody in all of the town knew of
it.

*** END OF THE PROJECT GUTENBERG EBOOK A SMALL BOOK ***

Updated editions will replace the previous one.
"""


def read(text: str | bytes, name: str = "book.txt") -> Book:
    content = text if isinstance(text, bytes) else text.encode()
    book = read_document(name, content)
    if isinstance(text, str):
        check(book, text, silent="_-")
    return book


def test_a_book_of_project_gutenberg() -> None:
    book = read(GUTENBERG)
    assert (book.title, book.authors, book.language) == ("A Small Book", ("Jane Doe",), "fr")
    assert [chapter.title for chapter in book.chapters] == [
        "A Small Book",
        "CHAPTER I. The Beginning",
        "CHAPTER II. The Middle",
    ]
    assert [(block.kind, block.text) for block in book.chapters[1].blocks] == [
        ("heading", "CHAPTER I."),
        ("heading", "The Beginning"),
        (
            "paragraph",
            "It was a very long day, and nobody had thought of the well-known fact that lines are wrapped where they"
            " are full, so that a something may be cut in two. There was something in it, it was a well-known thing.",
        ),
        ("paragraph", "The well"),
        ("verse", "How doth the little crocodile"),
        ("verse", "Improve his shining tail,"),
        ("verse", "And pour the waters of the Nile"),
        (
            "paragraph",
            "After the break there was an array[2] of things, and it was as wide as the whole of this long line is--and"
            " went on.",
        ),
    ]
    assert book.chapters[1].blocks[-1].after_break
    assert [block.text for block in book.chapters[2].blocks][2:] == [
        "Part one of the plan was done, though nobody in all of the town knew of it."
    ]
    kinds = {omission.kind for omission in book.omissions}
    assert kinds == {
        "licence",
        "table of contents",
        "footnote",
        "footnote reference",
        "illustration mark",
        "page number",
        "break",
    }
    assert "Gutenberg" not in read_aloud(book)


def test_numerals_that_count_up_are_headings() -> None:
    book = read("".join(f"{number}\n\nSome text of this chapter.\n\n" for number in ("I", "II", "III")))
    assert [chapter.title for chapter in book.chapters] == ["I", "II", "III"]


def test_capitals_are_headings_where_nothing_else_is() -> None:
    book = read("A text.\n\n\n\nTHE FIRST DAY\n\nIt rained.\n\n\n\nTHE SECOND DAY\n\nIt rained.\n")
    assert [chapter.title for chapter in book.chapters] == ["book", "THE FIRST DAY", "THE SECOND DAY"]


def test_chinese_and_japanese_headings() -> None:
    book = read("第一章 春\n\n春天来了，\n花开了。\n\n第二章 夏\n\n夏天来了。\n")
    assert [chapter.title for chapter in book.chapters] == ["第一章 春", "第二章 夏"]
    assert book.chapters[0].blocks[1].text == "春天来了，花开了。"


def test_lines_that_are_not_wrapped_are_paragraphs() -> None:
    line = "This is a paragraph that is one line, however long it may become. " * 5
    book = read(f"{line}\n{line}\n{line}\n")
    assert [block.text for block in book.chapters[0].blocks] == [line.strip()] * 3


def test_paragraphs_that_only_their_first_lines_tell_apart() -> None:
    page = "    It was a day as any other,\nand nobody came.\n    “Hello?”\n    “Who is it?” he said, and\nwaited.\n"
    said = ["It was a day as any other, and nobody came.", "“Hello?”", "“Who is it?” he said, and waited."]
    assert [block.text for block in read(page * 2).chapters[0].blocks] == said * 2
    verse = "How doth the crocodile\n  Improve his shining tail,\nAnd pour the waters of the Nile\n  On all of it!\n"
    assert [block.text for block in read(verse).chapters[0].blocks] == [" ".join(verse.split())]


def test_encodings() -> None:
    assert read_aloud(read("Café".encode("utf-16"))) == "Café"
    assert read_aloud(read(b"\xef\xbb\xbfCaf\xc3\xa9")) == "Café"
    book = read(b"\x93Caf\xe9\x94")
    assert read_aloud(book) == "“Café”"
    assert book.remarks == ("it is not UTF-8: read as Windows-1252",)
    assert read_document("a.html", b'<meta charset="iso-8859-2"><p>\xb1').chapters[0].blocks[0].text == "ą"


@pytest.mark.parametrize(
    ("text", "encoding", "name"),
    [
        ("吾輩は猫である。名前はまだ無い。", "cp932", "Shift JIS"),
        ("吾輩は猫である。名前はまだ無い。", "euc_jp", "EUC-JP"),
        ("今天天气很好，我有三个苹果。", "gbk", "GB 18030"),
        ("今天天氣很好，我有三個蘋果。", "big5", "Big5"),
        ("Plain text, without a mark — as some have it.", "utf-16-le", "UTF-16"),
        ("नमस्ते, आप कैसे हैं?", "utf-16-be", "UTF-16"),
        ("ÀÉÎ ÄÖÜ äöü", "cp1252", "Windows-1252"),
    ],
)
def test_encodings_that_nothing_tells(text: str, encoding: str, name: str) -> None:
    book = read(text.encode(encoding))
    assert read_aloud(book) == text
    assert book.remarks == (f"it is not UTF-8: read as {name}",)


def test_a_broken_character_does_not_make_chinese_another_encoding() -> None:
    text = "今天天气很好，我有三个苹果。" * 5
    assert read_aloud(read(text.encode() + b"\xe4\xbb")).startswith(text)
