"""The values that a client returns, and how they are read from the server's JSON."""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

UNKNOWN_LENGTH = b"\xff\xff\xff\xff"  # in the header of a streamed WAV file
HEADER_SIZE = 44  # bytes, of the server's WAV files
SAMPLE_RATE = 24_000  # Hz, unless a request asks for another


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from the request to the first byte of the audio, and to its end."""

    first_byte: float = 0.0
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class AudioClip:
    """A whole audio file. `duration` is in seconds; None for a streamed clip in a compressed format.

    Clips that differ only in their latency are equal.
    """

    content: bytes
    format: str
    voice: str
    duration: float | None
    latency: Latency = field(default=Latency(), compare=False)

    def __repr__(self) -> str:
        duration = "unknown" if self.duration is None else f"{self.duration:.2f} s"
        return (
            f"<AudioClip {self.format} voice={self.voice} duration={duration} bytes={len(self.content)} "
            f"first_byte={self.latency.first_byte:.3f} s total={self.latency.total:.3f} s>"
        )

    def save(self, path: str | PathLike[str]) -> Path:
        target = Path(path)
        target.write_bytes(self.content)
        return target


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or a phrase, and when it is spoken, in seconds: `text == sent[char_start:char_end]`."""

    text: str
    start: float
    end: float
    char_start: int
    char_end: int
    phrase: bool


@dataclass(frozen=True, slots=True)
class Phoneme:
    """A phoneme, when it is spoken, and the index of its word."""

    symbol: str
    start: float
    end: float
    word: int


@dataclass(frozen=True, slots=True)
class MouthShape:
    """A viseme, by its name or number, which holds until the next one."""

    viseme: str | int
    start: float


@dataclass(frozen=True, slots=True)
class CaptionedChunk:
    """The next bytes of an audio file, and the words spoken in it; phonemes and visemes if they were asked for."""

    audio: bytes = field(repr=False)
    words: tuple[Word, ...]
    phonemes: tuple[Phoneme, ...] = ()
    visemes: tuple[MouthShape, ...] = ()


@dataclass(frozen=True, slots=True)
class CaptionedClip:
    """A whole audio file, its seconds, and the words spoken in it. `skipped` counts characters that cannot be said."""

    audio: bytes = field(repr=False)
    duration: float
    words: tuple[Word, ...]
    skipped: int = 0
    phonemes: tuple[Phoneme, ...] = ()
    visemes: tuple[MouthShape, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """A span of a text that is said differently from its spelling: `source == sent[start:end]`. Without `words` it is
    silent."""

    start: int
    end: int
    source: str
    words: str
    rule: str


@dataclass(frozen=True, slots=True)
class ReadWord:
    """A word, or a phrase, and its phonemes: `text == sent[start:end]`.

    `read_as` is `name` if the server's table of names has it, or the language that a name was taken to be of.
    """

    start: int
    end: int
    text: str
    phonemes: str
    phrase: bool
    read_as: str | None = None


@dataclass(frozen=True, slots=True)
class TextReading:
    """How a text would be said. `skipped` holds the letters that the language cannot say, which are left out."""

    language: str
    phonemes: str
    readings: tuple[ReadSpan, ...]
    words: tuple[ReadWord, ...]
    skipped: str


@dataclass(frozen=True, slots=True)
class Voice:
    name: str
    title: str
    language: str
    gender: str
    grade: str | None  # the model authors' own; A is the best
    installed: bool = True  # whether the server can read its language


@dataclass(frozen=True, slots=True)
class VoiceDefaults:
    """The server's voices and language of requests that name none."""

    voices: Mapping[str, str]  # by language; that of an empty language is for all others
    language: str | None = None  # None: the voice's own


T = TypeVar("T", Voice, Word, Phoneme, MouthShape, ReadSpan, ReadWord)


def voices(listing: Mapping[str, Any]) -> list[Voice]:
    return list(_each(Voice, listing["voices"]))


def voice_defaults(listing: Mapping[str, Any]) -> VoiceDefaults:
    """Older servers name one voice alone."""
    voices = listing.get("default_voices") or {"": listing["default"]}
    return VoiceDefaults(dict(voices), listing.get("default_language"))


def captioned_chunk(event: Mapping[str, Any]) -> CaptionedChunk:
    return CaptionedChunk(b64decode(event["audio"]), _each(Word, event["words"]), *_sounds(event))


def captioned_clip(answer: Mapping[str, Any]) -> CaptionedClip:
    words = _each(Word, answer["words"])
    skipped = answer.get("skipped", 0)
    return CaptionedClip(b64decode(answer["audio"]), answer["duration"], words, skipped, *_sounds(answer))


def _sounds(answer: Mapping[str, Any]) -> tuple[tuple[Phoneme, ...], tuple[MouthShape, ...]]:
    return _each(Phoneme, answer.get("phonemes", ())), _each(MouthShape, answer.get("visemes", ()))


def text_reading(answer: Mapping[str, Any]) -> TextReading:
    readings, words = _each(ReadSpan, answer["readings"]), _each(ReadWord, answer["words"])
    return TextReading(answer["language"], answer["phonemes"], readings, words, answer["skipped"])


def _each(kind: type[T], items: Iterable[Mapping[str, Any]]) -> tuple[T, ...]:
    """Takes the known fields only: a newer server may send more, an older one fewer."""
    names = kind.__dataclass_fields__
    return tuple(kind(**{name: item[name] for name in names if name in item}) for item in items)


SAMPLE_BYTES = {"pcm_f32le": 4, "pcm_mulaw": 1, "pcm_alaw": 1}  # other than two


def join_chunks(chunks: Sequence[bytes], body: Mapping[str, Any]) -> tuple[bytes, float | None]:
    """A stream's chunks as one file with a correct header, and its duration in seconds if that is known."""
    content = b"".join(chunks)
    format = body.get("format", "wav")
    if format == "wav" and content[40:HEADER_SIZE] == UNKNOWN_LENGTH:
        size = len(content) - HEADER_SIZE
        content = (
            content[:4] + struct.pack("<I", 36 + size) + content[8:40] + struct.pack("<I", size) + content[HEADER_SIZE:]
        )
    if format not in ("wav", "pcm"):
        return content, None
    width = SAMPLE_BYTES.get(body.get("sample_format", ""), 2)
    samples = max(0, len(content) - (HEADER_SIZE if format == "wav" else 0)) // width
    return content, samples / body.get("sample_rate", SAMPLE_RATE)
