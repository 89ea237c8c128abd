"""The event loop, file descriptors and memory of a process that serves."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

# Seconds that the event loop may keep the GIL when the device's thread asks for it. That thread asks some twenty times
# in a batch, and the device is idle while it waits.
SWITCH_INTERVAL = 0.00005
GC_THRESHOLD = 10_000  # net new objects that start a collection of the youngest generation
LAG_INTERVAL = 0.25  # seconds from one look at the loop's lag to the next
M_ARENA_MAX, ARENAS = -8, 2  # of glibc's mallopt. Each thread would else have a pool of freed memory of its own
M_MMAP_THRESHOLD, LARGE_BLOCK = -3, 256 * 1024  # bytes
QUIET = 5  # seconds without a request, after which freed memory is given back to the system
TRIM_EVERY = 30  # seconds from one time to the next if requests never stop


def run_on_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` on a new event loop: uvloop's where uvloop is installed, which it is not on Windows."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    _raise_descriptor_limit()
    _share_freed_memory()
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


def _raise_descriptor_limit() -> None:
    """A shell often allows 1,024 open files and lets a process ask for more; each connection is one."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such module
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _share_freed_memory() -> None:
    """Let threads use each other's freed memory. Those that encode clips would keep the largest each has ever had."""
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL("libc.so.6").mallopt(M_ARENA_MAX, ARENAS)


def give_back_large_blocks() -> None:
    """Let the system have those that are freed, such as a clip's audio, at once.

    glibc by itself keeps ever larger ones after it has freed the first, and what lives long comes to lie between them.
    For a process that computes, new pages for every block would cost too much.
    """
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL("libc.so.6").mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


def freeze_heap() -> None:
    """Exempt the objects that exist by now from garbage collection, as they stay until the end.

    With torch there are a million, and a scan of all stops everything for a third of a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)


def freeze_again() -> None:
    """Call `freeze_heap` for the objects made since, in a process that has called it before."""
    if gc.get_freeze_count():
        freeze_heap()


def collect_all() -> None:
    """Collect garbage among the frozen objects, too."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    gc.collect()
    if frozen:
        gc.freeze()


def trim() -> None:
    """Give freed memory back to the system. glibc by itself keeps all that lies below a block still in use."""
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def tidy() -> None:
    """Free what only garbage holds, too. Python by itself looks for old garbage after millions of new objects."""
    gc.collect()
    trim()


async def trim_now_and_then(is_busy: Callable[[], bool]) -> None:
    """`trim` in between, as a crowd that never ends may not make memory grow; `tidy` after a quiet while."""
    quiet, since = QUIET, 0
    while True:
        await asyncio.sleep(1)
        quiet, since = 0 if is_busy() else quiet + 1, since + 1
        if quiet == QUIET or (quiet < QUIET and since >= TRIM_EVERY):
            since = 0
            await asyncio.to_thread(tidy if quiet == QUIET else trim)


async def watch_lag(observe: Callable[[float], object]) -> None:
    """Observe again and again by how many seconds the loop is late."""
    while True:
        due = time.perf_counter() + LAG_INTERVAL
        await asyncio.sleep(LAG_INTERVAL)
        observe(max(0.0, time.perf_counter() - due))
