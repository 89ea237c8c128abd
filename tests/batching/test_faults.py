"""Whatever breaks, every future resolves, and only those at fault fail."""

from __future__ import annotations

import asyncio
import gc
import weakref

import numpy as np
import pytest

from kokoro_server.batching.faults import Fault, classify
from kokoro_server.engine.protocol import Result
from kokoro_server.errors import BadAudio, EngineError, EngineUnavailable, Expired, InvalidInput
from tests.batching.doubles import OutOfMemoryError, name_of, settle, until


def choke_on(*names: int, error: type[Exception] = ValueError):
    def before(rows):
        bad = [row.seed for row in rows if row.seed in names]
        if bad:
            raise error(f"bad rows {bad}")

    return before


async def test_a_cancelled_entry_never_reaches_the_device(start, submit, engine):
    queue = await start()
    queue.hold()
    tasks = await submit(queue, 0, 1, 2)
    tasks[1].cancel()
    queue.release()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert tasks[1].cancelled()
    assert engine.calls == [[0, 2]]
    assert queue.snapshot()["performance"]["cancelled"] == 1


async def test_a_running_batch_goes_on_for_the_others(start, submit, engine):
    queue = await start()
    engine.gate.clear()
    tasks = await submit(queue, 0, 1, 2, 3)
    await until(engine.entered.is_set)
    tasks[0].cancel()
    await settle()
    assert tasks[0].cancelled()
    engine.gate.set()
    assert [name_of(outcome.result) for outcome in await asyncio.gather(*tasks[1:])] == [1, 2, 3]


async def test_a_deadline_is_kept_while_the_device_is_busy(start, submit, engine, clock):
    queue = await start()
    engine.gate.clear()
    [running] = await submit(queue, 0)
    await clock.advance(0.01)
    await until(engine.entered.is_set)
    [late, patient] = [*await submit(queue, 1, deadline=queue.now() + 2), *await submit(queue, 2)]
    await clock.advance(1.9)
    assert not late.done()
    await clock.advance(0.2)
    with pytest.raises(Expired):
        await late
    assert not patient.done()
    engine.gate.set()
    await asyncio.gather(running, patient)
    assert engine.calls == [[0], [2]]
    assert queue.snapshot()["performance"]["expired"] == 1


async def test_a_deadline_bounds_the_wait_and_not_the_run(start, submit, engine, clock):
    queue = await start()
    engine.gate.clear()
    [task] = await submit(queue, 0, deadline=queue.now() + 1)
    await clock.advance(0.01)
    await until(engine.entered.is_set)
    await clock.advance(10)
    engine.gate.set()
    assert name_of((await task).result) == 0


async def test_a_deadline_that_has_passed_fails_at_once(start, submit, engine):
    queue = await start()
    [task] = await submit(queue, 0, deadline=queue.now())
    with pytest.raises(Expired):
        await task
    assert engine.calls == []


async def test_entries_are_kept_until_their_own_deadline_whatever_the_queue_timeout(start, submit, clock):
    queue = await start(queue_timeout=3)
    queue.hold()
    [task] = await submit(queue, 0, deadline=queue.now() + 1000)
    await clock.advance(999)
    assert not task.done()
    await clock.advance(1)
    assert isinstance(task.exception(), Expired)


async def test_timers_do_not_outlive_their_entries(start, submit, clock):
    queue = await start()
    await submit.held(queue, *range(20))
    await settle()
    assert clock.armed == 0


async def test_a_failed_batch_is_retried_down_to_the_bad_row(start, submit, engine):
    queue = await start()
    engine.before = choke_on(2)
    outcomes = await submit.held(queue, 0, 1, 2, 3)
    assert [name_of(outcome.result) for outcome in outcomes if not isinstance(outcome, Exception)] == [0, 1, 3]
    assert isinstance(outcomes[2], EngineError)
    assert "ValueError" in str(outcomes[2])
    assert engine.calls == [[0, 1, 2, 3], [0, 1], [2, 3], [2], [3]]
    performance = queue.snapshot()["performance"]
    assert (performance["retried_batches"], performance["isolated_rows"], performance["failed"]) == (2, 1, 1)
    assert outcomes[3].batch_size == 1


async def test_the_engines_own_answer_to_a_row_is_passed_on(start, submit, engine):
    queue = await start()
    engine.before = choke_on(0, error=InvalidInput)
    [error] = await submit.held(queue, 0)
    assert isinstance(error, InvalidInput)


async def test_those_who_left_are_not_retried(start, submit, engine):
    queue = await start()
    engine.gate.clear()
    engine.before = choke_on(3)
    tasks = await submit(queue, 0, 1, 2, 3)
    await until(engine.entered.is_set)
    tasks[0].cancel()
    tasks[1].cancel()
    await settle()
    engine.gate.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert engine.calls == [[0, 1, 2, 3], [2, 3], [2], [3]]


async def test_out_of_memory_halves_frees_and_learns(start, submit, engine):
    queue = await start()
    freed = []
    engine.free_memory = lambda: freed.append(True)

    def before(rows):
        if len(rows) > 2:
            raise OutOfMemoryError("CUDA out of memory")

    engine.before = before
    outcomes = await submit.held(queue, *range(8))
    assert [name_of(outcome.result) for outcome in outcomes] == list(range(8))
    assert engine.calls == [[0, 1, 2, 3], [0, 1], [2, 3], [4, 5], [6, 7]]
    assert freed == [True]
    snapshot = queue.snapshot()
    assert snapshot["config"]["learned_max_padded_frames"] < snapshot["config"]["max_padded_frames"]
    assert snapshot["status"] == "degraded"


async def test_the_learned_cap_recovers(start, submit, engine):
    queue = await start(max_padded_frames=180)
    engine.before = lambda rows: choke_on(*range(4), error=OutOfMemoryError)(rows) if len(rows) > 2 else None
    await submit.held(queue, 0, 1, 2, 3)
    low = queue.snapshot()["config"]["learned_max_padded_frames"]
    for _ in range(200):
        await submit.held(queue, 0)
    snapshot = queue.snapshot()
    assert (low, snapshot["config"]["learned_max_padded_frames"], snapshot["status"]) == (90, 180, "healthy")


async def test_a_row_that_never_fits_fails_alone(start, submit, engine):
    queue = await start()
    engine.before = choke_on(1, error=OutOfMemoryError)
    outcomes = await submit.held(queue, 0, 1)
    assert isinstance(outcomes[1], EngineUnavailable)
    assert name_of(outcomes[0].result) == 0
    assert engine.calls == [[0, 1], [0], [1], [1]]


async def test_a_row_that_fits_once_memory_was_freed_is_spoken(start, submit, engine):
    queue = await start()
    engine.before = choke_on(0, error=OutOfMemoryError)
    engine.free_memory = lambda: setattr(engine, "before", lambda _rows: None)
    [outcome] = await submit.held(queue, 0)
    assert name_of(outcome.result) == 0


def spoil(*names: int, **changes):
    def after(results):
        for index, result in enumerate(results):
            if name_of(result) in names:
                audio = changes["audio"](result.audio)
                results[index] = Result(audio=audio, durations=result.durations)
        return results

    return after


@pytest.mark.parametrize(
    "audio",
    [
        lambda audio: np.where(np.arange(len(audio)) == 7, np.nan, audio).astype(np.float32),
        lambda audio: np.where(np.arange(len(audio)) == 7, np.inf, audio).astype(np.float32),
        np.zeros_like,
        lambda audio: audio[:-1],
    ],
    ids=["nan", "inf", "silence", "short"],
)
async def test_bad_audio_is_an_error_of_its_row_only(start, submit, engine, audio):
    queue = await start()
    engine.after = spoil(1, audio=audio)
    outcomes = await submit.held(queue, 0, 1, 2)
    assert isinstance(outcomes[1], BadAudio)
    assert [name_of(outcomes[index].result) for index in (0, 2)] == [0, 2]
    assert engine.calls == [[0, 1, 2], [1]]


async def test_rows_whose_audio_is_bad_are_made_again(start, submit, engine):
    queue = await start()
    engine.after = lambda results: results if len(results) == 1 else spoil(0, 2, audio=np.zeros_like)(results)
    outcomes = await submit.held(queue, 0, 1, 2)
    assert [name_of(outcome.result) for outcome in outcomes] == [0, 1, 2]
    assert engine.calls == [[0, 1, 2], [0, 2], [0], [2]]


async def test_a_wrong_number_of_rows_gives_nobody_anothers_audio(start, submit, engine):
    queue = await start()
    engine.after = lambda results: results[1:] if len(results) > 1 else results
    outcomes = await submit.held(queue, 0, 1, 2)
    assert [name_of(outcome.result) for outcome in outcomes] == [0, 1, 2]


async def test_no_result_for_a_single_row_is_an_error(start, submit, engine):
    queue = await start()
    engine.after = lambda results: []
    [error] = await submit.held(queue, 0)
    assert isinstance(error, BadAudio)


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (OutOfMemoryError("x"), Fault.MEMORY),
        (MemoryError(), Fault.MEMORY),
        (RuntimeError("CUDA error: out of memory"), Fault.MEMORY),
        (RuntimeError("CUDA error: device-side assert triggered"), Fault.DEVICE),
        # What torch adds to every error of CUDA's is advice and not a diagnosis.
        (RuntimeError("CUDA error: invalid argument\nCompile with X to enable device-side assertions."), Fault.ROW),
        (RuntimeError("CUDA error: invalid configuration argument"), Fault.ROW),
        (ValueError("shape mismatch"), Fault.ROW),
    ],
)
def test_errors_are_told_apart_without_their_library(error, fault):
    assert classify(error) is fault


async def test_an_idle_queue_keeps_no_audio_alive(start, submit, engine):
    queue = await start()
    made: list[weakref.ref] = []

    def after(results):
        made.extend(weakref.ref(result.audio) for result in results)
        return results

    engine.after = after
    gc.disable()
    try:
        await submit.held(queue, 0, 1, 2)
        submit.tasks.clear()
        await until(lambda: all(ref() is None for ref in made))  # the thread may be a moment behind
    finally:
        gc.enable()
