"""Makes clips with a server, in its bulk lane. Requests are passed on as they were given.

Several processes (`http_worker`) ask the server: one alone cannot read all that a GPU speaks.
"""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import httpx

from kokoro_server.client import wire
from kokoro_server.client.wire import API_KEY_VARIABLE
from kokoro_server.errors import SetupError, Unavailable
from kokoro_server.longform.bulk.makers.http_worker import END, PATH, WorkerLine, WorkerSetup
from kokoro_server.longform.bulk.makers.local import Finish
from kokoro_server.longform.bulk.outputs import ClipOutputs
from kokoro_server.longform.bulk.task import Failed, Made, Task
from kokoro_server.runtime.json import JsonObject
from kokoro_server.runtime.subprocesses import send, start_python
from kokoro_server.synthesis.http_backend import ServerFacts

# Lines at once that are asked of a server. On a GPU two batches of 64 run; the rest are read, encoded, sent, or wait
# for lines of the same length.
PARALLEL_GPU, PARALLEL_CPU = 512, 8
LINES_PER_REQUEST = 32
HEALTH_TIMEOUT_S = 30.0
LINE_BYTES = 64 * 1024 * 1024  # of one outcome, at most: the words of an hour are some megabytes


async def reach(url: str, api_key: str | None) -> ServerFacts:
    """Raises Unreachable, or what the server answers."""
    url = url.rstrip("/")
    async with httpx.AsyncClient(headers=wire.headers(api_key, None), timeout=HEALTH_TIMEOUT_S) as client:
        with wire.map_request_errors(url):
            server = ServerFacts.of(wire.json_object(await client.get(f"{url}/health")), url)
            if (await client.get(url + PATH)).status_code == httpx.codes.NOT_FOUND:
                raise SetupError(
                    f"{url}: this server, of version {server.release}, has no POST {PATH}: update it, or run "
                    "the command of its version"
                )
    return server


class HttpMaker:
    """Makes with a server, asked by `count` processes that write to `out`."""

    def __init__(self, server: ServerFacts, out: Path, count: int, api_key: str | None) -> None:
        self.version = server.version
        self._count = count
        self._parallel = -(-(PARALLEL_GPU if server.gpu else PARALLEL_CPU) // count)
        lines = max(1, min(LINES_PER_REQUEST, self._parallel // 4))
        # A request keeps its thread until the last of its lines is made; more requests go out meanwhile.
        self._setup = WorkerSetup(server.url, str(out.absolute()), 2 * -(-self._parallel // lines), lines)
        self._environ = {API_KEY_VARIABLE: api_key} if api_key else {}

    def fingerprint(self, request: JsonObject) -> str:  # noqa: ARG002
        """Empty: the voices are the server's."""
        return ""

    async def make(self, tasks: AsyncIterator[Task], outputs: ClipOutputs, finish: Finish) -> None:
        queue = asyncio.Queue[Task | None](self._count)

        async def fill() -> None:
            async for task in tasks:
                await queue.put(task)
            for _ in range(self._count):
                await queue.put(None)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._count):
                group.create_task(self._one(queue, outputs, finish))
            group.create_task(fill())

    async def _one(self, queue: asyncio.Queue[Task | None], outputs: ClipOutputs, finish: Finish) -> None:
        module = "kokoro_server.longform.bulk.makers.http_worker"
        process = await start_python(module, environ=self._environ, limit=LINE_BYTES)
        running: dict[int, Task] = {}
        try:
            await send(process, json.dumps(asdict(self._setup)).encode() + b"\n")
            async with asyncio.TaskGroup() as group:
                free = asyncio.Semaphore(self._parallel + self._setup.lines)  # so that the next request is always ready
                group.create_task(_feed(process, queue, outputs, running, free))
                await _collect(process, running, finish, free)
        finally:
            await _ended(process)


async def _feed(
    process: Process,
    queue: asyncio.Queue[Task | None],
    outputs: ClipOutputs,
    running: dict[int, Task],
    free: asyncio.Semaphore,
) -> None:
    while task := await queue.get():
        await free.acquire()
        running[task.index] = task
        await send(process, WorkerLine(task.index, outputs.place(task), json.dumps(task.fields).encode()).text())
    await send(process, END)


async def _collect(process: Process, running: dict[int, Task], finish: Finish, free: asyncio.Semaphore) -> None:
    assert process.stdout
    while line := await process.stdout.readline():
        message = json.loads(line)
        if "ended" in message:
            raise _end(message["ended"])
        free.release()
        await finish(running.pop(message["index"]), _outcome(message))
    if await process.wait() or running:
        raise SetupError(
            f"a process of this run has ended with status {process.returncode}; the same command goes on from there"
        )


def _outcome(message: JsonObject) -> Made | Failed:
    if "failed" in message:
        return Failed(**message["failed"])
    made = message["made"]
    return Made(made["bytes"], made["duration"], made["words"], made.get("voice"))


def _end(about: JsonObject) -> Exception:
    if "message" in about:
        return Unavailable(about["message"])
    return OSError(about["errno"], about["strerror"], about["filename"])


async def _ended(process: Process) -> None:
    """End the process, even if several errors cancel this call one after another."""
    assert process.stdin
    if process.returncode is None:
        process.kill()
    process.stdin.close()
    ending = asyncio.ensure_future(process.communicate())
    while not ending.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(ending)
