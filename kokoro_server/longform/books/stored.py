"""A book as JSON, so that a document is parsed once, in a process of its own."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import asdict

from kokoro_server.longform.books.book import Block, Book, Chapter, Omission, Picture

_BLOCKS = "passages"  # the key of a chapter's blocks: files of earlier versions have it


def to_json(book: Book) -> str:
    def encoded(value: object) -> str:
        assert isinstance(value, bytes)
        return b64encode(value).decode()

    facts = asdict(book)
    for chapter in facts["chapters"]:
        chapter[_BLOCKS] = chapter.pop("blocks")
    return json.dumps(facts, default=encoded, separators=(",", ":"))


def from_json(text: str | bytes) -> Book:
    """Reads what `to_json` wrote."""
    facts = json.loads(text)
    for chapter in facts["chapters"]:
        chapter["blocks"] = tuple(Block(**block) for block in chapter.pop(_BLOCKS))
    cover = facts.pop("cover")
    return Book(
        **facts
        | {
            "chapters": tuple(Chapter(**chapter) for chapter in facts["chapters"]),
            "authors": tuple(facts["authors"]),
            "cover": cover and Picture(cover["media_type"], b64decode(cover["content"])),
            "omissions": tuple(Omission(**omission) for omission in facts["omissions"]),
            "remarks": tuple(facts["remarks"]),
        }
    )
