"""The plan of an audiobook: what is spoken, by whom, in which order; and how long it will take."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import regex

from kokoro_server.client import Voice
from kokoro_server.errors import InvalidInput, NothingToSay
from kokoro_server.longform.books.book import Book, Chapter
from kokoro_server.longform.books.casting import Casting
from kokoro_server.longform.books.options import Options
from kokoro_server.longform.books.passages import Passage, cut

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
    notes: tuple[str, ...]  # what a user may not expect

    @property
    def passages(self) -> list[Passage]:
        return [passage for planned in self.chapters for passage in planned.passages]

    @property
    def characters(self) -> int:
        return sum(planned.characters for planned in self.chapters)

    def title(self, number: int) -> str:
        return next(planned.chapter.title for planned in self.chapters if planned.number == number)


def make_plan(book: Book, options: Options, voices: Sequence[Voice]) -> Plan:
    """Raises an error for chapters that the book does not have, and if nothing in them can be spoken."""
    chosen = range(len(book.chapters)) if options.chapters is None else sorted(options.chapters)
    if chosen and chosen[-1] >= len(book.chapters):
        raise InvalidInput(f"there is no chapter {chosen[-1] + 1}: the book has {len(book.chapters)}", field="chapters")
    casting = Casting(options, voices)
    planned = tuple(
        PlannedChapter(number, chapter, tuple(cut(number, chapter, casting, options.speed, book.language)))
        for number, chapter in enumerate(book.chapters)
        if number in chosen
    )
    notes = [*casting.notes]
    if unheard := casting.unheard():
        notes.append(f"the text does not tell of {', '.join(unheard)} speaking: their voices are not used")
    plan = Plan(planned, tuple(notes))
    if not plan.passages:
        raise NothingToSay("there is nothing in the book that can be spoken", field="text")
    silent = [f"{each.chapter.title!r}" for each in planned if not each.passages]
    if silent:
        plan = dataclasses.replace(plan, notes=(*plan.notes, f"nothing is read in {', '.join(silent)}"))
    return plan


def estimated_seconds(planned: PlannedChapter, speed: float) -> float:
    """About how long a chapter will be."""
    dense = sum(len(CJK.findall(passage.text)) for passage in planned.passages)
    seconds = dense / CJK_CHARACTERS_PER_SECOND + (planned.characters - dense) / CHARACTERS_PER_SECOND
    return seconds / speed + sum(passage.gap for passage in planned.passages[-1:])
