"""The results of a batch may be views of memory that they share: one that is held must not keep that alive."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import aclosing
from dataclasses import replace

import numpy as np
import pytest

from kokoro_server.engine.protocol import Pcm16, Result
from tests.batching.doubles import make_row, name_of, until


@pytest.fixture
def blocks(engine):
    """Lets the engine's results share a block for each batch. Gives a weak reference to each block."""
    made: list[weakref.ref[np.ndarray]] = []

    def share(results: list[Result]) -> list[Result]:
        block = np.concatenate([result.audio for result in results])
        block16 = block.astype(np.int16)
        made.extend((weakref.ref(block), weakref.ref(block16)))
        ends = np.cumsum([len(result.audio) for result in results])
        places = [slice(end - len(result.audio), end) for result, end in zip(results, ends, strict=True)]
        return [
            replace(result, audio=block[place], pcm16=Pcm16(block16[place], 1.0))
            for result, place in zip(results, places, strict=True)
        ]

    engine.after = share
    return made


def alive(blocks) -> int:
    gc.collect()
    return sum(block() is not None for block in blocks)


async def test_the_unread_pieces_of_a_slow_reader_keep_no_batch_alive(start, blocks, engine, clock):
    queue = await start()
    rows = [make_row(name) for name in range(20)]
    async with aclosing(queue.submit_all(rows, voice="a", ticket=queue.ticket(bypass=2, ahead=4))) as outcomes:
        first = await clock.keep_going(anext(outcomes))
        assert name_of(first.result) == 0
        del first
        await clock.keep_going(until(lambda: sum(map(len, engine.calls)) >= 5))
        await clock.keep_going(until(lambda: not queue.snapshot()["queue_status"]["running_rows"]))
        assert sum(map(len, engine.calls)) == 5  # one was taken, four are there unread
        assert alive(blocks) == 0
        unread = [await clock.keep_going(anext(outcomes)) for _ in range(4)]
        assert [name_of(outcome.result) for outcome in unread] == [1, 2, 3, 4]
        expected = [np.full(len(outcome.result.audio), n, np.float32) for n, outcome in enumerate(unread, 2)]
        for outcome, audio in zip(unread, expected, strict=True):
            assert np.array_equal(outcome.result.audio, audio)
            assert np.array_equal(outcome.result.pcm16.samples, audio)


async def test_a_text_of_one_piece_is_not_copied(start, blocks, clock):
    queue = await start()
    queue.hold()
    alone = [asyncio.create_task(queue.submit_only(make_row(name), "a", queue.ticket())) for name in range(3)]
    await asyncio.sleep(0)
    queue.release()
    outcomes = await clock.keep_going(asyncio.gather(*alone))
    [block, _] = blocks
    assert all(outcome.result.audio.base is block() for outcome in outcomes)
    assert all(outcome.result.pcm16 is not None for outcome in outcomes)
