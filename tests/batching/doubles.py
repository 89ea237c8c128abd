"""Stand-ins for the queue's surroundings: a clock turned by hand, an engine whose audio tells whose it is."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from kokoro_server.batching import BatchQueue, Outcome
from kokoro_server.batching.cost import ForwardPass
from kokoro_server.callers.current import caller
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, STYLE_DIM, EngineLimits, Result, Row

T = TypeVar("T")
STYLE = np.zeros(STYLE_DIM, dtype=np.float32)
PATIENCE = 60.0  # seconds of real time before a test gives up on another thread


def make_row(name: int, tokens: int = 10, speed: float = 1.0) -> Row:
    return Row(tokens=(1,) * tokens, style=STYLE, speed=speed, seed=name)


def name_of(result: Result) -> int:
    """The name of the row that this audio was made for."""
    return int(result.audio[0]) - 1


def names(outcomes: Iterable[Outcome]) -> list[int]:
    return [name_of(outcome.result) for outcome in outcomes]


def make_result(row: Row) -> Result:
    durations = np.full(len(row.tokens) + 2, 2, dtype=np.int64)  # as the queue expects: 2.5 a token and 20 in all
    durations[1:-1:2] += 1
    durations[[0, -1]] = 10
    audio = np.full(int(durations.sum()) * SAMPLES_PER_FRAME, row.seed + 1, dtype=np.float32)
    return Result(audio=audio, durations=durations)


class OutOfMemoryError(RuntimeError):
    """Named as torch names it."""


class EchoEngine:
    """Answers at once unless its `gate` is shut; `calls` are the names of the rows of each forward pass."""

    device = "double"

    def __init__(self, max_rows: int = 4, max_padded_frames: int = 100_000) -> None:
        self.limits = EngineLimits(max_tokens=510, max_rows=max_rows, max_padded_frames=max_padded_frames)
        self.calls: list[list[int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.before: Callable[[Sequence[Row]], None] = lambda _rows: None  # may raise
        self.after: Callable[[list[Result]], list[Result]] = lambda results: results

    def warmup(self) -> None: ...

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        self.calls.append([row.seed for row in rows])
        self.entered.set()
        if not self.gate.wait(PATIENCE):
            raise TimeoutError("the test left the gate shut")
        self.before(rows)
        return self.after([make_result(row) for row in rows])


def make_engines(count: int) -> list[EchoEngine]:
    engines = [EchoEngine() for _ in range(count)]
    for number, engine in enumerate(engines):
        engine.device = f"cuda:{number}"
    return engines


def shut(*engines: EchoEngine) -> None:
    for engine in engines:
        engine.gate.clear()
        engine.entered.clear()


class FakeTimer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """Stands still until `advance`."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._numbers = itertools.count()
        self._timers: list[tuple[float, int, FakeTimer]] = []

    @property
    def armed(self) -> int:
        """Timers that would still do something."""
        return sum(timer.callback is not None for _, _, timer in self._timers)

    def now(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], object]) -> FakeTimer:
        timer = FakeTimer(callback)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def pass_time(self, seconds: float) -> None:
        """For an engine that takes its time: move on without firing any timer."""
        self._now += seconds

    async def advance(self, seconds: float) -> None:
        """Let time pass, firing timers in order and letting everyone on the loop react to each."""
        target = self._now + seconds
        await settle()
        while self._timers and self._timers[0][0] <= target:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            if timer.callback is not None:
                timer.callback()
                await settle()
        self._now = target
        await settle()

    async def keep_going(self, outcome: Awaitable[T]) -> T:
        """Let time pass until `outcome` is there, at the pace of the engine's thread."""
        future = asyncio.ensure_future(outcome)
        async with asyncio.timeout(PATIENCE):
            while not future.done():
                await self.advance(0.002)
                await asyncio.sleep(0.001)
        return await future


def learn_overhead(queue: BatchQueue, fixed: float) -> None:
    """Have the queue think that a batch costs as much to start as `fixed` frames."""
    for device in queue._devices:
        for rows in (1, 2, 4) * 4:
            frames = 45 * rows
            device.costs.learn(ForwardPass(rows, frames, frames, cost=frames, seconds=0.001 * (fixed + frames)))


async def reasons(tasks: Iterable[Awaitable[Outcome]]) -> list[str]:
    return [outcome.fire_reason.value for outcome in await asyncio.gather(*tasks)]


async def settle() -> None:
    """Let every ready task on the loop run until it waits for something."""
    for _ in range(10):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Wait for another thread's doing."""
    async with asyncio.timeout(patience):
        while not condition():  # noqa: ASYNC110 (set by a thread that knows of no event loop)
            await asyncio.sleep(0.001)


@contextmanager
def as_caller(name: str) -> Iterator[None]:
    """What is submitted in here is counted for `name`."""
    token = caller.set(name)
    try:
        yield
    finally:
        caller.reset(token)
