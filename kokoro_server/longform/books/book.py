"""A book to be read aloud: chapters of blocks, and omissions."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass
from typing import Literal

BlockKind = Literal["heading", "paragraph", "verse", "quotation", "item"]
_BLOCKS = "passages"  # the key of a chapter's blocks in JSON: files of earlier versions have it


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, a paragraph, a line of verse, an item of a list."""

    text: str
    kind: BlockKind = "paragraph"
    language: str | None = None  # a BCP 47 tag, if not the chapter's
    after_break: bool = False  # a mark such as * * * stands before it, which ends a scene


@dataclass(frozen=True, slots=True)
class Chapter:
    """`level` is the depth in the table of contents, from 1. The heading, if any, is one of the blocks."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 1
    language: str | None = None  # a BCP 47 tag, if not the book's


@dataclass(frozen=True, slots=True)
class Omission:
    """Text of the document that is not read aloud, such as a footnote or a page number."""

    kind: str  # in the singular, as users see it
    text: str
    chapter: int  # from 0


@dataclass(frozen=True, slots=True)
class Picture:
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Book:
    title: str
    chapters: tuple[Chapter, ...] = ()
    authors: tuple[str, ...] = ()
    language: str | None = None  # a BCP 47 tag, if the document has one
    cover: Picture | None = None
    omissions: tuple[Omission, ...] = ()
    remarks: tuple[str, ...] = ()  # for the user, such as a guessed encoding

    def to_json(self) -> str:
        def encoded(value: object) -> str:
            assert isinstance(value, bytes)
            return b64encode(value).decode()

        facts = asdict(self)
        for chapter in facts["chapters"]:
            chapter[_BLOCKS] = chapter.pop("blocks")
        return json.dumps(facts, default=encoded, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Book:
        facts = json.loads(text)
        for chapter in facts["chapters"]:
            chapter["blocks"] = tuple(Block(**block) for block in chapter.pop(_BLOCKS))
        cover = facts.pop("cover")
        return cls(
            facts.pop("title"),
            chapters=tuple(Chapter(**chapter) for chapter in facts.pop("chapters")),
            omissions=tuple(Omission(**omission) for omission in facts.pop("omissions")),
            cover=cover and Picture(cover["media_type"], b64decode(cover["content"])),
            authors=tuple(facts.pop("authors")),
            remarks=tuple(facts.pop("remarks")),
            **facts,
        )
