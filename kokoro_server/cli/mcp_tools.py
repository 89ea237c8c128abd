"""The tools of a program on the same machine: they can also play sound, and read and write files."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Literal

import httpx
from pydantic import Field

from kokoro_server.api.errors import validated
from kokoro_server.api.mcp.arguments import MAX_BOOK, AudiobookArguments, MakeAudiobookArguments, SpeakArguments
from kokoro_server.api.mcp.tools import SpeechTools, Tool, ToolAnswer, ToolFailed, check, tool, unreachable
from kokoro_server.audio.formats import SUFFIXES
from kokoro_server.cli import CommandFailed, sinks
from kokoro_server.longform.books.documents import SUFFIXES as DOCUMENTS
from kokoro_server.longform.books.names import file_stem
from kokoro_server.runtime.files import new_file

MAX_TEXT = 100_000  # characters: the server's own limit may be another
MAX_DOCUMENT = 200 << 20  # bytes
STREAM_S = 300.0  # between two chunks
BYTES_PER_SECOND = 48_000


class LocalSpeakArguments(SpeakArguments):
    text: str = Field(min_length=1, max_length=MAX_TEXT, description="What to say, as it is written in a text.")
    to: Literal["speakers", "file", "answer"] = Field(
        "speakers",
        description="Where the sound goes; answer: it is returned, if the text has at most 2,000 characters.",
    )
    file: str | None = Field(
        None,
        max_length=200,
        description=f"With to=file: its name, with one of {' '.join(SUFFIXES)}. Absent: speech.mp3.",
    )


class LocalAudiobookArguments(MakeAudiobookArguments):
    title: str = Field("", max_length=200, description="Of the book, unless the document has its own.")
    text: str = Field(
        "",
        max_length=MAX_BOOK,
        description="The whole text, as Markdown: each # heading begins a chapter.",
    )
    document: str | None = Field(
        None,
        max_length=1_000,
        description=f"Instead of text: the path of a file on this machine, {' '.join(DOCUMENTS)}.",
    )


class LocalTools(SpeechTools):
    """Files are written into `folder` alone, and none is replaced."""

    def __init__(self, client: httpx.AsyncClient, folder: Path) -> None:
        super().__init__(client)
        self._folder = folder
        self._playing = asyncio.Lock()  # two voices at once are not understood

    def tools(self) -> list[Tool]:
        own = {
            "speak": tool("speak", "Speak a text", LocalSpeakArguments, self.speak_here, only_reads=False),
            "make_audiobook": tool(
                "make_audiobook", "Make an audiobook", LocalAudiobookArguments, self.make_book_here, only_reads=False
            ),
            "audiobook": tool(
                "audiobook", "Look at an audiobook", AudiobookArguments, self.save_book, only_reads=False
            ),
        }
        return [own.get(each.name, each) for each in super().tools()]

    async def speak_here(self, asked: LocalSpeakArguments) -> ToolAnswer:
        """Speaks a text through the speakers of this machine, or into a file."""
        body = asked.model_dump(exclude_none=True, exclude={"to", "file", "format"})
        if asked.to == "speakers":
            return await self._play(body)
        if asked.to == "file":
            return await self._write(asked.file or f"speech.{asked.format}", body)
        return await self.speak(validated(SpeakArguments.model_validate, {**body, "format": asked.format}))

    async def _play(self, body: dict[str, object]) -> ToolAnswer:
        try:
            player = sinks.find_player()
        except CommandFailed as error:
            raise ToolFailed("to: no program that plays sound is installed here; use file or answer") from error
        chunks: queue.Queue[bytes | None] = queue.Queue(maxsize=64)
        done = asyncio.Event()

        def play() -> int:
            size = 0
            with sinks.playing(player) as write:
                while (chunk := chunks.get()) is not None:
                    write(chunk)
                    size += len(chunk)
            return size

        def ended(playing: asyncio.Task[int]) -> None:
            self._playing.release()
            done.set()
            _ = playing.cancelled() or playing.exception()  # counts as retrieved

        await self._playing.acquire()
        playing = asyncio.create_task(asyncio.to_thread(play))
        playing.add_done_callback(ended)
        try:
            await self._stream({**body, "format": "pcm"}, lambda chunk: _put(chunks, chunk, done))
            await _put(chunks, None, done)
            size = await asyncio.shield(playing)
        except BaseException:
            _drop(chunks)  # nobody wants to hear the rest
            chunks.put_nowait(None)  # it does not wait, as that could be cancelled too
            raise
        return ToolAnswer(f"spoken: {size / BYTES_PER_SECOND:.1f} seconds, through {player.name}")

    async def _stream(self, body: dict[str, object], take: Callable[[bytes], object]) -> None:
        try:
            async with self._client.stream("POST", "/tts/stream", json=body, timeout=STREAM_S) as response:
                if not response.is_success:
                    await response.aread()
                check(response)
                async for chunk in response.aiter_bytes():
                    await take(chunk)  # type: ignore[misc]
        except httpx.HTTPError as error:
            raise unreachable(self._client, error) from error

    async def _write(self, name: str, body: dict[str, object]) -> ToolAnswer:
        path = self._new(name)
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES:
            raise ToolFailed(f"file: {name!r} must end in one of {' '.join(SUFFIXES)}")
        response = await self._request("POST", "/tts", json={**body, "format": SUFFIXES[suffix]})
        await asyncio.to_thread(_save, path, response.content, is_new=True)
        return ToolAnswer(f"wrote {path}", {"file": str(path), "seconds": response.headers.get("x-audio-duration")})

    async def make_book_here(self, asked: LocalAudiobookArguments) -> ToolAnswer:
        """Begins an audiobook of a text or a document of this machine. Returns an id for the tool audiobook."""
        if bool(asked.text) == bool(asked.document):
            raise ToolFailed("give text, with a title, or document")
        if not asked.document:
            if not asked.title:
                raise ToolFailed("title: is missing")
            return await self._begin_text(asked.title, asked.text, asked)
        name = PurePath(asked.document)
        if name.suffix.lower() not in DOCUMENTS:
            raise ToolFailed(f"document: {name.name!r} must end in one of {' '.join(DOCUMENTS)}")
        content = await asyncio.to_thread(_read, asked.document)
        return await self._begin_book(f"{asked.title or name.stem}{name.suffix}", content, asked)

    async def save_book(self, asked: AudiobookArguments) -> ToolAnswer:
        """Shows how far an audiobook is. When it is done, its file is saved and its path returned."""
        answer = await self.audiobook(asked)
        if not answer.data or answer.data.get("state") != "done":
            return answer
        path = (
            self._folder / f"{file_stem(str(answer.data.get('title') or 'book'))}-{asked.id[:8]}{_suffix(answer.data)}"
        )
        if not path.exists():
            response = await self._request("GET", f"/jobs/{asked.id}/result")
            await asyncio.to_thread(_save, path, response.content)
        data = {name: value for name, value in answer.data.items() if name != "path"} | {"file": str(path)}
        return ToolAnswer(f"done: {path}", data)

    def _new(self, name: str) -> Path:
        if PurePath(name).name != name or name.startswith("."):
            raise ToolFailed(f"file: {name!r} must be the name of a file in {self._folder}, without a folder")
        path = self._folder / name
        try:
            path.lstat()
        except FileNotFoundError:
            return path
        except (OSError, ValueError) as error:  # too long, or with a NUL
            raise ToolFailed(f"file: {name!r} cannot be a name: {error}") from error
        raise _exists(path)


def _suffix(job: dict[str, object]) -> str:
    result = job.get("result")
    files = result["files"] if isinstance(result, dict) else []
    return PurePath(files[0]["name"]).suffix if len(files) == 1 else ".zip"


async def _put(chunks: queue.Queue[bytes | None], chunk: bytes | None, done: asyncio.Event) -> None:
    """Waits until the player takes it, or has ended."""
    while not done.is_set():
        try:
            chunks.put_nowait(chunk)
            return
        except queue.Full:
            await asyncio.sleep(0.05)


def _drop(chunks: queue.Queue[bytes | None]) -> None:
    with suppress(queue.Empty):
        while True:
            chunks.get_nowait()


def _read(name: str) -> bytes:
    try:
        path = Path(name).expanduser()
        if path.exists() and not path.is_file():
            raise ToolFailed(f"document: {path} is no file")
        if path.stat().st_size > MAX_DOCUMENT:
            raise ToolFailed(f"document: {path} has more than {MAX_DOCUMENT >> 20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise ToolFailed(f"document: {name} cannot be read: {error.strerror or error}") from error
    except (ValueError, RuntimeError) as error:  # a NUL; the folder of a user that does not exist
        raise ToolFailed(f"document: {name!r} cannot be read: {error}") from error


def _save(path: Path, content: bytes, *, is_new: bool = False) -> None:
    """`is_new`: raises ToolFailed if there is such a file by now; two calls may come at once with the same name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if is_new:
            path.touch(exist_ok=False)
        try:
            with new_file(path) as unfinished:
                unfinished.write_bytes(content)
        except OSError:
            if is_new:
                path.unlink(missing_ok=True)
            raise
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise ToolFailed(f"{path} cannot be written: {error.strerror or error}") from error


def _exists(path: Path) -> ToolFailed:
    return ToolFailed(f"file: {path} exists; choose another name")
