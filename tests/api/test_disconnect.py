"""A client that leaves: its work is cancelled, and nothing else is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from kokoro_server.api import disconnect
from kokoro_server.api.disconnect import cancel_on_disconnect

Receive = Callable[[], Awaitable[dict[str, Any]]]


@pytest.fixture(autouse=True)
def _watched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disconnect, "WATCH_AFTER", 0)


def leaving(gone: asyncio.Event) -> Receive:
    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    return receive


async def test_work_for_a_client_that_left_is_cancelled() -> None:
    gone, stopped = asyncio.Event(), False

    async def work() -> None:
        nonlocal stopped
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped = True
            raise

    asyncio.get_running_loop().call_later(0.02, gone.set)
    with pytest.raises(ClientDisconnect):
        await cancel_on_disconnect(leaving(gone), work())
    assert stopped


@pytest.mark.parametrize("turns", range(6))
async def test_one_that_leaves_as_the_work_ends_disturbs_nobody(turns: int) -> None:
    """Whatever the order of the two in one turn of the loop: the result or ClientDisconnect, and no cancel later."""
    gone, done = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def work() -> str:
        result: str = await done
        return result

    async def end() -> None:
        await asyncio.sleep(0.01)
        gone.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        if not done.done():
            done.set_result("audio")

    async def request() -> str:
        try:
            result = await cancel_on_disconnect(leaving(gone), work())
        except ClientDisconnect:
            result = "left"
        for _ in range(5):
            await asyncio.sleep(0)  # a late cancel would arrive here
        return result

    ending = asyncio.create_task(end())
    assert await asyncio.create_task(request()) in {"audio", "left"}
    await ending
