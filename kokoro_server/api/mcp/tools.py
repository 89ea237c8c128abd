"""What the tools do: requests of the HTTP API."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel

from kokoro_server.api.errors import validated
from kokoro_server.api.mcp.arguments import (
    AudiobookArguments,
    MakeAudiobookArguments,
    ReadingArguments,
    SpeakArguments,
    VoicesArguments,
)
from kokoro_server.errors import InvalidInput
from kokoro_server.longform.books.names import file_stem
from kokoro_server.runtime.json import JsonObject

MAX_AUDIO = 3 << 20  # bytes in an answer
TIMEOUT_S = 300.0
T = TypeVar("T", bound=BaseModel)


class ToolFailed(Exception):
    """Its message goes to the language model."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    text: str
    data: JsonObject | None = None
    audio: bytes = b""
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """`call` raises ToolFailed, or KokoroError for wrong arguments."""

    name: str
    title: str
    description: str
    arguments: type[BaseModel]
    call: Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]
    only_reads: bool = True


def tool(
    name: str, title: str, arguments: type[T], work: Callable[[T], Awaitable[ToolAnswer]], *, only_reads: bool = True
) -> Tool:
    """The docstring of `work` is the description."""

    async def call(given: Mapping[str, Any]) -> ToolAnswer:
        return await work(validated(arguments.model_validate, dict(given)))

    description = " ".join((work.__doc__ or "").split())
    return Tool(name, title, description, arguments, call, only_reads)


class SpeechTools:
    """`client` sends requests to a server, which may be in this process."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    def tools(self) -> list[Tool]:
        return [
            tool("speak", "Speak a text", SpeakArguments, self.speak),
            tool("voices", "List the voices", VoicesArguments, self.voices),
            tool("reading", "How a text is read", ReadingArguments, self.reading),
            tool("make_audiobook", "Make an audiobook", MakeAudiobookArguments, self.make_audiobook, only_reads=False),
            tool("audiobook", "Look at an audiobook", AudiobookArguments, self.audiobook),
        ]

    async def speak(self, asked: SpeakArguments) -> ToolAnswer:
        """Speaks a short text and returns the audio. For a long one use make_audiobook."""
        body = asked.model_dump(exclude_none=True)
        response = await self._request("POST", "/tts", json=body)
        if len(response.content) > MAX_AUDIO:
            raise ToolFailed(f"the audio has more than {MAX_AUDIO >> 20} MiB; ask for mp3 or opus, or for less text")
        seconds, voice = response.headers.get("x-audio-duration", "?"), response.headers.get("x-voice-used", "?")
        said = f"{seconds} seconds of {asked.format} in the voice {voice}"
        return ToolAnswer(said, audio=response.content, media_type=response.headers["content-type"].partition(";")[0])

    async def voices(self, asked: VoicesArguments) -> ToolAnswer:
        """Lists the voices: name, language, gender, and the grade that the model's authors gave, A being the best."""
        listing = (await self._request("GET", "/voices")).json()
        wanted = (asked.language or "").lower().replace("_", "-")
        names = ("name", "language", "gender", "grade")
        voices = [
            {name: voice.get(name) for name in names}
            for voice in listing["voices"]
            if voice.get("installed", True) and _is_of(voice["language"], wanted)
        ]
        if not voices:
            known = ", ".join(sorted({voice["language"] for voice in listing["voices"]}))
            raise InvalidInput(f"language: no voice speaks {asked.language!r}; there are {known}", field="language")
        lines = [" ".join(str(value) for value in voice.values() if value) for voice in voices]
        return ToolAnswer("\n".join(lines), {"default": listing.get("default"), "voices": voices})

    async def reading(self, asked: ReadingArguments) -> ToolAnswer:
        """Shows how a text would be read, without speaking it: what stands for numbers and signs, and the phonemes."""
        answer = (await self._request("POST", "/text/reading", json=asked.model_dump(exclude_none=True))).json()
        data = {name: answer.get(name) for name in ("language", "phonemes", "skipped")}
        readings = [{name: each[name] for name in ("source", "words", "rule")} for each in answer["readings"]]
        return ToolAnswer(json.dumps(data | {"readings": readings}, ensure_ascii=False), data | {"readings": readings})

    async def make_audiobook(self, asked: MakeAudiobookArguments) -> ToolAnswer:
        """Begins an audiobook of a long text, which takes minutes or hours. Returns an id for the tool audiobook."""
        return await self._begin_text(asked.title, asked.text, asked)

    async def audiobook(self, asked: AudiobookArguments) -> ToolAnswer:
        """Shows how far an audiobook is, and where to fetch its file when it is done."""
        return self._progress((await self._request("GET", f"/jobs/{asked.id}")).json())

    async def _begin_text(self, title: str, text: str, asked: BaseModel) -> ToolAnswer:
        """The title stands before the text: otherwise the first heading would be it."""
        if not text.startswith(("---", "+++")):  # it has its own facts there
            text = f"---\ntitle: {' '.join(title.split())}\n---\n\n{text}"
        return await self._begin_book(f"{title}.md", text.encode(), asked)

    async def _begin_book(self, name: str, content: bytes, asked: BaseModel) -> ToolAnswer:
        fields = asked.model_dump(exclude_none=True, include={"voice", "language", "format"})
        stem, dot, suffix = name.rpartition(".")
        files = {"file": ((file_stem(stem) or "book") + dot + suffix, content)}
        return self._progress((await self._request("POST", "/jobs", data=fields, files=files)).json())

    def _progress(self, job: JsonObject) -> ToolAnswer:
        names = ("id", "title", "name", "state", "progress", "notes", "error", "result")
        data: JsonObject = {name: job[name] for name in names if job.get(name) is not None}
        if job.get("state") == "done":
            data["path"] = f"/jobs/{job['id']}/result"
        return ToolAnswer(json.dumps(data, ensure_ascii=False), data)

    async def _request(self, method: str, path: str, **content: Any) -> httpx.Response:
        """A successful response. Raises ToolFailed with the server's own words."""
        try:
            response = await self._client.request(method, path, timeout=TIMEOUT_S, **content)
        except httpx.HTTPError as error:
            raise unreachable(self._client, error) from error
        check(response)
        return response


def unreachable(client: httpx.AsyncClient, error: Exception) -> ToolFailed:
    return ToolFailed(f"{client.base_url} cannot be reached: {error or type(error).__name__}; is the server running?")


def check(response: httpx.Response) -> None:
    """Raises ToolFailed for a response that is none of success. Its content must have been read."""
    if response.is_success:
        return
    try:
        error = response.json()["error"]
        message = f"{error['code']}: {error['message']}"
        message += f" (field {error['field']})" if error.get("field") else ""
    except (ValueError, KeyError, TypeError):
        message = f"{response.url} answered with status {response.status_code}; is it a Kokoro Server?"
    raise ToolFailed(message)


def _is_of(language: str, wanted: str) -> bool:
    return wanted in ("", language.lower(), language.lower().partition("-")[0])
