from __future__ import annotations

import asyncio

import pytest

from kokoro_server.runtime.background import background, cancel, failure_of


async def test_a_watcher_has_ended_when_the_block_has() -> None:
    ended = False

    async def watch() -> None:
        nonlocal ended
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0)  # it takes a moment to end
            ended = True

    async with background(watch()):
        await asyncio.sleep(0)
    assert ended


async def test_a_watcher_that_fails_is_logged_and_ends_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("out of order")

    async with background(fail(), asyncio.sleep(600)):
        await asyncio.sleep(0.01)
        assert "out of order" in caplog.text


async def test_a_task_that_has_failed_can_be_cancelled() -> None:
    async def fail() -> None:
        raise ValueError("out of order")

    task = asyncio.create_task(fail())
    await asyncio.sleep(0)
    await cancel(task, None)
    assert str(failure_of(task)) == "out of order"
