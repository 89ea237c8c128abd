"""Busy time and gaps of a stream, with a double of CUDA's events."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from kokoro_server.engine.cuda.activity import StreamActivity


class Stream:
    """Its clock stands still unless a test moves it. `done` is up to when it has worked."""

    def __init__(self) -> None:
        self.now = 0.0  # seconds: where its queue ends
        self.done = 0.0
        self.events = 0


class Event:
    def __init__(self, stream: Stream) -> None:
        self.at = 0.0
        self._stream = stream
        stream.events += 1

    def record(self, stream: Stream) -> None:
        self.at = stream.now

    def query(self) -> bool:
        return self.at <= self._stream.done

    def elapsed_time(self, other: Event) -> float:
        assert self.query()
        assert other.query()
        return 1000 * (other.at - self.at)


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    stream = Stream()
    monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: Event(stream))
    return stream


def pass_of(activity: Any, stream: Stream, text: float, host: float, decode: float) -> None:
    with activity.step(first=True):
        stream.now += text
    stream.now += host
    with activity.step():
        stream.now += decode


def test_the_host_between_text_and_decode_is_no_work(stream: Stream) -> None:
    activity: Any = StreamActivity(stream)  # type: ignore[arg-type]
    pass_of(activity, stream, text=2, host=5, decode=3)
    stream.now += 0.5
    pass_of(activity, stream, text=2, host=5, decode=3)
    stream.done = stream.now
    activity.collect()
    assert activity.busy_seconds() == pytest.approx(10)
    [gap] = activity.take_gaps()
    assert gap.seconds == pytest.approx(0.5)
    assert gap.since == pytest.approx(time.monotonic() - 0.5, abs=60)
    assert activity.take_gaps() == []


def test_what_has_not_ended_is_counted_later(stream: Stream) -> None:
    activity: Any = StreamActivity(stream)  # type: ignore[arg-type]
    pass_of(activity, stream, text=2, host=0, decode=3)
    stream.done = 2.0
    activity.collect()
    assert activity.busy_seconds() == pytest.approx(2)
    stream.done = 5.0
    activity.collect()
    assert activity.busy_seconds() == pytest.approx(5)


def test_a_gap_is_told_to_the_thread_of_the_pass_that_follows(stream: Stream) -> None:
    activity: Any = StreamActivity(stream)  # type: ignore[arg-type]
    pass_of(activity, stream, text=2, host=0, decode=3)
    with ThreadPoolExecutor(1) as other:
        stream.now += 0.25
        other.submit(pass_of, activity, stream, 2, 0, 3).result()
        stream.done = stream.now
        activity.collect()
        assert activity.take_gaps() == []
        assert [gap.seconds for gap in other.submit(activity.take_gaps).result()] == [pytest.approx(0.25)]


def test_a_step_that_fails_is_left_out(stream: Stream) -> None:
    activity: Any = StreamActivity(stream)  # type: ignore[arg-type]

    def fail() -> None:
        with activity.step(first=True):
            stream.now += 9
            raise MemoryError

    with pytest.raises(MemoryError):
        fail()
    pass_of(activity, stream, text=1, host=0, decode=1)
    stream.done = stream.now
    activity.collect()
    assert activity.busy_seconds() == pytest.approx(2)


def test_events_are_used_again(stream: Stream) -> None:
    activity: Any = StreamActivity(stream)  # type: ignore[arg-type]
    for _ in range(100):
        pass_of(activity, stream, text=1, host=0, decode=1)
        stream.done = stream.now
        activity.collect()
    assert stream.events <= 6
