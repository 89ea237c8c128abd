"""Real books: what is spoken of them is what is written, in order."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.documents import read_document
from kokoro_server.longform.books.options import BookFiles, Options
from kokoro_server.longform.books.passages import chapter_text
from kokoro_server.longform.books.plan import make_plan
from kokoro_server.longform.books.production import produce
from tests.longform.books import library
from tests.longform.books.doubles import VOICES, Tones


def read(name: str) -> Book:
    return read_document(name, library.BOOKS[name]())


def text_of(book: Book) -> list[str]:
    return " ".join(map(chapter_text, book.chapters)).split()


@pytest.mark.parametrize("name", library.BOOKS)
@pytest.mark.parametrize("options", [Options(), Options(cast={"Alice": "af_bella"}, dialogue_voice="bf_emma")])
def test_passages_are_all_of_the_book(name: str, options: Options) -> None:
    book = read(name)
    texts = {number: chapter_text(chapter) for number, chapter in enumerate(book.chapters)}
    said = [
        texts[passage.chapter][origin.source : origin.source_end]
        for passage in make_plan(book, options, VOICES).passages
        for origin in passage.origins
    ]
    assert "".join("".join(said).split()) == "".join(text_of(book))


async def test_a_real_epub_becomes_an_audiobook(tmp_path: Path) -> None:
    book, path = read("alice.epub"), tmp_path / "alice.m4b"
    backend = Tones(parallel=2)
    chapters = frozenset({0, 1})
    result = await produce(book, Options(chapters=chapters), BookFiles(path), backend, tmp_path / "work")
    with av.open(str(path)) as container:
        titles = [chapter["metadata"]["title"] for chapter in container.chapters()]
        cover = next(bytes(packet) for packet in container.demux(video=0) if packet.size)
        assert container.metadata["artist"] == "Lewis Carroll"
    assert titles == [book.chapters[number].title for number in sorted(chapters)]
    assert book.cover
    assert cover == book.cover.content
    assert result.notes == ()
