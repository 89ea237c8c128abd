"""Any interleaving of arrivals, departures, deadlines, failures and shutdown ends well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kokoro_server.batching import BatchingOptions, BatchQueue, Outcome, Priority
from kokoro_server.batching.devices.device import RunningBatch
from kokoro_server.batching.devices.runner import BatchReport
from kokoro_server.batching.lanes import OVERTAKE_LIMIT
from kokoro_server.engine.protocol import EngineLimits
from kokoro_server.errors import KokoroError
from tests.batching.doubles import (
    PATIENCE,
    EchoEngine,
    FakeClock,
    OutOfMemoryError,
    as_caller,
    make_row,
    name_of,
    settle,
)

ROWS = 3
Run = Callable[[RunningBatch], asyncio.Future[BatchReport]]

priorities = st.sampled_from(Priority)
actions = st.one_of(
    st.tuples(
        st.just("submit"),
        st.integers(1, 60),
        priorities,
        st.sampled_from("ab"),
        st.sampled_from([None, 0.003, 1.0]),
        st.sampled_from("xyz"),
    ),
    st.tuples(st.just("ticket"), st.integers(1, 10), priorities),
    st.tuples(st.just("cancel"), st.integers(0, 100)),
    st.tuples(st.just("advance"), st.sampled_from([0.0, 0.001, 0.003, 0.06, 2.0])),
    st.tuples(st.just("hold")),
    st.tuples(st.just("release")),
    st.tuples(st.just("busy"), st.integers(0, 2)),
    st.tuples(st.just("free"), st.integers(0, 2)),
    st.tuples(
        st.just("trouble"), st.integers(0, 2), st.sampled_from(["none", "rows", "memory", "count", "death", "device"])
    ),
)


@dataclass
class World:
    """A queue and everything that happens to it."""

    options: BatchingOptions
    devices: int
    at_once: int  # calls that each takes
    express: bool  # whether each has an express engine beside it
    clock: FakeClock = field(default_factory=FakeClock)
    calls: list[list[int]] = field(default_factory=list)  # of all engines
    dispatched: list[list[int]] = field(default_factory=list)  # a busy machine may call the engines in another order
    tasks: dict[int, asyncio.Task[Outcome]] = field(default_factory=dict)
    tickets: list[asyncio.Task[list[int]]] = field(default_factory=list)
    lanes: dict[int, tuple[Priority, str, str]] = field(default_factory=dict)
    names: int = 0

    def __post_init__(self) -> None:
        devices = [EchoEngine() for _ in range(self.devices)]
        self.engines = list(devices)
        for engine in devices:
            engine.limits = EngineLimits(510, ROWS, 300, max_in_flight=self.at_once)
            if self.express:
                beside = EchoEngine(max_rows=2, max_padded_frames=150)
                engine.express = beside  # type: ignore[attr-defined]
                self.engines.append(beside)
        for engine in self.engines:
            engine.calls = self.calls
        self.queue = BatchQueue(devices, self.options, clock=self.clock)
        for device in self.queue._devices.every():
            device.run = partial(self._dispatch, device.run)  # type: ignore[method-assign]

    def _dispatch(self, run: Run, batch: RunningBatch) -> asyncio.Future[BatchReport]:
        self.dispatched.append([entry.row.seed for entry in batch.entries])
        return run(batch)

    async def do(self, action: str, *details: Any) -> None:
        await getattr(self, f"_{action}")(*details)
        await settle()

    async def _submit(self, tokens: int, priority: Priority, voice: str, patience: float | None, caller: str) -> None:
        name = self.names
        self.names += 1
        deadline = None if patience is None else self.queue.now() + patience
        submission = self.queue.submit(make_row(name, tokens), voice=voice, priority=priority, deadline=deadline)
        with as_caller(caller):
            self.tasks[name] = asyncio.create_task(submission)
        self.lanes[name] = (priority, voice if self.options.grouping == "voice" else "any", caller)

    async def _ticket(self, pieces: int, priority: Priority) -> None:
        names = range(self.names, self.names + pieces)
        self.names += pieces
        self.tickets.append(asyncio.create_task(self._collect(names, priority)))

    async def _collect(self, names: range, priority: Priority) -> list[int]:
        ticket = self.queue.ticket(priority=priority, bypass=1)
        got = []
        async for outcome in self.queue.submit_all(map(make_row, names), voice="a", ticket=ticket):
            got.append(name_of(outcome.result))
            assert got == list(names[: len(got)])
        return got

    async def _cancel(self, which: int) -> None:
        everyone = [*self.tasks.values(), *self.tickets]
        if everyone:
            everyone[which % len(everyone)].cancel()

    async def _advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)

    async def _hold(self) -> None:
        self.queue.hold()

    async def _release(self) -> None:
        self.queue.release()

    async def _busy(self, device: int) -> None:
        self.engines[device % len(self.engines)].gate.clear()

    async def _free(self, device: int) -> None:
        self.engines[device % len(self.engines)].gate.set()

    async def _trouble(self, device: int, kind: str) -> None:
        def before(rows):
            if kind == "rows" and any(row.seed % 5 == 0 for row in rows):
                raise ValueError("fives")
            if kind == "memory" and len(rows) > 1:
                raise OutOfMemoryError
            if kind == "death":
                raise SystemExit(1)
            if kind == "device":
                raise RuntimeError("CUDA error: unspecified launch failure")

        engine = self.engines[device % len(self.engines)]
        engine.before = before
        engine.after = lambda results: results[1:] if kind == "count" else results


async def live(
    options: BatchingOptions, devices: tuple[int, int, bool], script: list[tuple[Any, ...]], *, drain: bool
) -> World:
    """Play the script, then either let everything finish or stop in the middle of it."""
    world = World(options, *devices)
    await world.queue.start()
    for step in script:
        await world.do(*step)
    for engine in world.engines:
        engine.gate.set()
    everyone = [*world.tasks.values(), *world.tickets]
    if drain:
        world.queue.release()
        await world.clock.keep_going(asyncio.gather(*everyone, return_exceptions=True))
    await world.clock.keep_going(world.queue.stop())
    await asyncio.wait_for(asyncio.gather(*everyone, return_exceptions=True), PATIENCE)
    await settle()
    return world


def check(world: World) -> None:
    for name, task in world.tasks.items():
        if not task.cancelled():
            error = task.exception()
            assert isinstance(error, KokoroError) if error else name_of(task.result().result) == name
    for ticket in world.tickets:
        assert ticket.cancelled() or ticket.exception() is None or isinstance(ticket.exception(), KokoroError)
    status = world.queue.snapshot()["queue_status"]
    assert (status["current_size"], status["running_rows"], status["voice_groups"], status["callers"]) == (0, 0, {}, 0)
    assert world.clock.armed == 0
    assert max(map(len, world.calls), default=0) <= ROWS


def check_overtaking(world: World) -> None:
    """Of its caller's that it competes with, no more than four batches' worth of later ones started before an entry.

    Batches that went to several devices at the same moment count as if in any order.
    """
    most = (OVERTAKE_LIMIT + world.devices * (world.at_once + world.express) - 1) * ROWS
    started = {name: turn for turn, batch in enumerate(world.dispatched) for name in batch}
    for lane in set(world.lanes.values()):
        mine = [name for name in world.tasks if world.lanes[name] == lane and name in started]
        for name in mine:
            ahead = [other for other in mine if other > name and started[other] < started[name]]
            assert len(ahead) <= most


# Their number, the calls that each takes, whether each has an express engine.
DEVICES = [(1, 1, False), (2, 1, False), (3, 1, False), (1, 2, False), (2, 2, False), (1, 2, True), (2, 2, True)]


@pytest.mark.parametrize("devices", DEVICES)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    script=st.lists(actions, max_size=40),
    drain=st.booleans(),
    enabled=st.booleans(),
    grouping=st.sampled_from(["mixed", "voice"]),
    engine_timeout=st.sampled_from([1.0, 60.0]),
)
def test_every_future_resolves(devices, script, drain, enabled, grouping, engine_timeout):
    options = BatchingOptions(enabled=enabled, grouping=grouping, engine_timeout=engine_timeout)
    world = asyncio.run(live(options, devices, script, drain=drain))
    check(world)
    check_overtaking(world)


lengths = st.sampled_from([5, 25, 45, 65, 85, 105])
crowds = st.lists(
    st.tuples(lengths, priorities, st.sampled_from("ab"), st.sampled_from("xyz")), min_size=20, max_size=80
)


@pytest.mark.parametrize("devices", DEVICES)
@settings(max_examples=30, deadline=None)
@given(crowd=crowds, grouping=st.sampled_from(["mixed", "voice"]), alone=st.booleans())
def test_nobody_in_a_crowd_starves(devices, crowd, grouping, alone):
    arrivals = [(*entry, None, "x" if alone else caller) for *entry, caller in crowd]
    script = [("hold",), *(("submit", *arrival) for arrival in arrivals)]
    world = asyncio.run(live(BatchingOptions(grouping=grouping), devices, script, drain=True))
    check(world)
    check_overtaking(world)
    assert all(task.exception() is None for task in world.tasks.values())
