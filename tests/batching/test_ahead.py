"""The later pieces of a stream go behind other requests while its listener has enough to hear. One row a pass."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager

import pytest

from kokoro_server.batching import Priority
from kokoro_server.batching.tickets import Playback
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import TooBusy
from tests.batching.doubles import make_result, make_row, settle, until
from tests.batching.test_speed import TimedEngine

TOKENS = 150  # of a piece: 9.9 s of audio
PIECE = len(make_result(make_row(0, TOKENS)).audio) / SAMPLE_RATE


@asynccontextmanager
async def stream(queue, pieces: int = 8):
    """A long stream whose listener hears each piece as soon as it is there. Yields the times of those."""
    ticket = queue.ticket(bypass=100, urgent=100, ahead=4)
    ticket.playback = Playback()
    rows = [make_row(name, TOKENS) for name in range(pieces)]
    made: list[float] = []

    async def listen() -> None:
        async with aclosing(queue.submit_all(rows, voice="a", ticket=ticket)) as outcomes:
            async for outcome in outcomes:
                ticket.playback.add(len(outcome.result.audio) / SAMPLE_RATE, queue.now())
                made.append(queue.now())

    task = asyncio.create_task(listen())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def lanes(queue) -> dict[str, int]:
    return queue.snapshot()["queue_status"]["by_priority"]


@pytest.fixture
def slow(clock) -> TimedEngine:
    """Stops before each row until `step` lets it go on."""
    return TimedEngine(clock, 0.3, 0.3)


@pytest.fixture
def step(slow):
    """Lets the engine make the row that it is at, and the rows after it wait."""
    sounds = slow.before

    def before(rows) -> None:
        slow.gate.clear()
        sounds(rows)

    slow.before = before

    async def go_on() -> None:
        made = len(slow.calls)
        slow.gate.set()
        await until(lambda: len(slow.calls) > made)
        await settle()

    slow.gate.clear()
    return go_on


async def test_a_short_request_goes_before_later_pieces_whose_listener_has_enough(start, submit, slow, step):
    queue = await start(engines=[slow])
    async with stream(queue) as made:
        await until(lambda: slow.calls == [[0]])
        await step()
        await step()
        assert (len(made), slow.calls[-1]) == (2, [2])  # of 20 s, the listener has heard 3
        assert lanes(queue) == {"bypass": 0, "following": 0, "normal": 0, "ahead": 3, "bulk": 0}
        tasks = await submit(queue, 100, 101, 102, 103, 104, 105)
        for _ in range(6):
            await step()
        assert slow.calls[3:] == [[100], [101], [102], [103], [104], [105]]
        slow.gate.set()
        slow.before = lambda _rows: None
        await asyncio.gather(*tasks)


async def test_a_piece_goes_first_again_before_its_listener_has_heard_all(start, submit, slow, step, clock):
    queue = await start(engines=[slow])
    async with stream(queue) as made:
        await until(lambda: slow.calls == [[0]])
        await step()
        await step()
        clock.pass_time(2 * PIECE)  # the third piece runs, and takes long: the listener has nothing more to hear
        await submit(queue, 100, 101)
        await step()
        assert (len(made), slow.calls[-1]) == (3, [3])
        slow.before = lambda _rows: None


async def test_without_other_requests_a_stream_is_made_as_fast_as_it_can_be(start, slow, clock):
    queue = await start(engines=[slow])
    async with stream(queue) as made:
        await clock.keep_going(until(lambda: len(made) == 8))
    assert made[-1] - made[0] < 8 * PIECE * 0.35


async def test_a_crowd_of_short_requests_does_not_make_a_listener_wait(start, slow, clock):
    """Whenever the device comes free, a short request is there."""
    queue = await start(engines=[slow], max_queue_size=10_000)
    loop, sounds = asyncio.get_running_loop(), slow.before
    tasks = list[asyncio.Task]()

    def come() -> None:
        tasks.append(loop.create_task(queue.submit(make_row(1000 + len(tasks)), voice="b")))

    def before(rows) -> None:
        loop.call_soon_threadsafe(come)
        sounds(rows)

    come()
    come()
    slow.before = before
    async with stream(queue) as made:
        await clock.keep_going(until(lambda: len(made) == 8))
        slow.before = sounds
    short = sum(call[0] >= 1000 for call in slow.calls)
    heard = [made[0] + number * PIECE for number in range(8)]
    assert all(ready <= needed for ready, needed in zip(made, heard, strict=True))
    assert short > 30
    await clock.keep_going(asyncio.gather(*tasks))


async def test_admission_counts_only_the_pieces_that_go_before(start, slow, step):
    queue = await start(engines=[slow], queue_timeout=6.0)
    async with stream(queue) as made:
        await until(lambda: slow.calls == [[0]])
        await step()
        await step()
        assert (len(made), lanes(queue)["ahead"]) == (2, 3)  # 9 s of computing, not counting the piece that runs
        assert queue.predicted_wait() < 4
        async with queue.admission():
            pass
        slow.before = lambda _rows: None


async def test_admission_counts_the_pieces_that_are_needed_first(start, slow, step, clock):
    queue = await start(engines=[slow], queue_timeout=6.0)
    async with stream(queue):
        await until(lambda: slow.calls == [[0]])
        await step()
        await step()
        clock.pass_time(5 * PIECE)
        with pytest.raises(TooBusy):
            async with queue.admission():
                pass
        slow.before = lambda _rows: None


async def test_a_clip_and_the_first_piece_of_a_stream_never_wait_ahead(start, engine):
    queue = await start()
    queue.hold()
    clip = queue.submit_all([make_row(n, TOKENS) for n in range(3)], voice="a", ticket=queue.ticket(bypass=3, urgent=3))
    task = asyncio.create_task(anext(clip))
    await settle()
    assert lanes(queue)["bypass"] == 3
    async with stream(queue):
        await settle()
        assert (lanes(queue)["bypass"], lanes(queue)["ahead"]) == (4, 3)
    queue.release()
    await task
    await clip.aclose()
    assert Priority.AHEAD < Priority.BULK
