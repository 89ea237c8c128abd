"""Tasks that run beside a block and end with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)


@asynccontextmanager
async def background(*coroutines: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run coroutines beside the block. When it ends, all of them have ended. One that fails is logged at once."""
    tasks = [logged_task(each) for each in coroutines]
    try:
        yield
    finally:
        await cancel(*tasks)


def logged_task(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task whose failure is logged at once. Whoever starts it ends it with `cancel`."""
    task = asyncio.create_task(work)
    task.add_done_callback(_log_failure)
    return task


async def unless_set(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`; None if `stop` is set before it is done, and `work` is cancelled then."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        await cancel(working, stopping)


async def cancel(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel the tasks and wait until they have ended. What they failed with counts as retrieved."""
    running = [task for task in tasks if task]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def failure_of(task: asyncio.Task[Any]) -> BaseException | None:
    """The error of a task that has failed by now."""
    return task.exception() if task.done() and not task.cancelled() else None


def _log_failure(task: asyncio.Task[Any]) -> None:
    if error := failure_of(task):
        log.error("background task failed task=%s", task.get_coro(), exc_info=error)
