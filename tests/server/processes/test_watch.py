"""The real engine process and a real API worker, watched with little patience."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.runtime.backoff import Backoff
from kokoro_server.runtime.sockets import listen
from kokoro_server.runtime.supervise import RestartPolicy
from kokoro_server.server.ipc.shared_state import ENGINE, FIRST_WORKER, SharedState
from kokoro_server.server.processes.server_process import ServerProcess, launch
from tests.servers import alive

PATIENCE = 120.0  # seconds; a slow machine may be busy with other things
POLICY = RestartPolicy(
    Backoff(0.01), watch_interval=0.5, max_misses=8, max_start_misses=120
)  # a sign comes each second
PHONEMES = {"phonemes": "hˈI!"}


@dataclass
class Pair:
    engine: ServerProcess
    worker: ServerProcess
    url: str

    async def speak(self) -> int:
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            return (await client.post(f"{self.url}/tts", json=PHONEMES)).status_code


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    options = {"port": 0, "jobs_path": tmp_path / "jobs", "g2p_url": "http://127.0.0.1:9", "queue_timeout": 600}
    settings = Settings.model_validate(options)
    with closing(SharedState.create(FIRST_WORKER + 1)) as state, closing(listen(settings)) as listeners:
        arguments = ("--state", str(state.fd), "--path", str(tmp_path / "engine"))
        start_engine = partial(
            launch, "engine", (*arguments, "--load", "tests.services.tiny:load"), (state.fd,), settings
        )
        descriptor = listeners.http.fileno()
        listening = ("--listener", str(descriptor))
        start_worker = partial(launch, "api", (*arguments, *listening), (state.fd, descriptor), settings)
        engine = ServerProcess("engine", start_engine, state.slots[ENGINE], policy=POLICY)
        worker = ServerProcess("front-1", start_worker, state.slots[FIRST_WORKER], policy=POLICY)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(engine.start())
                group.create_task(worker.start())
            yield Pair(engine, worker, f"http://127.0.0.1:{listeners.http.getsockname()[1]}")
        finally:
            await worker.stop(PATIENCE)
            await engine.stop(PATIENCE)


async def test_a_process_that_is_stopped_is_killed_and_replaced(pair: Pair) -> None:
    stop(pair.engine)
    asked = asyncio.create_task(pair.speak())
    await replaced(pair.engine)
    assert await asked == 200  # it waited for the next engine process
    stop(pair.worker)
    await replaced(pair.worker)
    assert await pair.speak() == 200


def stop(process: ServerProcess) -> None:
    assert process.pid
    os.kill(process.pid, signal.SIGSTOP)


async def replaced(process: ServerProcess) -> None:
    hung = process.pid
    assert hung
    async with asyncio.timeout(PATIENCE):
        while process.pid in (hung, None) or process.state != "running":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert not alive(hung)
