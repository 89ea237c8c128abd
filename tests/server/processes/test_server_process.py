"""A process that is kept running. It is a short script, and the test shows on the state what it would."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kokoro_server.observability.siblings import Cell
from kokoro_server.runtime.backoff import Backoff
from kokoro_server.runtime.event_loop import run_on_loop
from kokoro_server.runtime.supervise import RestartPolicy
from kokoro_server.server.ipc.shared_state import SharedState
from kokoro_server.server.processes.server_process import Launch, ServerProcess, Spare

SCRIPT = "import time; print('{}', flush=True); time.sleep(600)"
SILENT = "import time; time.sleep(600)"
# Beats for longer than the policy waits.
BEATS = "for i in 1 2 3 4 5 6 7 8; do echo; sleep 0.5; done; echo {}; exec sleep 600"
POLICY = RestartPolicy(Backoff(0.01, longest=10.0), watch_interval=0.1, max_misses=10, max_start_misses=30)
PATIENCE = 120.0  # seconds; a slow machine may be busy with other things


async def launch() -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", SCRIPT, stdin=PIPE, stdout=PIPE)


def launching(*commands: tuple[str, ...]) -> Launch:
    """Starts the commands one after the other."""
    rest = iter(commands)

    async def start() -> Process:
        return await asyncio.create_subprocess_exec(*next(rest), stdin=PIPE, stdout=PIPE)

    return start


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
async def state() -> AsyncIterator[SharedState]:
    state = SharedState.create(1)
    yield state
    state.close()


@pytest.fixture
async def worker(state: SharedState) -> AsyncIterator[ServerProcess]:
    worker = ServerProcess("one", launch, state.slots[0], policy=POLICY)
    await worker.start()
    yield worker
    await worker.stop(PATIENCE)


async def test_a_process_whose_supervisor_is_gone_before_it_begins_ends_quietly(tmp_path: Path) -> None:
    arguments = ("engine", "--state", "0", "--path", str(tmp_path))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kokoro_server.server.processes.child", *arguments), stdin=DEVNULL, stderr=PIPE
    )
    _, errors = await process.communicate()
    assert errors == b""


async def test_one_that_shows_no_sign_of_life_is_replaced(worker: ServerProcess, state: SharedState) -> None:
    state.slots[0].publish({"metrics": []})
    state.slots[0].cells[Cell.STREAMS] = 3
    first = worker.pid
    await until(lambda: worker.pid not in (first, None))
    assert worker.restarts >= 1
    assert state.slots[0].cells[Cell.STREAMS] == 0  # nobody counts streams of a process that is gone


async def test_one_that_ends_while_the_server_stops_is_not_started_again(worker: ServerProcess) -> None:
    process = worker._process
    assert process
    worker.stop_restarting()
    process.kill()
    await process.wait()
    await asyncio.sleep(0.3)
    assert worker.restarts == 0


async def test_nobody_is_killed_because_all_were_stopped_for_a_while(worker: ServerProcess, state: SharedState) -> None:
    first = worker.pid
    state.slots[0].publish({})
    await asyncio.sleep(0.3)
    time.sleep(2 * POLICY.watch_interval * POLICY.max_misses)  # noqa: ASYNC251 (the supervisor is stopped too, as in a paused container)
    await asyncio.sleep(0.3)
    for _ in range(5):
        state.slots[0].publish({})
        await asyncio.sleep(0.1)
    assert worker.restarts == 0
    assert worker.pid == first


async def test_one_that_hangs_while_it_starts_is_replaced(state: SharedState) -> None:
    launch = launching(*((sys.executable, "-c", script) for script in (SCRIPT, SILENT, SCRIPT)))
    worker = ServerProcess("one", launch, state.slots[0], policy=POLICY)
    await worker.start()
    worker.signal(signal.SIGKILL)
    await until(lambda: worker.restarts == 2 and worker.state == "running")
    await worker.stop(PATIENCE)


async def test_one_that_shows_signs_of_life_may_take_long_to_start(state: SharedState) -> None:
    worker = ServerProcess("one", launching(("sh", "-c", BEATS)), state.slots[0], policy=POLICY)
    await worker.start()
    assert worker.state == "running"
    await worker.stop(0)


def test_a_spare_that_has_ended_is_replaced() -> None:
    """On uvloop, as in a server: it refuses to write to a process that has ended by another error than asyncio does."""

    async def take() -> None:
        spare = Spare(launching(("true",), ("cat",), ("cat",)))
        spare.fill()
        await until(lambda: spare._filling and spare._filling.done())
        process = await spare.take()
        assert process.returncode is None
        process.kill()
        await process.wait()
        await until(lambda: spare._process)  # the next one
        await spare.stop()

    run_on_loop(take())


async def test_an_error_that_nobody_foresaw_does_not_end_the_restarts(state: SharedState) -> None:
    rest = iter((True, False, True))

    async def start() -> Process:
        if next(rest):
            return await launch()
        raise RuntimeError("unforeseen")

    worker = ServerProcess("one", start, state.slots[0], policy=POLICY)
    await worker.start()
    worker.signal(signal.SIGKILL)
    await until(lambda: worker.restarts == 2 and worker.state == "running")
    await worker.stop(PATIENCE)
