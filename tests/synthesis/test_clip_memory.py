"""Clips wait for room in memory, and their callers take turns."""

from __future__ import annotations

import asyncio

import pytest

from kokoro_server.errors import TooBusy
from kokoro_server.runtime.fair_slots import FairSlots
from kokoro_server.synthesis.clip_memory import FREE_SECONDS, KEPT_SECONDS, ClipMemory


def memory_of(seconds: int) -> ClipMemory:
    memory = ClipMemory()
    memory.seconds = FairSlots(seconds)
    return memory


async def test_a_clip_waits_its_time_and_is_then_refused() -> None:
    memory = memory_of(100)
    async with memory.held(80, "ann", 10), memory.held(FREE_SECONDS, "ann", 0):
        with pytest.raises(TooBusy, match="80 s are being made, and 100 s fit") as refused:
            async with memory.held(31, "bob", 0.01):
                raise AssertionError
        assert refused.value.retry_after
        assert (memory.seconds.used, memory.seconds.waiting) == (80, 0)
    async with memory.held(1000, "bob", 0.01):
        assert memory.seconds.used == 100
    assert memory.seconds.used == 0


async def test_a_clip_goes_on_when_there_is_room() -> None:
    memory, order = memory_of(100), list[str]()

    async def make(caller: str) -> None:
        async with memory.held(60.5, caller, 30):
            order.append(caller)
            await asyncio.sleep(0)

    await asyncio.gather(*map(make, ["ann", "ann", "ann", "bob"]))
    assert order == ["ann", "bob", "ann", "ann"]
    assert memory.seconds.used == 0


def test_each_process_has_its_part_and_room_for_a_clip() -> None:
    assert ClipMemory(2).seconds.number == pytest.approx(ClipMemory().seconds.number / 2, abs=1)
    assert ClipMemory(10**6).seconds.number == KEPT_SECONDS
