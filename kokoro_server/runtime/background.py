"""Tasks that run beside a block and end with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

log = logging.getLogger(__name__)


@asynccontextmanager
async def background(*coroutines: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run coroutines beside the block. When it ends, all of them have ended. One that fails is logged at once."""
    tasks = [asyncio.create_task(each) for each in coroutines]
    for task in tasks:
        task.add_done_callback(_log_failure)
    try:
        yield
    finally:
        await cancel(*tasks)


async def cancel(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel the tasks and wait until they have ended. What they failed with counts as retrieved."""
    running = [task for task in tasks if task]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def failure_of(task: asyncio.Task[Any]) -> BaseException | None:
    """The error of a task that has failed by now."""
    return task.exception() if task.done() and not task.cancelled() else None


def _log_failure(task: asyncio.Task[object]) -> None:
    if error := failure_of(task):
        log.error("background task failed task=%s", task.get_coro(), exc_info=error)
