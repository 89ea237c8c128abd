"""`kokoro-server mcp`, started by the SDK's own client."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx
import pytest
import soundfile

from kokoro_server.api.mcp.tools import ToolFailed
from kokoro_server.cli import sinks
from kokoro_server.cli.mcp_tools import LocalAudiobookArguments, LocalSpeakArguments, LocalTools
from tests.servers import ROOT, Server

pytest.importorskip("mcp")

import mcp

PATIENCE = 300.0


def started(folder: Path, *arguments: str, **environ: str) -> mcp.StdioServerParameters:
    return mcp.StdioServerParameters(
        command=sys.executable,
        args=[*arguments],
        cwd=str(ROOT),
        env={
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HOME": str(folder),
            "JOBS_PATH": str(folder / "jobs"),
            **environ,
        },
    )


def remote(folder: Path, server: Server, **environ: str) -> mcp.StdioServerParameters:
    arguments = ("-m", "kokoro_server", "mcp", "--url", server.url, "--folder", str(folder / "out"))
    return started(folder, *arguments, **environ)


def text_of(result: mcp.types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, mcp.types.TextContent))


def player(folder: Path) -> Path:
    """A player that keeps what it is given."""
    program = folder / "ffplay"
    program.write_text(f"#!/bin/sh\ncat > '{folder}/heard.wav'\n")
    program.chmod(0o755)
    return folder / "heard.wav"


async def test_through_a_server(tiny_server: Server, tmp_path: Path) -> None:
    heard = player(tmp_path)
    async with mcp.Client(remote(tmp_path, tiny_server), read_timeout_seconds=PATIENCE) as client:
        assert len((await client.list_tools()).tools) == 5
        spoken = await client.call_tool("speak", {"text": "Hello there."})
        assert not spoken.is_error, text_of(spoken)
        assert "ffplay" in text_of(spoken)
        assert heard.stat().st_size > 10_000
        written = await client.call_tool("speak", {"text": "Hello there.", "to": "file", "file": "hello.flac"})
        assert soundfile.info(tmp_path / "out/hello.flac").samplerate == 24_000
        assert str(tmp_path / "out/hello.flac") in text_of(written)
        answered = await client.call_tool("speak", {"text": "Hello there.", "to": "answer"})
        assert any(isinstance(block, mcp.types.AudioContent) for block in answered.content)
        for arguments, named in (
            ({"text": "Hi.", "to": "file", "file": "hello.flac"}, "exists"),
            ({"text": "Hi.", "to": "file", "file": "../hello.mp3"}, "without a folder"),
            ({"text": "Hi.", "to": "file", "file": "hello.txt"}, ".mp3"),
            ({"text": "x" * 3_000, "to": "answer"}, "2000"),
            ({"text": "Hi.", "voice": "af_nobody"}, "af_nobody"),
        ):
            refused = await client.call_tool("speak", arguments)
            assert refused.is_error, arguments
            assert named in text_of(refused)
        assert not (tmp_path / "hello.mp3").exists()


async def test_without_a_player_it_says_what_else_it_can_do(tiny_server: Server, tmp_path: Path) -> None:
    bare = remote(tmp_path, tiny_server, PATH=str(tmp_path))
    async with mcp.Client(bare, read_timeout_seconds=PATIENCE) as client:
        refused = await client.call_tool("speak", {"text": "Hello there."})
    assert refused.is_error
    assert "use file or answer" in text_of(refused)


async def test_a_document_becomes_an_audiobook(tiny_server: Server, tmp_path: Path) -> None:
    document = tmp_path / "A Tale.md"
    document.write_text("# One\n\nA sentence.\n\n# Two\n\nAnother.")
    async with mcp.Client(remote(tmp_path, tiny_server), read_timeout_seconds=PATIENCE) as client:
        for arguments, named in (
            ({}, "document"),
            ({"text": "a", "title": "b", "document": str(document)}, "document"),
            ({"document": str(tmp_path / "no.epub")}, "no.epub"),
            ({"document": "/etc/passwd"}, ".epub"),
        ):
            refused = await client.call_tool("make_audiobook", arguments)
            assert refused.is_error, arguments
            assert named in text_of(refused)
        begun = await client.call_tool("make_audiobook", {"document": str(document), "format": "mp3"})
        assert not begun.is_error, text_of(begun)
        book = begun.structured_content
        async with asyncio.timeout(120):
            while book["state"] not in ("done", "failed"):
                await asyncio.sleep(0.2)
                book = (await client.call_tool("audiobook", {"id": book["id"]})).structured_content
        assert book["state"] == "done", book
        assert Path(book["file"]).parent == tmp_path / "out"
        assert soundfile.info(book["file"]).frames > 10_000


async def test_without_a_server(tmp_path: Path) -> None:
    """The model is in the same process, and a key that other callers would need is not."""
    parameters = started(
        tmp_path, "-m", "tests.services.mcp_stdio", str(tmp_path), API_KEYS="me=0123456789abcdef", LOG_LEVEL="DEBUG"
    )
    async with mcp.Client(parameters, read_timeout_seconds=PATIENCE) as client:
        spoken = await client.call_tool("speak", {"text": "Hello there.", "to": "file", "file": "hello.wav"})
        assert not spoken.is_error, text_of(spoken)
        assert soundfile.info(tmp_path / "hello.wav").frames > 2_400
        assert "five dollars" in text_of(await client.call_tool("reading", {"text": "It costs $5."}))


async def test_a_server_that_is_away_is_named(tmp_path: Path) -> None:
    away = started(tmp_path, "-m", "kokoro_server", "mcp", "--url", "http://127.0.0.1:9")
    async with mcp.Client(away, read_timeout_seconds=PATIENCE) as client:
        failed = await client.call_tool("voices", {})
    assert failed.is_error
    assert "http://127.0.0.1:9" in text_of(failed)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_two_calls_at_once_do_not_replace_each_others_file(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=request.content, headers={"content-type": "audio/mpeg"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://server") as client:
        tools = LocalTools(client, tmp_path / "out")
        asked = [LocalSpeakArguments(text=text, to="file", file="a.mp3") for text in ("one", "two", "three")]
        answers = await asyncio.gather(*map(tools.speak_here, asked), return_exceptions=True)
    refused = [each for each in answers if isinstance(each, ToolFailed)]
    assert len(refused) == 2
    assert all("exists" in each.message for each in refused)
    assert names(tmp_path / "out") == ["a.mp3"]


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes with names")
async def test_a_pipe_is_no_document(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "book.md")
    async with httpx.AsyncClient() as client:
        with pytest.raises(ToolFailed, match="no file"):
            await LocalTools(client, tmp_path).make_book_here(
                LocalAudiobookArguments(document=str(tmp_path / "book.md"))
            )


@pytest.mark.parametrize("path", ["~nobody-of-this-name/a.md", "a\0.md", "x" * 300 + ".md", "/root/../nowhere/a.md"])
async def test_paths_that_cannot_be_are_said(tmp_path: Path, path: str) -> None:
    async with httpx.AsyncClient() as client:
        tools = LocalTools(client, tmp_path)
        with pytest.raises(ToolFailed, match="cannot be read"):
            await tools.make_book_here(LocalAudiobookArguments(document=path))


@pytest.mark.parametrize("name", ["a\0.mp3", "ü" * 150 + ".mp3"])
async def test_names_that_cannot_be_are_said_before_anything_is_spoken(tmp_path: Path, name: str) -> None:
    async with httpx.AsyncClient(base_url="http://127.0.0.1:9") as client:
        with pytest.raises(ToolFailed, match="cannot be a name"):
            await LocalTools(client, tmp_path).speak_here(LocalSpeakArguments(text="one", to="file", file=name))


class SlowPlayer:
    """Takes a twentieth of a second for each chunk."""

    name = "slow"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heard = self.most = self.now = 0
        self.silent = threading.Event()
        monkeypatch.setattr(sinks, "find_player", lambda: self)
        monkeypatch.setattr(sinks, "playing", self._playing)

    @contextmanager
    def _playing(self, _player: object) -> Iterator[Callable[[bytes], None]]:
        self.silent.clear()
        self.now += 1
        self.most = max(self.most, self.now)
        yield self._write
        self.now -= 1
        self.silent.set()

    def _write(self, _chunk: bytes) -> None:
        time.sleep(0.05)
        self.heard += 1


async def test_a_call_that_is_cancelled_falls_silent_and_the_next_one_waits_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield bytes(1_000)

    player = SlowPlayer(monkeypatch)
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=chunks()))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        tools = LocalTools(client, tmp_path)
        with anyio.move_on_after(0.5):  # as the SDK cancels
            await tools.speak_here(LocalSpeakArguments(text="Hello."))
        before = player.heard
        assert 0 < before < 30
        with anyio.move_on_after(0.5):
            await tools.speak_here(LocalSpeakArguments(text="Hello."))
        assert await asyncio.to_thread(player.silent.wait, 10)
        assert (player.most, player.heard < before + 30) == (1, True)
