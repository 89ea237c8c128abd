"""Work in threads that do not delay the exit of the process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn, TypeVar

T = TypeVar("T")

_LOADING = "load"  # name of the threads that load a model


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread that, unlike asyncio's own, does not delay the exit of a server stopped while it loads."""
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def run() -> None:
        try:
            answer(done, work())
        except BaseException as error:
            answer(done, error)

    start_loading(run)
    return await done


def start_loading(work: Callable[[], object]) -> None:
    threading.Thread(target=work, name=_LOADING, daemon=True).start()


def leave(status: int) -> NoReturn:
    """End the process, even while a thread loads a model: Python would stop that in native code, and abort."""
    if any(thread.name == _LOADING for thread in threading.enumerate()):
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # whoever read it has gone
                stream.flush()
        os._exit(status)
    sys.exit(status)


async def in_thread_to_its_end(work: Callable[[], T]) -> T:
    """`asyncio.to_thread`, but who is cancelled meanwhile waits for the thread: what it uses may then be closed."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    finally:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({running})
        running.exception()  # counts as retrieved


def answer(done: asyncio.Future[T], result: T | BaseException) -> None:
    """Settle a future from another thread than its event loop's, unless it is done or its loop is closed."""
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        done.get_loop().call_soon_threadsafe(_settle, done, result)


def _settle(done: asyncio.Future[T], result: T | BaseException) -> None:
    if done.done():
        return
    if isinstance(result, BaseException):
        done.set_exception(result)
    else:
        done.set_result(result)
