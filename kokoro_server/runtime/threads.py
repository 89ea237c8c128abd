"""Long work in a thread that does not delay the exit of the process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread that, unlike asyncio's own, does not delay the exit of a server stopped while it loads."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | BaseException) -> None:
        if done.done():
            return
        if isinstance(result, BaseException):
            done.set_exception(result)
        else:
            done.set_result(result)

    def run() -> None:
        result: T | BaseException
        try:
            result = work()
        except BaseException as error:
            result = error
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=run, name="load", daemon=True).start()
    return await done
