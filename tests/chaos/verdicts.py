"""What became of each request: right, refused, broken off, left by its client, or bad."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

import httpx
from websockets.exceptions import ConnectionClosed

from tests.chaos.faults import Injector
from tests.soak.answers import Answer, BrokenOff, Client
from tests.soak.requests import Kind

Verdict = Literal["right", "refused", "broken off", "left", "bad"]
VERDICTS: tuple[Verdict, ...] = ("right", "refused", "broken off", "left", "bad")
HANGS = 240.0  # seconds after which a request hangs
SECONDS_OFF = 0.06  # that a clip may differ from the undisturbed one: encoders' blocks, and pauses cut to 5 ms
CUT_GRACE = 3.0  # seconds after the end of an API worker in which its clients notice
DROPPED = (httpx.TransportError, ConnectionClosed, ConnectionError, EOFError, StopAsyncIteration)
PAUSE = 0.5  # seconds, after a refusal
LEAVES, LONGEST_STAY = 0.15, 1.5  # of all clients, and seconds


@dataclass
class Judge:
    """Sends requests of a few variants of each kind, and compares each answer with the undisturbed one."""

    client: Client
    kinds: dict[Kind, int]
    variants: int
    expected: dict[tuple[str, int], Answer] = field(default_factory=dict)
    counts: Counter[tuple[str, Verdict]] = field(default_factory=Counter)
    bad: list[dict[str, object]] = field(default_factory=list)
    slowest: float = 0.0

    async def learn(self, at_once: int = 4) -> None:
        """Ask everything once while all is well."""
        turns = asyncio.Semaphore(at_once)

        async def one(kind: Kind, variant: int) -> None:
            async with turns:
                answer = await kind(self.client, _chance(kind, variant))
            assert answer.is_right, (kind.__name__, answer, answer.content[:500])
            self.expected[kind.__name__, variant] = replace(answer, content=b"")

        async with asyncio.TaskGroup() as group:
            for kind in self.kinds:
                for variant in range(self.variants):
                    group.create_task(one(kind, variant))

    async def keep_asking(self, injector: Injector, seed: str, done: asyncio.Event) -> None:
        chance = random.Random(seed)
        while not done.is_set():
            (kind,) = chance.choices(list(self.kinds), list(self.kinds.values()))
            stay = chance.uniform(0, LONGEST_STAY) if chance.random() < LEAVES else None
            if await self.ask(injector, kind, chance.randrange(self.variants), stay) == "refused":
                await asyncio.sleep(PAUSE)

    async def ask(self, injector: Injector, kind: Kind, variant: int, stay: float | None = None) -> Verdict:
        began, started = injector.now(), time.monotonic()
        asking = asyncio.ensure_future(kind(self.client, _chance(kind, variant)))
        await asyncio.wait({asking}, timeout=HANGS if stay is None else stay)
        if not asking.done():
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await asking
            found: tuple[Verdict, str] = ("bad", "hangs") if stay is None else ("left", "")
        else:
            found = self._of(asking, self.expected[kind.__name__, variant], injector, began)
        self.slowest = max(self.slowest, time.monotonic() - started)
        self.count(kind.__name__, *found, injector, began, variant)
        return found[0]

    def count(
        self, name: str, verdict: Verdict, why: str, injector: Injector, began: float, variant: int | None = None
    ) -> None:
        self.counts[name, verdict] += 1
        if verdict == "bad":
            during = [entry for entry in injector.log if float(str(entry.get("until", 1e9))) > began - 15]
            recent = [f"{entry['fault']} at {entry['at']} until {entry.get('until', '-')}" for entry in during]
            about = {"kind": name, "variant": variant, "why": why, "from": began, "to": injector.now()}
            self.bad.append(about | {"faults": recent})

    def _of(
        self, asked: asyncio.Future[Answer], expected: Answer, injector: Injector, began: float
    ) -> tuple[Verdict, str]:
        if error := asked.exception():
            return _of_exception(error, was_cut(injector, began))
        answer = asked.result()
        if answer.status in (429, 503):
            return ("refused", "") if answer.retry_after else ("bad", f"{answer.status} without Retry-After")
        if answer.status != expected.status:
            return "bad", f"{answer.status} {answer.content[:300].decode(errors='replace')}"
        if expected.seconds is not None and abs((answer.seconds or 0.0) - expected.seconds) > SECONDS_OFF:
            return "bad", f"{answer.seconds} s of sound instead of {expected.seconds}"
        return "right", ""


def _chance(kind: Kind, variant: int) -> random.Random:
    return random.Random(f"{kind.__name__} {variant}")


def was_cut(injector: Injector, began: float) -> bool:
    """Whether the API worker behind a request may have died since it began."""
    is_now = any(pid in injector.processes.busy for pid in injector.processes.of("api"))
    return is_now or any(until + CUT_GRACE > began for _, until in injector.cut)


def _of_exception(error: BaseException, was_cut: bool) -> tuple[Verdict, str]:
    """A connection may break within an answer; before that, or without a word on a socket, only with its process."""
    why = f"{type(error).__name__}: {error}"[:300]
    if isinstance(error, httpx.TimeoutException):
        return "bad", f"hangs, {why}"
    if isinstance(error, BrokenOff):
        return "broken off", ""
    if isinstance(error, ConnectionClosed) and error.rcvd is not None:
        return "broken off", ""
    if isinstance(error, DROPPED) and was_cut:
        return "broken off", ""
    return "bad", why
