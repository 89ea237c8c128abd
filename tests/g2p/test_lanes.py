"""Whose text is next: calls take turns, and what nobody waits for is not begun."""

from __future__ import annotations

import asyncio
import json

import pytest

from kokoro_server.errors import G2PFailed
from kokoro_server.g2p.lanes import TEXTS_PER_TURN, Batch, Job, Lane, ThreadLane
from kokoro_server.g2p.languages import EN_US
from kokoro_server.g2p.result import G2PResult


class RecordingLane(Lane):
    """Converts a text when the test says so."""

    def __init__(self, room: int = 1) -> None:
        super().__init__(room)
        self.begun: list[str] = []
        self.has_room = True

    def call(self, *texts: str) -> asyncio.Future[list[bytes]]:
        batch = Batch(len(texts))
        self.add(Job(batch, index, text, EN_US) for index, text in enumerate(texts))
        return batch.answer

    def finish_oldest(self, outcome: bytes | str = b"{}") -> None:
        self._finish(next(iter(self._under_way)), outcome)

    def finish_all(self) -> None:
        while self._under_way:
            self.finish_oldest()

    def close(self) -> None:
        pass

    def _send(self, number: int, job: Job) -> bool:
        if self.has_room:
            self.begun.append(job.text)
        return self.has_room


async def test_a_long_call_holds_up_no_other() -> None:
    lane = RecordingLane()
    lane.call(*["long"] * 1000)
    lane.call("short")
    lane.call("brief")
    lane.finish_all()
    assert lane.begun.index("short") == TEXTS_PER_TURN
    assert lane.begun.index("brief") == TEXTS_PER_TURN + 1
    assert len(lane.begun) == 1002


async def test_a_text_begins_as_soon_as_another_is_done() -> None:
    lane = RecordingLane(room=2)
    answer = lane.call("slow", "a", "b", "c")
    lane._finish(1, b"A")
    lane._finish(2, b"B")
    assert lane.begun == ["slow", "a", "b", "c"]
    lane._finish(3, b"C")
    assert not answer.done()
    lane._finish(0, b"S")
    assert await answer == [b"S", b"A", b"B", b"C"]


async def test_a_call_whose_client_has_gone_is_dropped() -> None:
    lane = RecordingLane()
    gone, other = lane.call(*["gone"] * 50), lane.call("other")
    gone.cancel()
    lane.finish_all()
    assert lane.begun == ["gone", "other"]
    assert other.result() == [b"{}"]


async def test_a_text_that_fails_costs_its_own_call_alone() -> None:
    lane = RecordingLane()
    failed, other = lane.call("bad", "rest", "rest"), lane.call("other")
    lane.finish_oldest("ZeroDivisionError()")
    lane.finish_all()
    assert lane.begun == ["bad", "other"]
    assert other.result() == [b"{}"]
    with pytest.raises(G2PFailed, match=r"'bad' cannot be converted: ZeroDivisionError"):
        await failed


async def test_what_finds_no_room_is_sent_later_and_first() -> None:
    lane = RecordingLane(room=3)
    first = lane.call("a")
    lane.has_room = False
    answer = lane.call("b", "c")
    assert lane.begun == ["a"]
    lane.has_room = True
    lane.finish_all()
    assert lane.begun == ["a", "b", "c"]
    await asyncio.gather(first, answer)


async def test_the_longest_busy_text_is_told() -> None:
    lane = RecordingLane(room=2)
    assert lane.busy_since is None
    lane.call("a")
    since = lane.busy_since
    lane.call("b")
    assert lane.busy_since == since
    lane.finish_all()
    assert lane.busy_since is None


async def test_a_thread_takes_calls_in_turns() -> None:
    lane = ThreadLane({EN_US: G2PResult})
    batches = [Batch(3) for _ in range(4)]
    for number, batch in enumerate(batches):
        lane.add(Job(batch, index, f"{number}{index}", EN_US) for index in range(3))
    for number, batch in enumerate(batches):
        assert [json.loads(each)["phonemes"] for each in await batch.answer] == [f"{number}{n}" for n in range(3)]
    lane.close()
