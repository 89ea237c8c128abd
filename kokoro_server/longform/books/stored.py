"""A book as JSON, so that a document is parsed once and by a process of its own."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import asdict

from kokoro_server.longform.books.book import Book, Chapter, Omission, Passage, Picture


def to_json(book: Book) -> str:
    def encoded(value: object) -> str:
        assert isinstance(value, bytes)
        return b64encode(value).decode()

    return json.dumps(asdict(book), default=encoded, separators=(",", ":"))


def from_json(text: str | bytes) -> Book:
    """Of what `to_json` has written."""
    told = json.loads(text)
    cover = told["cover"]
    return Book(
        title=told["title"],
        chapters=tuple(
            Chapter(**chapter | {"passages": tuple(Passage(**passage) for passage in chapter["passages"])})
            for chapter in told["chapters"]
        ),
        authors=tuple(told["authors"]),
        language=told["language"],
        cover=cover and Picture(cover["media_type"], b64decode(cover["content"])),
        omissions=tuple(Omission(**omission) for omission in told["omissions"]),
        remarks=tuple(told["remarks"]),
    )
