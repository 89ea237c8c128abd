"""The arguments of the tools. A language model reads the descriptions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kokoro_server.api.schemas.script import StrictRequest
from kokoro_server.longform.books.options import BookFormat

MAX_SPOKEN = 2_000  # characters whose audio fits into an answer: some two minutes
MAX_READ = 5_000
MAX_BOOK = 2_000_000
VOICE_FIELD = Field(
    None, max_length=500, description="A name of the tool `voices`, such as af_heart. Absent: the usual."
)
LANGUAGE_FIELD = Field(
    None, max_length=20, description="en-US, en-GB, es, fr-FR, hi, it, pt-BR, ja, zh or auto. Absent: the voice's own."
)

AnswerFormat = Literal["mp3", "opus", "flac", "wav"]


class SpeakArguments(StrictRequest):
    text: str = Field(min_length=1, max_length=MAX_SPOKEN, description="What to say, as it is written in a text.")
    voice: str | None = VOICE_FIELD
    language: str | None = LANGUAGE_FIELD
    speed: float = Field(1.0, ge=0.25, le=4, allow_inf_nan=False, description="1 is the voice's own pace.")
    format: AnswerFormat = Field("mp3", description="Of the audio in the answer.")


class VoicesArguments(StrictRequest):
    language: str | None = Field(None, max_length=20, description="Only those of a language, such as en-GB or fr.")


class ReadingArguments(StrictRequest):
    text: str = Field(min_length=1, max_length=MAX_READ, description="The text.")
    voice: str | None = VOICE_FIELD
    language: str | None = LANGUAGE_FIELD


class MakeAudiobookArguments(StrictRequest):
    title: str = Field(min_length=1, max_length=200, description="Of the book.")
    text: str = Field(
        min_length=1, max_length=MAX_BOOK, description="The whole text, as Markdown: each # heading begins a chapter."
    )
    voice: str | None = VOICE_FIELD
    language: str | None = LANGUAGE_FIELD
    format: BookFormat = Field("m4b", description="Of the file. m4b and mp3 have chapters.")


class AudiobookArguments(StrictRequest):
    id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,100}$", description="What make_audiobook has returned.")
