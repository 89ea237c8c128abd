"""`kokoro-server say book.epub --dry-run`: the chapters of a book, and how long it would take to speak."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

from kokoro_server.cli import one_line
from kokoro_server.cli.progress import clock
from kokoro_server.errors import NothingToSay
from kokoro_server.longform.books.book import Book
from kokoro_server.longform.books.plan import Plan, estimated_seconds
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.speech_backend import SpeechBackend
from kokoro_server.text.options import ReadingOptions

MAX_TITLE = 60  # characters
SAMPLE_TEXT = (
    "The afternoon was warm, and there was nobody else on the road. "
    "She walked on for a while without a word, and looked at the hills."
)
MAX_SAMPLES = 64  # that are spoken at once, to measure


def describe(book: Book, plan: Plan, speed: float) -> Iterator[str]:
    by = f", by {', '.join(book.authors)}" if book.authors else ""
    language = f" ({book.language})" if book.language else ""
    yield f"{book.title}{by}{language}"
    titles = ["  " * (each.chapter.level - 1) + one_line(each.chapter.title, MAX_TITLE) for each in plan.chapters]
    width = min(MAX_TITLE, max(map(len, titles)) + 2)
    for title, planned in zip(titles, plan.chapters, strict=True):
        seconds = clock(estimated_seconds(planned, speed))
        yield f"{planned.number + 1:4}  {title:{width}}  {planned.characters:>9,} characters  about {seconds:>8}"
    yield f"in all {plan.characters:,} characters, about {clock(_seconds(plan, speed))} of audio"
    yield f"left out: {_omissions(book, plan)}"
    yield from (f"note: {note}" for note in plan.notes)


async def estimated_time(plan: Plan, backend: SpeechBackend, speed: float) -> float:
    """Seconds for the whole book, by the time of a few sentences, as many at once as a book is spoken with."""
    voice = plan.passages[0].choice
    reading = ReadingOptions(unspeakable="skip")
    samples = min(backend.parallel, MAX_SAMPLES)
    speeches = [
        Speech(voice.voice, f"{number}. {SAMPLE_TEXT}", language=voice.language, speed=speed, reading=reading)
        for number in range(samples)
    ]
    try:
        await backend.speak(speeches[0])  # the first one takes longer
        started = time.monotonic()
        spoken = await asyncio.gather(*map(backend.speak, speeches))
    except NothingToSay:  # in a script that the language does not have
        return 0.0
    audio = sum(each.seconds for each in spoken)
    return _seconds(plan, speed) * (time.monotonic() - started) / audio


def _seconds(plan: Plan, speed: float) -> float:
    return sum(estimated_seconds(planned, speed) for planned in plan.chapters)


def _omissions(book: Book, plan: Plan) -> str:
    numbers = {planned.number for planned in plan.chapters}
    left = [omission for omission in book.omissions if omission.chapter in numbers]
    counts = Counter(omission.kind for omission in left)
    if not counts:
        return "nothing"
    characters = Counter[str]()
    for omission in left:
        characters[omission.kind] += len(omission.text)
    return ", ".join(f"{count} × {kind} ({characters[kind]:,} characters)" for kind, count in counts.items())
