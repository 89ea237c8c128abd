"""A backend that needs no model, and books to speak."""

from __future__ import annotations

import asyncio
import re
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from kokoro_server.client import Voice
from kokoro_server.config.defaults import SpeechDefaults, speech_defaults
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import KokoroError, NothingToSay
from kokoro_server.longform.books.book import Block, Book, Chapter, Picture
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.speech_backend import Spoken

TOKEN = re.compile(r"\[pause:(?P<pause>[\d.]+)s\]|\[/?voice[^\]]*\]|(?P<word>\w[\w'’-]*)")
LIMIT = 500  # characters of a passage
LEAD = 0.3  # seconds of silence before and after, as a model leaves
VOICES = [
    Voice("af_heart", "Heart", "en-US", "female", "A"),
    Voice("af_bella", "Bella", "en-US", "female", "A-"),
    Voice("bf_emma", "Emma", "en-GB", "female", "B-"),
    Voice("ff_siwis", "Siwis", "fr-FR", "female", "B-"),
    Voice("ef_dora", "Dora", "es", "female", "D"),
    Voice("em_alex", "Alex", "es", "male", "C"),
    Voice("jf_alpha", "Alpha", "ja", "female", "C+", installed=False),
]


class Tones:
    """Says each word as a tone that hangs on it: the same speech is always the same samples."""

    def __init__(self, version: str = "1", parallel: int = 4) -> None:
        self.version = version
        self.parallel = parallel
        self.spoken: list[Speech] = []
        self.failures: list[KokoroError] = []  # raised one after another, instead of speaking
        self.most_at_once = 0
        self._now = 0

    def fingerprint(self, request: object) -> str:
        return ""

    async def defaults(self) -> SpeechDefaults:
        return speech_defaults.get()

    async def voices(self) -> Sequence[Voice]:
        return VOICES

    async def speak(self, speech: Speech) -> Spoken:
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            await asyncio.sleep(0)
            if self.failures:
                raise self.failures.pop(0)
            self.spoken.append(speech)
            return _spoken(speech)
        finally:
            self._now -= 1


def _spoken(speech: Speech) -> Spoken:
    parts, words, now = [np.zeros(round(LEAD * SAMPLE_RATE))], list[Timing](), LEAD
    for found in TOKEN.finditer(speech.written):
        length = 0.02 * len(found["word"]) if found["word"] else float(found["pause"] or 0)
        samples = round(length * SAMPLE_RATE)
        if found["word"]:
            pitch = 120 + zlib.crc32(f"{found['word']}{speech.voice}".encode()) % 400
            parts.append(0.2 * np.sin(np.arange(samples) * 2 * np.pi * pitch / SAMPLE_RATE))
            words.append(Timing(found["word"], now, now + samples / SAMPLE_RATE, found.start(), found.end(), False))
        else:
            parts.append(np.zeros(samples))
        now += samples / SAMPLE_RATE
    if not words:
        raise NothingToSay("text has nothing that can be spoken", field="text")
    parts.append(np.zeros(round(LEAD * SAMPLE_RATE)))
    samples16 = np.rint(np.concatenate(parts) * 32767).astype("<i2")
    return Spoken(samples16.tobytes(), tuple(words), speech.written.count("ж"))


def png() -> Picture:
    """A white square."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\xff" * 8) * 8)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return Picture("image/png", content)


def paragraphs(*texts: str) -> tuple[Block, ...]:
    return tuple(Block(text) for text in texts)


def book(chapters: int = 3, sentences: int = 10) -> Book:
    """Chapters of a heading and paragraphs, no two sentences of which are alike: two passages each, in these tests."""
    made = []
    for number in range(1, chapters + 1):
        told = [
            f"Sentence {n} of part {number} tells what happened to the {n * number} sailors." for n in range(sentences)
        ]
        texts = [" ".join(told[start : start + 5]) for start in range(0, sentences, 5)]
        heading = Block(f"Chapter {number}: The Sea — “{number}”", "heading")
        made.append(Chapter(f"The Sea — “{number}”", (heading, *paragraphs(*texts))))
    return Book("Of Ships & Seas", tuple(made), ("Ann Öberg", "B. Li"), "en", png())
