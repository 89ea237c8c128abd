"""A process that is kept running. It is a short script, and the test shows on the board what it would."""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kokoro_server.observability.siblings import Cell
from kokoro_server.server.ipc.shared_state import SharedState
from kokoro_server.server.processes.worker import RestartPolicy, WorkerProcess

SCRIPT = "import time; print('{}', flush=True); time.sleep(600)"
POLICY = RestartPolicy(first_backoff=0.01, hung=1.0, watch_interval=0.1)
PATIENCE = 30.0  # seconds


async def launch() -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", SCRIPT, stdin=PIPE, stdout=PIPE)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
async def board() -> AsyncIterator[SharedState]:
    board = SharedState.create(1)
    yield board
    board.close()


@pytest.fixture
async def worker(board: SharedState) -> AsyncIterator[WorkerProcess]:
    worker = WorkerProcess("one", launch, board.slots[0], policy=POLICY)
    await worker.start()
    yield worker
    await worker.stop(PATIENCE)


async def test_a_process_whose_supervisor_is_gone_before_it_begins_ends_quietly(tmp_path: Path) -> None:
    arguments = ("engine", "--board", "0", "--link", str(tmp_path))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kokoro_server.server.processes.child", *arguments), stdin=DEVNULL, stderr=PIPE
    )
    _, told = await process.communicate()
    assert told == b""


async def test_one_that_shows_no_sign_of_life_is_replaced(worker: WorkerProcess, board: SharedState) -> None:
    board.slots[0].publish({"metrics": []})
    board.slots[0].cells[Cell.STREAMS] = 3
    first = worker.pid
    await until(lambda: worker.pid not in (first, None))
    assert worker.restarts >= 1
    assert board.slots[0].cells[Cell.STREAMS] == 0  # nobody counts streams of a process that is gone


async def test_one_that_ends_while_the_server_stops_is_not_started_again(worker: WorkerProcess) -> None:
    process = worker._process
    assert process
    worker.restart_no_more()
    process.kill()
    await process.wait()
    await asyncio.sleep(0.3)
    assert worker.restarts == 0


async def test_nobody_is_killed_because_all_were_stopped_for_a_while(worker: WorkerProcess, board: SharedState) -> None:
    first = worker.pid
    board.slots[0].publish({})
    await asyncio.sleep(0.3)
    time.sleep(2 * POLICY.hung)  # noqa: ASYNC251 (the supervisor is stopped too, as in a paused container)
    await asyncio.sleep(0.3)
    for _ in range(5):
        board.slots[0].publish({})
        await asyncio.sleep(0.1)
    assert worker.restarts == 0
    assert worker.pid == first
