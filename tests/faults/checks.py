"""What every fault must leave behind, seen from outside the server.

Every request was answered, nothing is queued or running, the next good request is 200, and a neighbour who spoke at
the same time got the audio that it gets alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.servers import HAS_FRONTS, Server, assert_same_audio

PATIENCE = 240  # seconds; two slow cores may be busy with other tests
PAUSE = 0.02  # seconds between a neighbour's requests
# Phonemes: a neighbour must be well also when G2P is not.
NEIGHBOUR = {"phonemes": "ðə nˈAbəɹ hˈɪɹz nˈʌθɪŋ ʌv ɪt.", "format": "pcm", "sample_format": "pcm_f32le"}
BROKEN = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)  # a connection that its peer has left
NUMBER_IN_USE = re.compile(r"^tts_requests_(?:running|waiting)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


@dataclass
class Fault:
    """One row of the matrix while it happens. A request that is sent is answered, or its client leaves, or it is lost.

    A test may replace `server` by the one that was started after the fault had ended it. Where connections break, as
    one does with its API worker, the client asks again.
    """

    server: Server
    name: str
    how: str
    client: httpx.AsyncClient
    sent: int = 0
    answered: int = 0
    abandoned: int = 0
    breaks: bool = False
    heard: list[bytes] = field(default_factory=list)  # the neighbour's clips

    async def post(self, path: str = "/tts", headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
        """The answer, whatever it is. No answer is an exception, and a lost request; a cancelled task is a client that
        has left.
        """
        self.sent += 1
        try:
            answer = await self.client.post(f"{self.server.url}{path}", json=body, headers=headers)
        except asyncio.CancelledError:
            self.abandoned += 1
            raise
        except BROKEN:
            if not self.breaks:
                raise
            self.abandoned += 1
            return await self.post(path, headers, **body)
        self.answered += 1
        return answer

    async def until(self, reached: Callable[[dict[str, Any]], bool]) -> None:
        """Wait for a state of the queue, as `/health/batching` tells it."""
        deadline = time.monotonic() + PATIENCE
        while not reached(status := (await self.get("/health/batching")).json()["queue_status"]):
            assert time.monotonic() < deadline, status
            await asyncio.sleep(0.02)

    async def get(self, path: str) -> httpx.Response:
        try:
            return await self.client.get(f"{self.server.url}{path}")
        except BROKEN:
            if not self.breaks:
                raise
            return await self.get(path)

    async def pids(self) -> dict[str, int]:
        """The server's processes, if it has several."""
        processes = (await self.get("/health")).json().get("processes", ())
        return {each["name"]: each["pid"] for each in processes if each["state"] == "running"}

    async def idle(self) -> None:
        """Wait until the server holds nothing of anybody's."""
        deadline = time.monotonic() + PATIENCE
        while in_use := await self._in_use():
            assert time.monotonic() < deadline, f"still in use: {in_use}\n{self.server.lines()[-2000:]}"
            await asyncio.sleep(0.05)

    async def _in_use(self) -> dict[str, float]:
        metrics = (await self.get("/metrics")).text
        numbers = NUMBER_IN_USE.findall(metrics)
        assert numbers
        streaming = (await self.get("/health/streaming")).json()
        found = {
            "queued or running": sum(map(float, numbers)),
            "on their way": streaming["batch_queue_stats"]["queue_status"]["preparing"],
            "streams": streaming["streams"]["active"],
        }
        return {what: number for what, number in found.items() if number}

    async def neighbour(self, accepted: Collection[int] = (200,), headers: dict[str, str] | None = None) -> None:
        answer = await self.post(headers=headers, **NEIGHBOUR)
        assert answer.status_code in accepted, answer.text
        if answer.status_code == 200:
            self.heard.append(answer.content)
        elif answer.status_code != 504:  # that says nothing of when: its device may be lost
            assert int(answer.headers["retry-after"]) >= 1

    async def keep_speaking(self, accepted: Collection[int], done: asyncio.Event) -> None:
        server = self.server
        identity = ""
        try:
            while not done.is_set():
                identity = secrets.token_hex(8)
                await self.neighbour(accepted, {"X-Request-ID": identity})
                await asyncio.sleep(PAUSE)
        except (httpx.ConnectError, *BROKEN):
            await asyncio.to_thread(server.process.wait, PATIENCE)
            # A server that ends closes the connections that wait for a request: this one may have been on its way.
            assert identity not in server.lines()
            self.sent -= 1  # a request that nobody listened for was not sent

    def record(self) -> None:
        """Add a line to the file that `tests.faults.results` makes a table of."""
        lost = self.sent - self.answered - self.abandoned
        counts = {"sent": self.sent, "answered": self.answered, "abandoned": self.abandoned, "lost": lost}
        if path := os.environ.get("FAULT_RESULTS"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"fault": self.name, "how": self.how, "has_fronts": HAS_FRONTS, **counts}) + "\n")
        assert lost == 0, counts


@asynccontextmanager
async def injected(server: Server, name: str, how: str, *, neighbour: Collection[int] = (200,)) -> AsyncIterator[Fault]:
    """Inject a fault in the block. `neighbour` are the statuses that one may get who asks at the same time.

    `name` and `how` go into the table of RESULTS.md.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=PATIENCE, limits=limits) as client:
        fault = Fault(server, name, how, client)
        await fault.idle()
        await fault.neighbour()
        done = asyncio.Event()
        speaking = asyncio.create_task(fault.keep_speaking(neighbour, done))
        await asyncio.sleep(0)
        try:
            yield fault
        finally:
            done.set()
            await asyncio.wait({speaking})
        speaking.result()
        await fault.idle()
        good = await fault.post(text="Good morning.")
        assert good.status_code == 200, good.text
        await fault.neighbour()
        alone, *others = fault.heard
        for heard in others:
            assert_same_audio(heard, alone)
        fault.record()


async def restarted(fault: Fault, name: str, before: int) -> None:
    """Wait until a process of the server with another pid is in the place of this one, and all is well."""
    deadline = time.monotonic() + PATIENCE
    while (await fault.pids()).get(name, before) == before or (await fault.get("/health")).json()["status"] != "ok":
        assert time.monotonic() < deadline, fault.server.lines()[-2000:]
        await asyncio.sleep(0.1)


async def leave(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """End requests as a client does who has lost interest."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
