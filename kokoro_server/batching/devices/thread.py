"""The thread that calls the blocking engine, so that the event loop never blocks."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from kokoro_server.runtime.threads import answer

T = TypeVar("T")
Call = tuple[Callable[[], Any], asyncio.Future[Any]]


class DeviceThreadDied(Exception):
    """The call raised something that is not an Exception, such as SystemExit, which ended its thread."""


class DeviceThread:
    """Runs calls one after the other. A daemon: a call that never returns must not keep the process from exiting."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self.alive = True
        self._processor_clock: int | None = None
        self._thread = threading.Thread(target=self._serve, name=f"kokoro-{name}", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], T]) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self._loop.create_future()
        self._calls.put((work, done))
        return done

    def computing(self) -> float | None:
        """How many seconds it has computed. None if the system does not tell, or it has ended."""
        try:
            return None if self._processor_clock is None else time.clock_gettime(self._processor_clock)
        except OSError:
            return None

    def stop(self) -> None:
        """Let the thread end after the call it is in."""
        self._calls.put(None)

    def _serve(self) -> None:
        if sys.platform == "linux":
            self._processor_clock = time.pthread_getcpuclockid(threading.get_ident())
        # The call lives in _serve_one's frame only: an idle thread keeps no audio alive.
        while self._serve_one():
            pass

    def _serve_one(self) -> bool:
        call = self._calls.get()
        if call is None:
            return False
        work, done = call
        try:
            answer(done, work())
        except Exception as error:
            answer(done, error)
        except BaseException as error:
            self.alive = False  # set before the error is delivered: its receiver must not call this thread again
            answer(done, DeviceThreadDied(repr(error)))
            return False
        return True
