"""A book, as it is read aloud: chapters of blocks, and what was left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

BlockKind = Literal["heading", "paragraph", "verse", "quotation", "item"]


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two breaks: a heading, a paragraph, a line of verse, an item of a list."""

    text: str
    kind: BlockKind = "paragraph"
    language: str | None = None  # a BCP 47 tag, where it is not the chapter's
    after_break: bool = False  # a mark such as * * * stands before it: a scene ends


@dataclass(frozen=True, slots=True)
class Chapter:
    """`level` is its depth in the table of contents, from 1. Its heading is among the blocks, if it has one."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 1
    language: str | None = None  # a BCP 47 tag, where it is not the book's

    @property
    def characters(self) -> int:
        return sum(len(block.text) for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Omission:
    """What is in the document and is not read aloud, such as a footnote or a page number."""

    kind: str  # in the singular, as users are told of it
    text: str
    chapter: int  # its number, from 0


@dataclass(frozen=True, slots=True)
class Picture:
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Book:
    title: str
    chapters: tuple[Chapter, ...]
    authors: tuple[str, ...] = ()
    language: str | None = None  # a BCP 47 tag, if the document tells it
    cover: Picture | None = None
    omissions: tuple[Omission, ...] = field(default=())
    remarks: tuple[str, ...] = ()  # what a user should know of how it was read, such as a guessed encoding
