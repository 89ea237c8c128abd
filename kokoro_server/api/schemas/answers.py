"""The bodies of answers."""

from __future__ import annotations

from pydantic import BaseModel, Field

from kokoro_server.audio.formats import Format


class TimedWord(BaseModel):
    """A word as it is written and when it is spoken; or a phrase, where its words cannot be distinguished."""

    text: str
    start: float = Field(description="Seconds from the start of the audio.", examples=[0.325])
    end: float = Field(examples=[0.7])
    char_start: int = Field(
        description="Its offset in the text that was sent, or in the texts of all turns, joined by line breaks.",
        examples=[0],
    )
    char_end: int = Field(examples=[5])
    phrase: bool = Field(description="Whether this is a whole phrase.", examples=[False])


class TimedPhoneme(BaseModel):
    """A phoneme and when it is spoken. The phonemes of a word begin and end with it, and leave no gap."""

    symbol: str = Field(description="In Kokoro's symbols, with its marks of stress, length and tone.", examples=["ˈO"])
    start: float = Field(description="Seconds from the start of the audio.", examples=[0.325])
    end: float = Field(examples=[0.4])
    word: int = Field(description="Its word, by its place in `words`.", examples=[0])


class TimedViseme(BaseModel):
    """A shape of the mouth. It holds until the next one."""

    viseme: str | int = Field(description="The name in Oculus's set, or the number in Azure's.", examples=["PP"])
    start: float = Field(description="Seconds from the start of the audio.", examples=[0.325])


class Captioned(BaseModel):
    audio: str = Field(description="Base64.")
    format: Format
    sample_rate: int
    duration: float = Field(description="Seconds.")
    voice: str
    words: list[TimedWord]
    skipped: int = Field(default=0, description="Characters left out because the language cannot say them.")
    phonemes: list[TimedPhoneme] | None = Field(default=None, description='Only with `"timings": "phonemes"`.')
    visemes: list[TimedViseme] | None = Field(default=None, description="Only with `visemes`.")


class SpanReading(BaseModel):
    """A span of the text that is not read as it is written."""

    start: int = Field(description="Its offset in the text.", examples=[12])
    end: int = Field(examples=[14])
    source: str = Field(examples=["$5"])
    words: str = Field(description="What is said instead, if anything.", examples=["five dollars"])
    rule: str = Field(description="The rule that reads it.", examples=["money"])


class ReadSentence(BaseModel):
    start: int
    end: int
    text: str
    phonemes: str


class WordReading(ReadSentence):
    """A word and its phonemes; or a phrase, where its words cannot be distinguished."""

    phrase: bool
    read_as: str | None = Field(
        default=None,
        description="`name` if the word is in the server's table of names. The code of a language if no lexicon has "
        "the word, and it is read by the letters of that language.",
        examples=["pl"],
    )


class ReadingAnswer(BaseModel):
    """How a text would be read, and why."""

    language: str = Field(examples=["en-US"])
    phonemes: str
    sentences: list[ReadSentence]
    readings: list[SpanReading]
    words: list[WordReading]
    skipped: str = Field(description="Letters that are left out because the language cannot say them.")


class ErrorBody(BaseModel):
    code: str = Field(description="Stable, for programs.", examples=["unknown_voice"])
    message: str = Field(description="For people: what was wrong and what is allowed.")
    field: str | None = Field(default=None, description="The request field at fault, if one is.", examples=["voice"])


class ErrorAnswer(BaseModel):
    error: ErrorBody
