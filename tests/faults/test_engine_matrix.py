"""Rows of the fault matrix: what an engine, its thread or the worker can do wrong."""

from __future__ import annotations

import asyncio

import pytest

from tests.faults.checks import Fault, injected
from tests.servers import Server, in_one_process
from tests.services.faulty import CLOCK_STEPS, NAN, OUT_OF_MEMORY, RAISES, SILENT, SLOW, THREAD_DIES, TOO_FEW

ROWS = 6  # bad rows at once, beside as many good ones


async def statuses(fault: Fault, speed: float, count: int = ROWS) -> list[int]:
    """Of `count` bad rows, all of which were sent with as many good ones."""
    async with asyncio.TaskGroup() as group:
        good = [group.create_task(fault.neighbour()) for _ in range(count)]
        bad = [group.create_task(fault.post(text=f"Row {n}.", speed=speed)) for n in range(count)]
    assert all(task.done() for task in good)
    return [task.result().status_code for task in bad]


@pytest.mark.parametrize(
    ("name", "speed", "status"),
    [
        ("poison row", RAISES, 500),
        ("NaN output", NAN, 500),
        ("silent output", SILENT, 500),
        ("out of memory", OUT_OF_MEMORY, 200),
        ("wrong row count", TOO_FEW, 500),
    ],
)
async def test_a_bad_row_costs_only_itself(faulty: Server, name: str, speed: float, status: int) -> None:
    async with injected(faulty, name, f"{ROWS} rows of speed {speed} in shared batches") as fault:
        assert await statuses(fault, speed) == [status] * ROWS


async def test_a_forward_slower_than_predicted_is_waited_for(faulty: Server) -> None:
    async with injected(faulty, "forward slower than predicted", "passes that take a hundred times as long") as fault:
        assert await statuses(fault, SLOW, 2) == [200] * 2


async def test_a_thread_that_dies_is_replaced(faulty: Server) -> None:
    how = "SystemExit in the device's thread"
    async with injected(faulty, "executor thread dies", how, neighbour=(200, 503)) as fault:
        answer = await fault.post(text="Good-bye.", speed=THREAD_DIES)
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
    assert "DeviceThreadDied" in faulty.lines()


@in_one_process
async def test_a_killed_worker_is_started_anew(faulty: Server) -> None:
    how = "cancelled with a batch on the device and rows waiting"
    async with injected(faulty, "worker task killed", how, neighbour=(200, 503)) as fault, asyncio.TaskGroup() as group:
        sent = [group.create_task(fault.post(text=f"Row {n}.", speed=SLOW)) for n in range(12)]
        while not (await fault.get("/health/batching")).json()["queue_status"]["current_size"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert (await fault.post("/test/kill-worker")).status_code == 200
        answers = [await task for task in sent]
        assert {answer.status_code for answer in answers} <= {200, 503}
        assert all(answer.headers["retry-after"] for answer in answers if answer.status_code == 503)
        assert any(answer.status_code == 503 for answer in answers)
    assert "batch worker died" in faulty.lines()


async def test_the_wall_clock_may_step(faulty: Server) -> None:
    how = "time.time moved by a day, back and forth, while rows run"
    async with injected(faulty, "clock stepping back", how) as fault:
        for speed in CLOCK_STEPS:
            assert await statuses(fault, speed, 1) == [200]
