"""A book to be read aloud: chapters of blocks, and omissions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BlockKind = Literal["heading", "paragraph", "verse", "quotation", "item"]


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
