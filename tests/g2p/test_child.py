"""The child process, for real: each test pays the seconds that English takes to load."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kokoro_server import languages
from kokoro_server.errors import G2PUnavailable, SetupError
from kokoro_server.g2p.child import POLICY, G2PChild
from kokoro_server.g2p.client import G2PClient
from kokoro_server.runtime.backoff import Backoff
from kokoro_server.runtime.supervise import RestartPolicy

from .conftest import SOURCE_TREE

PARENT = """
import asyncio, contextlib, logging, sys
from kokoro_server.g2p.child import G2PChild

async def main():
    child = G2PChild()
    start = asyncio.create_task(child.start())
    while child.pid is None:
        await asyncio.sleep(0.01)
    if sys.argv[1] == "running":
        await start
    print(child.pid, flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        await child.stop()

logging.basicConfig()
with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    # A dead process that nobody has collected yet is still listed.
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"not so after {seconds} s")


def is_empty(folder: Path) -> bool:
    return not list(folder.iterdir())


def start_parent(phase: str) -> subprocess.Popen[bytes]:
    """A process in a group of its own that runs a child and prints its pid, once it is `loading` or `running`."""
    command = [sys.executable, "-c", PARENT, phase]
    return subprocess.Popen(
        command,
        env=SOURCE_TREE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests run in the background have it ignored
    )


@contextlib.asynccontextmanager
async def running(policy: RestartPolicy = POLICY) -> AsyncIterator[tuple[G2PChild, G2PClient]]:
    child = G2PChild(policy=policy)
    client = G2PClient(lambda: child.url, 30)
    await child.start()
    try:
        yield child, client
    finally:
        await child.stop()
        await client.aclose()


async def test_the_child_answers_and_leaves_nothing_behind(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    caplog.set_level(logging.INFO)
    async with running() as (child, client):
        assert (child.state, child.restarts) == ("running", 0)
        assert (await client.convert(["Hi!"], languages.EN_US))[0].phonemes == "hˈI!"
        pid = child.pid
    assert child.state == "stopped"
    assert pid
    assert not is_alive(pid)
    assert is_empty(tmp_path)
    assert any(record.message.startswith("g2p | loaded language=en-US") for record in caplog.records)
    with pytest.raises(G2PUnavailable):
        await client.convert(["Bye!"], languages.EN_US)
    await child.stop()


async def test_a_killed_child_is_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with running() as (child, client):
        killed = child.pid
        assert killed
        os.kill(killed, signal.SIGKILL)
        await until(lambda: not is_alive(killed))
        waiting = asyncio.create_task(client.convert(["Hi!"], languages.EN_US))
        await until(lambda: child.state == "restarting")
        await until(lambda: client.down_for > 0)
        assert child.condition.current
        assert "G2P service is down" in child.condition.current.message
        await until(lambda: child.state == "running")
        await until(lambda: child.condition.current is None)
        assert (await waiting)[0].phonemes == "hˈI!"
        assert client.down_for == 0
        assert child.restarts == 1
        assert child.pid != killed
    assert is_empty(tmp_path)


async def test_a_hung_child_is_restarted() -> None:
    async with running(RestartPolicy(Backoff(0.2), watch_interval=0.5, max_misses=2, max_start_misses=60)) as (
        child,
        client,
    ):
        hung = child.pid
        assert hung
        os.kill(hung, signal.SIGSTOP)
        await until(lambda: child.restarts == 1 and child.state == "running")
        assert not is_alive(hung)
        assert (await client.convert(["Hi!"], languages.EN_US))[0].phonemes == "hˈI!"


async def test_a_child_that_hangs_while_it_starts_is_replaced() -> None:
    async with running(RestartPolicy(Backoff(0.01), watch_interval=0.5, max_misses=60, max_start_misses=8)) as (
        child,
        _,
    ):
        first = child.pid
        assert first
        os.kill(first, signal.SIGKILL)
        await until(lambda: child.pid not in (first, None))
        hung = child.pid
        assert hung
        os.kill(hung, signal.SIGSTOP)
        await until(lambda: child.restarts > 1 and child.state == "running")
        assert not is_alive(hung)


async def test_a_child_that_cannot_start_tells_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spacy.py").write_text("raise ImportError('spaCy is out of order')")
    monkeypatch.setattr(
        "kokoro_server.runtime.subprocesses.python_path", lambda: f"{tmp_path}:{SOURCE_TREE['PYTHONPATH']}"
    )
    child = G2PChild()
    with pytest.raises(SetupError, match="spaCy is out of order"):
        await child.start()
    assert (child.state, child.pid) == ("stopped", None)


async def test_a_child_that_keeps_failing_is_tried_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    policy = RestartPolicy(Backoff(0.01, longest=0.04), watch_interval=5.0, max_misses=3, max_start_misses=4)
    async with running(policy) as (child, _client):
        monkeypatch.setattr("sys.executable", "/bin/false")
        assert child.pid
        os.kill(child.pid, signal.SIGKILL)
        await until(lambda: child.restarts >= 4)
        assert child.state == "restarting"
    waits = [record.args[1] for record in caplog.records if record.msg.startswith("restarting process")]
    assert waits[:4] == [0.01, 0.02, 0.04, 0.04]


async def test_a_child_stopped_while_it_starts_is_gone() -> None:
    child = G2PChild()
    starting = asyncio.create_task(child.start())
    await until(lambda: child.pid is not None)
    pid = child.pid
    assert pid
    starting.cancel()
    await child.stop()
    assert not is_alive(pid)
    assert child.state == "stopped"


@pytest.mark.parametrize("phase", ["loading", "running"])
async def test_the_child_does_not_outlive_a_parent_that_is_killed(phase: str) -> None:
    with start_parent(phase) as parent:
        assert parent.stdout
        pid = int(await asyncio.to_thread(parent.stdout.readline))
        assert is_alive(pid)
        parent.kill()
    await until(lambda: not is_alive(pid), 20)


async def test_control_c_in_the_terminal_stops_the_child_without_a_traceback() -> None:
    with start_parent("running") as parent:
        assert parent.stdout
        assert parent.stderr
        pid = int(await asyncio.to_thread(parent.stdout.readline))
        os.killpg(parent.pid, signal.SIGINT)
        assert await asyncio.to_thread(parent.wait, 20) == 0
        assert parent.stderr.read() == b""
    assert not is_alive(pid)
