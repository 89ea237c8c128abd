"""Whose text is next: calls take turns, bulk goes behind the others, and what nobody waits for is not begun."""

from __future__ import annotations

import asyncio
import json

import pytest

from kokoro_server.errors import G2PFailed, G2PUnavailable, KokoroError
from kokoro_server.g2p.result import G2PResult
from kokoro_server.g2p.service import lanes
from kokoro_server.g2p.service.lanes import (
    BULK_SKIP_LIMIT,
    TEXTS_PER_TURN,
    ConversionLane,
    LaneText,
    TextBatch,
    ThreadLane,
)
from kokoro_server.languages import EN_US


class RecordingLane(ConversionLane):
    """Converts a text when the test says so."""

    def __init__(self, room: int = 1, kept_free: int = 0) -> None:
        super().__init__(room, kept_free)
        self.begun: list[str] = []
        self.has_room = True

    def call(self, *texts: str, bulk: bool = False) -> asyncio.Future[list[bytes]]:
        batch = TextBatch(len(texts), bulk=bulk)
        self.add(LaneText(batch, index, text, EN_US) for index, text in enumerate(texts))
        return batch.answer

    def finish_oldest(self, outcome: bytes | str = b"{}") -> None:
        self._finish(next(iter(self._under_way)), outcome)

    def finish_all(self) -> None:
        while self._under_way:
            self.finish_oldest()

    def fail_all(self, error: KokoroError) -> None:
        self._fail_all(error)

    def close(self) -> None:
        pass

    def _send(self, number: int, job: LaneText) -> bool:
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


async def test_bulk_goes_behind_all_others_however_late_they_come() -> None:
    lane = RecordingLane()
    lane.call("first", "second", "third", bulk=True)
    lane.call("bulk", bulk=True)
    lane.call("a", "b")
    lane.finish_oldest()
    lane.call("c")
    lane.finish_all()
    assert lane.begun == ["first", "a", "b", "c", "second", "third", "bulk"]


async def test_bulk_that_waits_has_a_text_now_and_then() -> None:
    lane = RecordingLane()
    lane.call("other")
    first, second = lane.call("bulk 1", "bulk 2", bulk=True), lane.call("bulk 3", bulk=True)
    lane.call(*["other"] * 100)
    lane.finish_all()
    others = ["other"] * BULK_SKIP_LIMIT
    # The first went when no bulk waited.
    assert lane.begun[1:] == [*others, "bulk 1", *others, "bulk 2", *others, "bulk 3", *["other"] * 88]
    await asyncio.gather(first, second)


async def test_while_others_come_bulk_leaves_room_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = RecordingLane(room=4, kept_free=2)
    lane.call(*["bulk"] * 100, bulk=True)
    assert lane.begun == ["bulk"] * 4
    lane.call("other")
    lane.finish_oldest()
    assert lane.begun[4:] == ["other"]
    for _ in range(10):
        lane.finish_oldest()
    assert len(lane._under_way) == 2
    lane.call("another")
    assert lane.begun[-1] == "another"  # at once
    monkeypatch.setattr(lanes, "URGENT_MEMORY", 0.0)
    lane.finish_oldest()
    assert len(lane._under_way) == 4


async def test_calls_in_bulk_take_turns() -> None:
    lane = RecordingLane()
    lane.call(*["long"] * 100, bulk=True)
    lane.call("short", bulk=True)
    lane.finish_all()
    assert lane.begun.index("short") == TEXTS_PER_TURN


async def test_bulk_whose_client_has_gone_takes_nobodys_turn() -> None:
    lane = RecordingLane()
    lane.call("other")
    gone = lane.call("gone", "gone", bulk=True)
    lane.call(*["other"] * 10)
    gone.cancel()
    lane.finish_all()
    assert lane.begun == ["other"] * 11


async def test_bulk_that_finds_no_room_keeps_its_turn() -> None:
    lane = RecordingLane()
    lane.call("other")
    lane.call("bulk", bulk=True)
    lane.call(*["other"] * 10)
    for _ in range(BULK_SKIP_LIMIT):
        lane.finish_oldest()
    lane.has_room = False
    lane.finish_oldest()
    lane.has_room = True
    lane.call("late")
    assert lane.begun == ["other"] * (BULK_SKIP_LIMIT + 1) + ["bulk"]


async def test_all_that_waits_fails_with_the_lane() -> None:
    lane = RecordingLane()
    answers = [lane.call("under way", "waits"), lane.call("waits"), lane.call("waits", bulk=True)]
    lane.fail_all(G2PUnavailable("ended"))
    lane.call("next")
    assert lane.begun == ["under way", "next"]
    for answer in answers:
        with pytest.raises(G2PUnavailable):
            await answer


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
    batches = [TextBatch(3) for _ in range(4)]
    for number, batch in enumerate(batches):
        lane.add(LaneText(batch, index, f"{number}{index}", EN_US) for index in range(3))
    for number, batch in enumerate(batches):
        assert [json.loads(each)["phonemes"] for each in await batch.answer] == [f"{number}{n}" for n in range(3)]
    lane.close()
