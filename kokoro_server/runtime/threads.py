"""Work in threads that do not delay the exit of the process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread that, unlike asyncio's own, does not delay the exit of a server stopped while it loads."""
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def run() -> None:
        try:
            answer(done, work())
        except BaseException as error:
            answer(done, error)

    threading.Thread(target=run, name="load", daemon=True).start()
    return await done


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
