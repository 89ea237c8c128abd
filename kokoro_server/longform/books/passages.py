"""The passages of a book: each is spoken at once, kept, and not spoken again."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from operator import itemgetter

import regex

from kokoro_server.longform.books.book import Block, BlockKind, Chapter
from kokoro_server.longform.books.casting import Casting, VoiceChoice
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.speech import Level, Speech
from kokoro_server.text.options import ReadingOptions
from kokoro_server.text.splitter import sentences
from kokoro_server.text.spoken.patterns import roman_value
from kokoro_server.text.voice_tags import VOICE_TAG, voice_of

LIMIT = 1_500  # characters of a passage, about a minute and a half: what an interruption loses
BETWEEN_BLOCKS = "\n\n"  # in the text of a chapter
# Seconds from the end of speech to its next beginning.
SENTENCE_GAP = 0.4  # where a long paragraph is cut: the pause of the model between two sentences
GAPS: dict[BlockKind, float] = {"heading": 1.2, "paragraph": 0.75, "quotation": 0.75, "item": 0.6, "verse": 0.5}
SCENE_GAP = 1.6
CHAPTER_GAP = 2.0
# Seconds of a gap within a passage that joining its segments keeps as margins: a pause tag adds to them.
PAUSE_MARGINS = 0.13
SCENE_BREAK = regex.compile(r"[\s\p{P}\p{So}~=+|<>^]*")  # a row of asterisks, an ornament
# The numeral of a heading, such as II. or ACT I; in other text it may be a word or initials.
HEADING_NUMERAL = regex.compile(
    r"\s*(?:(?:act|book|canto|chapter|letter|part|scene|stave|volume)\s+)?"
    r"(?P<numeral>[IVX]|[IVXLC]{2,})(?=\s*[.:—–)]|\s*$|(?<=[IVX]{2})\s)(?!\.\s?\p{Lu}\.)",
    regex.IGNORECASE,
)
# In a book, tags and links are only text. They are written with round brackets, which sound the same.
MARKUP = regex.compile(r"(?P<tag>\[(?=voice:|/voice\]|pause:))|\](?=\()", regex.IGNORECASE)
# One strange letter must not end a book. The number of skipped characters is reported.
READING = ReadingOptions(unspeakable="skip")
LEVEL: Level = "even"  # narrators and characters of a book are equally loud


@dataclass(frozen=True, slots=True)
class Origin:
    """`passage.text[start:end]` is spoken for `source:source_end` of the chapter's text, mostly the same."""

    start: int
    end: int
    source: int
    source_end: int

    @property
    def is_literal(self) -> bool:
        return self.end - self.start == self.source_end - self.source

    def place(self, place: int) -> int:
        """The place in the chapter for a place in the passage: the start or the end, where the texts differ."""
        if self.is_literal:
            return self.source + place - self.start
        return self.source if place <= self.start else self.source_end


@dataclass(frozen=True, slots=True)
class Passage:
    """Text in one voice, except for dialogue, which voice tags mark."""

    chapter: int  # its number in the book, from 0
    text: str
    choice: VoiceChoice
    speed: float
    gap: float  # seconds of silence after it
    origins: tuple[Origin, ...]

    @property
    def characters(self) -> int:
        return sum(origin.end - origin.start for origin in self.origins)

    def speech(self) -> Speech:
        return Speech(
            self.choice.voice,
            self.text,
            language=self.choice.language,
            speed=self.speed,
            reading=READING,
            level=LEVEL,
        )

    @property
    def voices(self) -> list[str]:
        """Those that speak in it."""
        return [self.choice.voice, *filter(None, map(voice_of, VOICE_TAG.finditer(self.text)))]

    def key(self, version: str, voices: str) -> str:
        """Equal for passages that sound the same. `version` and the fingerprint of the voices are the backend's."""
        facts = [version, voices, self.text, self.choice.voice, self.choice.language, self.speed, LEVEL]
        return sha256(json.dumps(facts).encode()).hexdigest()

    def in_chapter(self, word: Timing, text: str) -> Timing:
        """The word with its place in `text`, the chapter's."""
        first = self.origins[max(bisect_right(self.origins, word.char_start, key=lambda each: each.start) - 1, 0)]
        last = self.origins[max(bisect_right(self.origins, word.char_end - 1, key=lambda each: each.start) - 1, 0)]
        start, end = first.place(word.char_start), last.place(min(word.char_end, last.end))
        return replace(word, text=text[start:end], char_start=start, char_end=end)


@dataclass(frozen=True, slots=True)
class _Part:
    """A block, or as many of its sentences as fit into a passage."""

    start: int  # in the chapter's text
    text: str
    numeral: tuple[int, int] | None  # the place of a numeral that is spoken as a number
    marks: tuple[tuple[int, str], ...]  # voice tags, each with the place in `text` before which it stands
    choice: VoiceChoice
    gap: float


def chapter_text(chapter: Chapter) -> str:
    """The text that word times of a chapter refer to."""
    return BETWEEN_BLOCKS.join(block.text for block in chapter.blocks)


def cut(number: int, chapter: Chapter, casting: Casting, speed: float, book_language: str | None) -> list[Passage]:
    """The passages of a chapter in order. The last one has the gap before the next chapter."""
    language = chapter.language or book_language
    casting.end_scene()
    passages, open_parts = list[Passage](), list[_Part]()
    for part in _parts(chapter, casting, language):
        length = sum(len(each.text) for each in open_parts)
        if open_parts and (part.choice != open_parts[0].choice or length + len(part.text) > LIMIT):
            passages.append(_passage(number, open_parts, speed))
            open_parts = []
        open_parts.append(part)
    if open_parts:
        passages.append(_passage(number, open_parts, speed))
    return [*passages[:-1], *(replace(last, gap=CHAPTER_GAP) for last in passages[-1:])]


def _parts(chapter: Chapter, casting: Casting, language: str | None) -> Iterator[_Part]:
    pending: _Part | None = None
    start = 0
    for block in chapter.blocks:
        silent = SCENE_BREAK.fullmatch(block.text)
        if silent or block.after_break:
            casting.end_scene()
            pending = pending and replace(pending, gap=max(pending.gap, SCENE_GAP))
        if not silent:
            for part in _block_parts(start, block, casting, block.language or language):
                if pending:
                    yield pending
                pending = part
        start += len(block.text) + len(BETWEEN_BLOCKS)
    if pending:
        yield pending


def _block_parts(start: int, block: Block, casting: Casting, language: str | None) -> Iterator[_Part]:
    choice = casting.choice(language)
    marks = casting.marks(block)
    ranges = list(_ranges(block.text))
    for first, last in ranges:
        gap = GAPS[block.kind] if last == ranges[-1][1] else SENTENCE_GAP
        within = tuple((place - first, tag) for place, tag in _within(marks, first, last))
        text = block.text[first:last]
        numeral = _numeral(text) if block.kind == "heading" and first == ranges[0][0] else None
        yield _Part(start + first, text, numeral, within, choice, gap)


def _numeral(text: str) -> tuple[int, int] | None:
    found = HEADING_NUMERAL.match(text)
    return found.span("numeral") if found and found["numeral"].isupper() and roman_value(found["numeral"]) else None


def _as_text(text: str) -> str:
    return str(MARKUP.sub(lambda found: "(" if found["tag"] else ")", text))


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    """Ranges of whole sentences, each as long as a passage allows."""
    first: int | None = None
    end = 0
    for sentence in sentences(text, LIMIT):
        if first is not None and sentence.end - first > LIMIT:
            yield first, end
            first = None
        first = sentence.start if first is None else first
        end = sentence.end
    if first is not None:
        yield first, end


def _within(marks: list[tuple[int, str]], first: int, last: int) -> Iterator[tuple[int, str]]:
    """The tags of a range. A tag that is in force where the range begins is repeated there."""
    begin = bisect_right(marks, first, key=itemgetter(0))
    if begin and marks[begin - 1][1] != Casting.END:
        yield first, marks[begin - 1][1]
    yield from marks[begin : bisect_left(marks, last, key=itemgetter(0))]


def _passage(number: int, parts: list[_Part], speed: float) -> Passage:
    text, origins = "", list[Origin]()

    def add(said: str, source: int, source_end: int) -> None:
        nonlocal text
        if said:
            origins.append(Origin(len(text), len(text) + len(said), source, source_end))
            text += said

    for index, part in enumerate(parts):
        if index:
            text += f"\n[pause:{round(parts[index - 1].gap - PAUSE_MARGINS, 3):g}s]\n"
        done = 0
        if part.numeral:
            begin, done = part.numeral
            add(part.text[:begin], part.start, part.start + begin)
            add(str(roman_value(part.text[begin:done])), part.start + begin, part.start + done)
        for place, tag in (*part.marks, (len(part.text), "")):
            add(_as_text(part.text[done:place]), part.start + done, part.start + place)
            done = place
            text += tag
            if tag and part.text[place : place + 1] == "(":
                text += " "  # a tag directly before a bracket would be a link
        if part.marks and part.marks[-1][1] != Casting.END:
            text += Casting.END
    return Passage(number, text, parts[0].choice, speed, parts[-1].gap, tuple(origins))
