"""The plan of an audiobook: its passages in order, with their voices; and an estimate of its length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import regex

from kokoro_server.client import Voice
from kokoro_server.errors import InvalidInput, NothingToSay
from kokoro_server.languages import is_auto
from kokoro_server.longform.books.book import Book, Chapter
from kokoro_server.longform.books.casting import Casting
from kokoro_server.longform.books.options import Options
from kokoro_server.longform.books.passages import Passage, cut
from kokoro_server.text.language_of import LOOKED_AT, language_of

CHARACTERS_PER_SECOND = 14.5  # of English at speed 1, with its pauses
CJK_CHARACTERS_PER_SECOND = 5.0
CJK = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー]")


@dataclass(frozen=True, slots=True)
class PlannedChapter:
    number: int  # in the book, from 0
    chapter: Chapter
    passages: tuple[Passage, ...]

    @property
    def characters(self) -> int:
        return sum(passage.characters for passage in self.passages)


@dataclass(frozen=True, slots=True)
class Plan:
    chapters: tuple[PlannedChapter, ...]
    notes: tuple[str, ...]  # for the user: voices and chapters that may surprise

    @property
    def passages(self) -> list[Passage]:
        return [passage for planned in self.chapters for passage in planned.passages]

    @property
    def characters(self) -> int:
        return sum(planned.characters for planned in self.chapters)

    def title(self, number: int) -> str:
        return next(planned.chapter.title for planned in self.chapters if planned.number == number)


def make_plan(book: Book, options: Options, voices: Sequence[Voice]) -> Plan:
    """Raises InvalidInput for a chapter that the book does not have, and NothingToSay if none of it can be spoken."""
    chosen = range(len(book.chapters)) if options.chapters is None else sorted(options.chapters)
    if chosen and chosen[-1] >= len(book.chapters):
        raise InvalidInput(f"there is no chapter {chosen[-1] + 1}: the book has {len(book.chapters)}", field="chapters")
    language = book.language
    if is_auto(options.language):
        options, language = replace(options, language=None), language or _own_language(book)
    casting = Casting(options, voices)
    planned = tuple(
        PlannedChapter(number, chapter, tuple(cut(number, chapter, casting, options.speed, language)))
        for number, chapter in enumerate(book.chapters)
        if number in chosen
    )
    if not any(each.passages for each in planned):
        raise NothingToSay("the book has nothing that can be spoken", field="text")
    notes = [*casting.notes]
    if unheard := casting.unheard():
        notes.append(f"the text never says that {', '.join(unheard)} speaks: their voices are not used")
    if silent := [repr(each.chapter.title) for each in planned if not each.passages]:
        notes.append(f"nothing is read in {', '.join(silent)}")
    return Plan(planned, tuple(notes))


def _own_language(book: Book) -> str | None:
    """The tag of the language that a book is plainly in, for one that names none."""
    texts, characters = list[str](), 0
    for block in (block for chapter in book.chapters for block in chapter.blocks):
        if characters > LOOKED_AT:
            break
        texts.append(block.text)
        characters += len(block.text)
    found = language_of("\n".join(texts))
    return found.code if found else None


def estimated_seconds(planned: PlannedChapter, speed: float) -> float:
    """The approximate length of a chapter."""
    dense = sum(len(CJK.findall(passage.text)) for passage in planned.passages)
    seconds = dense / CJK_CHARACTERS_PER_SECOND + (planned.characters - dense) / CHARACTERS_PER_SECOND
    return seconds / speed + sum(passage.gap for passage in planned.passages[-1:])
