"""Files of jobs that are deleted while they are read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request, Response

from kokoro_server.api.routes.jobs.files import file_response
from kokoro_server.errors import BadRequest, Conflict


def remove(path: Path) -> None:
    path.unlink()


async def receive() -> dict[str, Any]:
    """Nothing: the client stays."""
    await asyncio.Event().wait()
    raise AssertionError


async def sent_by(response: Response, request: Request) -> list[Any]:
    """The messages of an answer."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await response(request.scope, receive, send)
    return sent


async def answered(request: Request, path: Path) -> dict[str, Any]:
    """What is sent of a file that is removed before the answer begins."""
    response = await file_response(request, path, "Köln – 2.mp3", "audio/mpeg")
    remove(path)
    sent = await sent_by(response, request)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return {"body": b"".join(each.get("body", b"") for each in sent[1:]), **headers}


async def test_an_answer_is_whole_though_its_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    path.write_bytes(b"abc" * 100_000)
    async with AsyncExitStack() as on_end:
        request = Request({"type": "http", "method": "GET", "headers": [], "on_end": on_end})
        answer = await answered(request, path)
        assert answer["body"] == b"abc" * 100_000
        assert answer["content-length"] == "300000"
        named = "attachment; filename=\"K_ln _ 2.mp3\"; filename*=utf-8''K%C3%B6ln%20%E2%80%93%202.mp3"
        assert answer["content-disposition"] == named
        with pytest.raises(Conflict, match="removed"):
            await file_response(request, path, "a.mp3", "audio/mpeg")


@asynccontextmanager
async def asking_for(wanted: str) -> AsyncIterator[Request]:
    """A request for a range."""
    async with AsyncExitStack() as on_end:
        headers = [(b"range", wanted.encode())]
        yield Request({"type": "http", "method": "GET", "path": "/jobs/a/result", "headers": headers, "on_end": on_end})


@pytest.mark.parametrize(
    "wanted",
    [
        *("bytes", "bytes=", "bytes=-", "bytes=a-b", "items=0-1", "bytes=0-1,", "bytes=0;2"),
        *("bytes=2-1", "bytes=0-0,2-1", f"bytes=0-{'9' * 5000}"),
    ],
)
async def test_a_range_that_is_none_is_told(tmp_path: Path, wanted: str) -> None:
    path = tmp_path / "a.mp3"
    path.write_bytes(b"abc")
    async with asking_for(wanted) as request:
        with pytest.raises(BadRequest, match="bytes=0-499") as told:
            await file_response(request, path, "a.mp3", "audio/mpeg")
        assert told.value.field == "Range"


@pytest.mark.parametrize("wanted", ["bytes=0-0", "bytes=1-", "bytes=-2", "Bytes = 0-0 , 2-2"])
async def test_ranges_are_served(tmp_path: Path, wanted: str) -> None:
    path = tmp_path / "a.mp3"
    path.write_bytes(b"abc")
    async with asking_for(wanted) as request:
        sent = await sent_by(await file_response(request, path, "a.mp3", "audio/mpeg"), request)
        assert sent[0]["status"] == 206


@pytest.mark.parametrize("wanted", ["bytes=3-", "bytes=999-", "bytes=-0"])
async def test_a_range_past_the_end_is_refused(tmp_path: Path, wanted: str) -> None:
    path = tmp_path / "a.mp3"
    path.write_bytes(b"abc")
    async with asking_for(wanted) as request:
        sent = await sent_by(await file_response(request, path, "a.mp3", "audio/mpeg"), request)
        assert sent[0]["status"] == 416
        assert (b"content-range", b"bytes */3") in sent[0]["headers"]
        assert json.loads(sent[1]["body"])["error"]["field"] == "Range"
        assert len(sent) == 2
