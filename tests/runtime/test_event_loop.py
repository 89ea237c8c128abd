"""Memory of a process that serves."""

from __future__ import annotations

import asyncio
import gc
import platform
import subprocess

import pytest

from kokoro_server.runtime import event_loop
from kokoro_server.runtime.background import background
from tests.servers import PYTHON, ROOT

# glibc has a heap for each thread that allocates, at a multiple of 64 MB, unless asked otherwise.
SCRIPT = """
import threading
from kokoro_server.runtime.event_loop import run_on_loop

async def main():
    all_hold, counted = threading.Barrier(17), threading.Event()
    def hold():
        held = bytes(50_000)  # not large enough to be mapped by itself
        all_hold.wait()
        counted.wait()
    for _ in range(16):
        threading.Thread(target=hold).start()
    all_hold.wait()
    print(sum(int(line.split("-")[0], 16) % 2**26 == 0 for line in open("/proc/self/maps")))
    counted.set()

run_on_loop(main())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="how glibc keeps memory")
def test_threads_share_freed_memory() -> None:
    def reserved(script: str) -> int:
        return int(subprocess.run((PYTHON, "-c", script), cwd=ROOT, capture_output=True, check=True).stdout)

    usual = SCRIPT.replace("run_on_loop(main())", "import asyncio; asyncio.run(main())")
    assert reserved(SCRIPT) < 5 < reserved(usual)


@pytest.mark.parametrize("busy", [True, False])
async def test_memory_is_given_back_in_a_crowd_that_never_ends_and_once_when_it_does(
    busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed, collected, seconds = list[int](), list[int](), list[float]()
    monkeypatch.setattr(event_loop, "trim", lambda: trimmed.append(len(seconds)))
    monkeypatch.setattr(gc, "collect", lambda: collected.append(len(seconds)))

    async def second(length: float) -> None:
        seconds.append(length)
        await turn(0)

    turn = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", second)
    async with background(event_loop.trim_now_and_then(lambda: busy or len(seconds) < 10)):
        while len(seconds) < 100:
            await turn(0.001)
    every = event_loop.TRIM_EVERY
    assert trimmed[:3] == [every, 2 * every, 3 * every] if busy else trimmed == [9 + event_loop.QUIET]
    assert collected == ([] if busy else trimmed)
