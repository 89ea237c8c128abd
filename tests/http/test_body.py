"""Bodies that are too slow or too many."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from kokoro_server.callers.current import caller
from kokoro_server.http.body import BODIES_IN_MEMORY, BodyLimit

LIMIT = 1_000


class Reader:
    """An application that reads each body and keeps it until `done`."""

    def __init__(self) -> None:
        self.done = asyncio.Event()
        self.read = asyncio.Semaphore(0)  # one for each body

    async def __call__(self, _scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        self.read.release()
        await self.done.wait()


async def post(app: BodyLimit, name: str, parts: Iterable[bytes], silence: float = 0) -> None:
    """`silence`: seconds before the last part."""
    left = [*parts]

    async def receive() -> Message:
        if len(left) == 1:
            await asyncio.sleep(silence)
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(_message: Message) -> None:
        raise AssertionError

    caller.set(name)
    await app({"type": "http", "path": "/tts", "headers": []}, receive, send)


async def test_bodies_in_memory_are_limited_for_all_requests_together() -> None:
    reader = Reader()
    app = BodyLimit(reader, LIMIT, 60, 100)
    running = [asyncio.create_task(post(app, "ann", [b"x" * LIMIT])) for _ in range(BODIES_IN_MEMORY)]
    for _ in running:
        await reader.read.acquire()
    with pytest.raises(HTTPException) as refused:
        await post(app, "ann", [b"x"])
    assert (refused.value.status_code, (refused.value.headers or {})["Retry-After"]) == (429, "5")
    running.append(asyncio.create_task(post(app, "bob", [b"x" * LIMIT])))
    await reader.read.acquire()
    reader.done.set()
    await asyncio.gather(*running)
    await post(app, "ann", [b"x"])


async def test_what_was_sent_fast_buys_no_time() -> None:
    app = BodyLimit(Reader(), 1_000_000, 0.2, 100)
    with pytest.raises(HTTPException) as refused:
        await post(app, "ann", [b"x" * 900_000, b"x"], silence=600)
    assert refused.value.status_code == 408
