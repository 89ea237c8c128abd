"""The request and response bodies of `/jobs`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote

from pydantic import BaseModel, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from kokoro_server.api.schemas.script import SPEED, StrictRequest
from kokoro_server.audio.formats import Format
from kokoro_server.config.defaults import speech_defaults
from kokoro_server.longform.books.options import DEFAULT_LOUDNESS, LOUDEST, QUIETEST, BookFormat, parse_chapters
from kokoro_server.longform.jobs.job import Job, JobKind, JobState
from kokoro_server.runtime.json import JsonObject

MAX_CAST = 100
MAX_SHARD = 1_000_000


def _chapters(text: Any) -> Any:
    if isinstance(text, str):
        parse_chapters(text)
    return text


def _cast(value: Any) -> Any:
    """Reads `Alice=af_bella`, once or more, as forms send it."""
    if not isinstance(value, str | list):
        return value
    cast: dict[str, str] = {}
    for role in [value] if isinstance(value, str) else value:
        name, equals, voice = (part.strip() for part in str(role).partition("="))
        if not (name and equals and voice):
            raise ValueError(f"{str(role)[:60]!r} is not of the form Alice=af_bella")
        cast[name] = voice
    return cast


def _loudness(value: Any) -> Any:
    return None if value == "off" else value


class BookRequest(StrictRequest):
    """How a book is read, and the files that are made of it."""

    voice: str | None = Field(
        default=None, description="Absent: the server's own, and a voice of each other language.", max_length=500
    )
    language: str | None = Field(
        default=None,
        description="Of the whole text. Absent: the language that the book names. `auto`: that of its text if it "
        "names none.",
        max_length=50,
    )
    speed: Annotated[float, SPEED] = 1.0
    format: BookFormat = "m4b"
    by_chapter: bool = Field(default=False, description="A zip file with a file for each chapter.")
    chapters: Annotated[
        str | None,
        BeforeValidator(_chapters),
        Field(description="Only these chapters: 3, 3-5, 1,3-5 or 7-.", max_length=10_000, examples=["3-5"]),
    ] = None
    dialogue_voice: str | None = Field(default=None, description="For text in quotation marks.", max_length=500)
    voice_of: Annotated[
        dict[Annotated[str, Field(max_length=100)], Annotated[str, Field(max_length=500)]],
        BeforeValidator(_cast),
        Field(
            description="`NAME=VOICE`: the voice for a character's lines; may be repeated.",
            max_length=MAX_CAST,
            default_factory=dict,
            examples=[["Alice=af_bella"]],
        ),
    ]
    loudness: Annotated[
        Annotated[float, Field(ge=QUIETEST, le=LOUDEST, allow_inf_nan=False)] | None,
        BeforeValidator(_loudness),
        Field(description="LUFS, by EBU R 128; or `off`.", examples=[DEFAULT_LOUDNESS]),
    ] = DEFAULT_LOUDNESS
    subtitles: Literal["srt", "vtt"] | None = Field(default=None, description="Write subtitles too.")
    read_along: bool = Field(default=False, description="Write an EPUB too that highlights the text as it is spoken.")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.subtitles and self.by_chapter:
            raise PydanticCustomError("subtitles", "subtitles need a book in one file; leave out by_chapter")
        return self


class ListRequest(StrictRequest):
    """Defaults for the lines of a list, and the files to write."""

    voice: str | None = Field(
        default=None, description="Absent: the server's own for the language of each line.", max_length=500
    )
    format: Format | None = Field(default=None, description="Absent: the server's own; in shards, flac.")
    shards: int | None = Field(
        default=None,
        description="Write WebDataset shards of this many lines each, instead of a file for each line.",
        ge=1,
        le=MAX_SHARD,
    )

    def stored(self) -> JsonObject:
        return self.model_dump(exclude={"items"}) | {"format": self.format or self._default_format()}

    def _default_format(self) -> Format:
        return "flac" if self.shards else speech_defaults.get().format or "wav"


class ItemsRequest(ListRequest):
    items: list[JsonObject] = Field(
        description="Lines, each with a unique `id` and the fields of `POST /tts`.",
        min_length=1,
        examples=[[{"id": "a", "text": "Hello."}]],
    )


class ChapterAnswer(BaseModel):
    number: int
    title: str
    level: int = Field(description="Its depth in the table of contents, from 1.")
    characters: int
    seconds: float = Field(description="Estimated length of the audio.")
    done: bool = Field(default=False, description="Whether it can be played.")
    start: float | None = Field(default=None, description="Its start in the result, in seconds.")


class SpeakerAnswer(BaseModel):
    name: str
    lines: int


class Preview(BaseModel):
    """A description of a file, before a job is made of it."""

    kind: JobKind
    name: str
    characters: int
    remarks: list[str]
    notes: list[str]
    title: str | None = None
    author: str | None = None
    language: str | None = None
    seconds: float | None = Field(default=None, description="Estimated length of the audio.")
    chapters: list[ChapterAnswer] | None = None
    omissions: dict[str, int] | None = Field(
        default=None, description="The kinds of text that are not read, and how often each occurs."
    )
    speakers: list[SpeakerAnswer] | None = Field(default=None, description="Characters who say quoted lines.")
    lines: int | None = None


class ProgressAnswer(BaseModel):
    phase: Literal["speaking", "levelling", "writing"] | None = None
    fraction: float = Field(default=0.0, description="Of the work, 0 to 1.")
    seconds_left: float | None = Field(default=None, description="Estimated seconds until all is spoken.")
    audio_seconds: float = Field(default=0.0, description="Seconds of audio made so far.")
    waiting: str | None = Field(default=None, description="Why the job waits at the moment.")
    lines: int | None = None
    done: int | None = None
    failed: int | None = None


class FileAnswer(BaseModel):
    name: str
    bytes: int
    media_type: str
    url: str


class ResultAnswer(BaseModel):
    seconds: float
    files: list[FileAnswer]


class JobError(BaseModel):
    code: str
    message: str
    field: str | None


class JobAnswer(BaseModel):
    id: str
    kind: JobKind
    name: str = Field(description="Of the file that was sent.")
    state: JobState
    created: datetime
    started: datetime | None
    finished: datetime | None
    expires: datetime | None = Field(description="When the job and its files are removed.")
    options: JsonObject = Field(description="The options it was made with.")
    progress: ProgressAnswer
    remarks: list[str] = Field(description="On reading the file, such as a guessed encoding.")
    notes: list[str] = Field(description="On the audio, such as chapters without text.")
    result: ResultAnswer | None
    error: JobError | None
    title: str | None = None
    author: str | None = None
    chapters: list[ChapterAnswer] | None = Field(default=None, description="Absent in lists of jobs.")
    omissions: dict[str, int] | None = Field(default=None, description="As in the preview.")


class JobList(BaseModel):
    jobs: list[JobAnswer]


def answer(job: Job, keep_s: float) -> JobAnswer:
    about, result = job.about, job.result
    return JobAnswer(
        id=job.id,
        kind=job.kind,
        name=job.name,
        state=job.state,
        created=_time(job.created),
        started=_time(job.started) if job.started else None,
        finished=_time(job.finished) if job.finished else None,
        expires=_time(job.finished + keep_s) if job.finished and keep_s else None,
        options=job.options,
        progress=ProgressAnswer.model_validate(_progress(job)),
        remarks=about["remarks"],
        notes=result["notes"] if result else about["notes"],
        result=ResultAnswer(seconds=result["seconds"], files=_files(job)) if result else None,
        error=JobError(**job.error) if job.error else None,
        title=about.get("title"),
        author=about.get("author"),
        chapters=_chapter_answers(job) if "chapters" in about else None,
        omissions=about.get("omissions"),
    )


def _progress(job: Job) -> JsonObject:
    if job.state == "done":
        seconds = job.result["seconds"] if job.result else 0.0
        return job.progress | {"phase": None, "fraction": 1.0, "seconds_left": 0.0, "audio_seconds": seconds}
    return job.progress


def _files(job: Job) -> list[FileAnswer]:
    assert job.result
    first, *more = job.result["files"]
    return [
        FileAnswer(**first, url=f"/jobs/{job.id}/result"),
        *(FileAnswer(**file, url=f"/jobs/{job.id}/result/{quote(file['name'])}") for file in more),
    ]


def _chapter_answers(job: Job) -> list[ChapterAnswer]:
    spoken = set(job.progress.get("chapters") or ())
    starts = job.result["starts"] if job.result else {}
    return [
        ChapterAnswer(**chapter, done=chapter["number"] - 1 in spoken, start=starts.get(str(chapter["number"])))
        for chapter in job.about["chapters"]
    ]


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(round(seconds, 3), UTC)
