"""Which entries go together, and in which order. Names are arrival order; the engine takes four rows."""

from __future__ import annotations

import asyncio

import pytest

from kokoro_server.batching import Priority
from kokoro_server.batching.cost import ForwardPass
from kokoro_server.engine.protocol import EngineLimits
from tests.batching.doubles import learn_overhead, name_of, reasons, until


async def test_held_entries_go_in_order_of_arrival(start, submit, engine):
    queue = await start()
    queue.hold()
    tasks = await submit(queue, 0, 1, 2, 3, 4, 5)
    queue.release()
    assert await reasons(tasks) == ["full"] * 4 + ["device_free"] * 2
    assert engine.calls == [[0, 1, 2, 3], [4, 5]]


async def test_every_entry_gets_its_own_audio(start, submit):
    queue = await start()
    queue.hold()
    tasks = await submit(queue, *range(11))
    queue.release()
    assert [name_of(outcome.result) for outcome in await asyncio.gather(*tasks)] == list(range(11))


async def test_sixty_four_at_once_make_full_batches(start, submit, engine):
    queue = await start()
    await asyncio.gather(*await submit(queue, *range(64)))
    assert [len(call) for call in engine.calls] == [4] * 16


async def test_the_oldest_leads_and_the_nearest_in_length_join(start, submit, engine):
    queue = await start()
    queue.hold()
    for name, tokens in enumerate((50, 10, 51, 11, 49, 12, 52, 13)):
        await submit(queue, name, tokens=tokens)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert [sorted(call) for call in engine.calls] == [[0, 2, 4, 6], [1, 3, 5, 7]]


async def test_first_pieces_of_about_the_same_length_go_by_age(start, submit, engine):
    queue = await start()
    learn_overhead(queue, fixed=10_000)
    queue.hold()
    for name, tokens in enumerate((50, 10, 60, 40, 55, 50, 50)):
        await submit(queue, name, tokens=tokens, priority=Priority.BYPASS)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert sorted(engine.calls[0]) == [0, 2, 3, 4]


@pytest.mark.parametrize("priority", [Priority.BYPASS, Priority.NORMAL])
async def test_where_padding_costs_little_age_counts_more_than_length(start, submit, engine, priority):
    engine.limits = EngineLimits(510, 4, 100_000, padding_weight=0.25)
    queue = await start()
    learn_overhead(queue, fixed=10_000)
    queue.hold()
    for name, tokens in enumerate((50, 40, 300, 60, 45, 50, 50)):
        await submit(queue, name, tokens=tokens, priority=priority)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert sorted(engine.calls[0]) == [0, 1, 3, 4]


async def test_a_crowd_of_first_pieces_is_larger_where_padding_costs_little(start, submit, engine):
    sizes = []
    for padding in (1.0, 0.25):
        engine.calls.clear()
        engine.limits = EngineLimits(510, 16, 100_000, padding_weight=padding)
        queue = await start()
        learn_overhead(queue, fixed=45)
        queue.hold()
        for name in range(16):
            await submit(queue, name, tokens=50 if name == 0 else 20, priority=Priority.BYPASS)
        queue.release()
        await asyncio.gather(*submit.tasks)
        sizes.append(len(engine.calls[0]))
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize(("seconds", "full"), [(1.0, False), (60.0, True)])
async def test_bulk_fills_no_batch_while_streams_come_and_go(start, submit, engine, clock, seconds, full):
    engine.limits = EngineLimits(510, 16, 100_000)
    queue = await start()
    await asyncio.gather(*await submit(queue, 100, tokens=20, priority=Priority.BYPASS))
    learn_overhead(queue, fixed=60)
    await clock.advance(seconds)
    queue.hold()
    await submit(queue, *range(32), tokens=20, priority=Priority.BULK)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert (len(engine.calls[1]) == 16) == full


def test_what_a_batch_costs():
    assert EngineLimits(510, 16, 100_000).cost(rows=3, longest=50, frames=100) == 150
    assert (
        EngineLimits(510, 16, 100_000, row_buckets=(4,), padding_weight=0.25).cost(rows=3, longest=50, frames=100)
        == 50 + 75
    )


async def test_a_late_entry_is_not_in_the_window(start, submit, engine):
    queue = await start()
    queue.hold()
    await submit(queue, 0, tokens=50)
    await submit(queue, *range(1, 8), tokens=10)
    await submit(queue, 8, tokens=50)  # the ninth, of a window of eight
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert 8 not in engine.calls[0]


async def test_no_entry_is_overtaken_by_more_than_four_batches(start, submit, engine):
    engine.limits = EngineLimits(510, 8, 100_000)
    queue = await start()
    queue.hold()
    lengths = range(10, 410, 50)
    for name, tokens in enumerate(lengths):
        await submit(queue, name, tokens=tokens)
    for index, tokens in enumerate(lengths):  # each has seven later ones of its own length
        await submit(queue, *range(8 + 7 * index, 15 + 7 * index), tokens=tokens)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert engine.calls[:4] == [[first, *range(8 + 7 * first, 15 + 7 * first)] for first in range(4)]
    assert engine.calls[4][:4] == [4, 5, 6, 7]


async def test_rows_and_longest_stay_within_the_budget(start, submit, engine):
    queue = await start(max_padded_frames=100)
    queue.hold()
    tasks = await submit(queue, 0, 1, 2, 3)  # 45 frames each, as predicted
    queue.release()
    assert await reasons(tasks) == ["full"] * 2 + ["nearly_full"] * 2
    assert engine.calls == [[0, 1], [2, 3]]


async def test_a_long_row_does_not_make_short_ones_pay(start, submit, engine):
    queue = await start(max_padded_frames=300)
    queue.hold()
    await submit(queue, 0, 1, tokens=10)
    await submit(queue, 2, tokens=100)  # 270 frames: alone it fits
    await submit(queue, 3, tokens=10)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert engine.calls == [[0, 1, 3], [2]]


async def test_a_row_over_the_budget_goes_alone(start, submit, engine):
    queue = await start(max_padded_frames=50)
    queue.hold()
    await submit(queue, 0, tokens=400)
    await submit(queue, 1)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert engine.calls == [[0], [1]]


async def test_the_text_of_a_batch_is_capped(start, submit, engine):
    queue = await start(max_batch_text_length=25)
    queue.hold()
    await submit(queue, 0, 1, 2)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert engine.calls == [[0, 1], [2]]


async def test_voices_share_a_batch(start, submit, engine):
    queue = await start()
    queue.hold()
    for name, voice in enumerate(("a", "b", "a", "b")):
        await submit(queue, name, voice=voice)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert [sorted(call) for call in engine.calls] == [[0, 1, 2, 3]]


async def test_voices_share_none_when_grouped_strictly(start, submit, engine):
    queue = await start(grouping="voice")
    queue.hold()
    for name, voice in enumerate(("a", "b", "a", "b")):
        await submit(queue, name, voice=voice)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert engine.calls == [[0, 2], [1, 3]]


async def test_at_equal_length_the_leaders_voice_comes_first(start, submit, engine):
    queue = await start(max_batch_size=2)
    queue.hold()
    for name, voice in enumerate(("a", "b", "a")):
        await submit(queue, name, voice=voice)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert engine.calls == [[0, 2], [1]]


async def test_a_bypass_entry_passes_a_flood_of_bulk(start, submit, engine):
    queue = await start()
    engine.gate.clear()
    await submit(queue, *range(500), priority=Priority.BULK)
    await until(engine.entered.is_set)
    [first_chunk] = await submit(queue, 1000, priority=Priority.BYPASS)
    engine.gate.set()
    await first_chunk
    assert 1000 in engine.calls[1]


async def test_first_pieces_go_before_those_whose_listeners_have_something_to_hear(start, submit, engine):
    queue = await start()
    queue.hold()
    await submit(queue, *range(10, 18), priority=Priority.NEXT)
    await submit(queue, 0, 1, priority=Priority.BYPASS)
    queue.release()
    await asyncio.gather(*submit.tasks)
    firsts = [index for index, call in enumerate(engine.calls) if set(call) & {0, 1}]
    assert firsts == list(range(len(firsts)))
    assert next(len(call) for call in engine.calls[len(firsts) :]) == 4


async def test_next_pieces_progress_under_a_flood_of_first_ones(start, submit, engine):
    queue = await start()
    queue.hold()
    await submit(queue, 1000, priority=Priority.NEXT)
    await submit(queue, *range(40), priority=Priority.BYPASS)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert next(index for index, call in enumerate(engine.calls) if 1000 in call) <= 4


async def test_a_next_piece_that_has_waited_long_goes_before_newer_first_ones(start, submit, engine, clock):
    queue = await start()
    queue.hold()
    await submit(queue, 1000, priority=Priority.NEXT)
    await clock.advance(1.0)
    await submit(queue, 0, 1, priority=Priority.BYPASS)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert engine.calls[0][0] == 1000


async def test_bulk_fills_the_rows_that_normal_leaves(start, submit, engine):
    queue = await start()
    queue.hold()
    await submit(queue, 0, 1, 2, priority=Priority.BULK)
    await submit(queue, 3, 4, 5)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert engine.calls == [[3, 4, 5, 0], [1, 2]]


async def test_bulk_progresses_under_a_flood_of_normal(start, submit, engine):
    queue = await start()
    queue.hold()
    await submit(queue, 1000, 1001, priority=Priority.BULK)
    await submit(queue, *range(60))
    queue.release()
    await asyncio.gather(*submit.tasks)
    turns = [index for index, call in enumerate(engine.calls) if set(call) & {1000, 1001}]
    assert turns == [4, 9]
    assert [len(call) for call in engine.calls[:10]] == [4] * 10


@pytest.mark.parametrize(
    ("fixed", "per_frame", "expected"),
    [(0.010, 0.00001, [[50], [51, 52, 53]]), (0.0, 0.001, [[50], [51], [52], [53]])],
    ids=["fixed cost dominates", "every row costs"],
)
async def test_bypass_entries_share_a_batch_only_where_it_costs_them_little(
    start, submit, engine, clock, fixed, per_frame, expected
):
    queue = await start()
    engine.before = lambda rows: clock.pass_time(fixed + per_frame * 45 * len(rows))
    for size in (1, 2, 3, 4) * 3:
        queue.hold()
        await submit(queue, *range(size))
        queue.release()
        await asyncio.gather(*submit.tasks)
    engine.calls.clear()
    queue.hold()
    await submit(queue, 50, priority=Priority.BYPASS)
    queue.release()
    await until(lambda: engine.calls == [[50]])
    queue.hold()
    await submit(queue, 51, 52, 53, priority=Priority.BYPASS)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert engine.calls == expected


async def test_a_deep_queue_keeps_batches_full(start, submit, engine):
    queue = await start()
    queue.hold()
    for name in range(120):
        await submit(queue, name, tokens=10 + name * 37 % 90)
    queue.release()
    await asyncio.gather(*submit.tasks)
    assert [len(call) for call in engine.calls] == [4] * 30


async def test_a_batch_is_predicted_to_take_a_quarter_of_the_engine_timeout_at_most(start, submit, engine):
    """A slow machine would otherwise take so long for a full batch that it is given up."""
    queue = await start(engine_timeout=60)
    [device] = queue._devices
    for frames in (100, 200, 300):
        device.costs.learn(ForwardPass(1, frames, frames, float(frames), frames * 0.05))
    await submit.held(queue, *range(4), tokens=32)  # 100 frames each, five seconds
    assert len(engine.calls[0]) == 3


async def test_before_the_first_batch_the_engines_own_measure_counts(start, submit, engine):
    engine.real_time_factor = engine.present_factor = 2.0  # 20 frames a second
    engine.measure = lambda: None
    queue = await start(engine_timeout=60)
    await submit.held(queue, *range(4), tokens=32)
    assert len(engine.calls[0]) == 3


async def test_a_single_row_goes_however_long_it_takes_and_has_the_time_for_it(start, submit, engine, clock):
    queue = await start(engine_timeout=20)
    [device] = queue._devices
    for frames in (100, 200, 300):
        device.costs.learn(ForwardPass(1, frames, frames, float(frames), frames * 0.1))
    engine.gate.clear()
    [task] = await submit(queue, 0, tokens=32)  # ten seconds, by what was learned: it may take forty
    await until(engine.entered.is_set)
    await clock.advance(30)
    assert queue.alive
    engine.gate.set()
    assert name_of((await task).result) == 0
