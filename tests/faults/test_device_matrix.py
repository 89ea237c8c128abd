"""Rows of the fault matrix: a device that is lost, or hangs. Most end the server, or its engine process,
so each test has its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.faults.checks import PATIENCE, Fault, injected, restarted
from tests.faults.conftest import Start
from tests.servers import Server
from tests.services.faulty import HANGS, LOST

PAIR = {"KOKORO_DEVICES": "cpu,cpu"}
IMPATIENT = {"ENGINE_TIMEOUT": "4"}  # at least: the server waits longer where passes take seconds


@asynccontextmanager
async def replaced(fault: Fault, faulty: Server) -> AsyncIterator[None]:
    """See the process that has the device end in the block, or soon after, and another one take its place."""
    engine = (await fault.pids()).get("engine")
    yield
    if engine:
        await restarted(fault, "engine", engine)
    else:
        assert await asyncio.to_thread(fault.server.process.wait, PATIENCE) == 1
    assert "the device is lost" in fault.server.lines()
    if not engine:  # whoever restarts it is not here
        fault.server = faulty


@pytest.mark.parametrize("devices", [pytest.param({}, marks=pytest.mark.slow), PAIR], ids=["one", "two"])
async def test_a_sticky_error_ends_the_process_for_a_restart(
    start: Start, faulty: Server, devices: dict[str, str]
) -> None:
    """CUDA allows nothing else, and one device of two shares the process."""
    name, how = f"sticky device error, {len(devices) + 1} device(s)", "an illegal memory access; then another process"
    async with injected(start(**devices), name, how, neighbour=(200, 503)) as fault, replaced(fault, faulty):
        answer = await fault.post(text="Hello there.", speed=LOST)
        assert answer.status_code == 503
        assert answer.headers["retry-after"]


async def test_a_hang_of_the_only_device_ends_the_process_for_a_restart(
    start: Start, faulty: Server, tmp_path: Path
) -> None:
    how = "a pass that never ends, with ENGINE_TIMEOUT=4; then another process"
    server = start(**IMPATIENT, HANG_ENDS=str(tmp_path / "never"))
    async with (
        injected(server, "forward hangs, one device", how, neighbour=(200, 503, 504)) as fault,
        replaced(fault, faulty),
    ):
        answer = await fault.post(text="Hello there.", speed=HANGS)
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline_exceeded")


@pytest.mark.slow
async def test_a_device_of_two_that_hangs_and_returns_is_used_again(start: Start, tmp_path: Path) -> None:
    how, ends = "a pass that ends when it is long lost, with ENGINE_TIMEOUT=4", tmp_path / "ends"
    server = start(**IMPATIENT, **PAIR, HANG_ENDS=str(ends))
    async with injected(server, "forward hangs, then returns", how, neighbour=(200, 503)) as fault:
        answer = await fault.post(text="Hello there.", speed=HANGS)
        assert answer.status_code == 504
        assert sorted((await states(fault)).values()) == ["healthy", "lost"]
        assert (await fault.post(text="Hello there.")).status_code == 200
        ends.touch()
        deadline = time.monotonic() + PATIENCE
        while "lost" in (await states(fault)).values():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
        assert "device works again" in fault.server.lines()


async def states(fault: Fault) -> dict[str, str]:
    found: dict[str, str] = (await fault.get("/health")).json()["devices"]
    return found
