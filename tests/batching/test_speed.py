"""The real-time factor: measured once at the start, which decides for good how streams are cut. What rows show since
then is in the device's state."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kokoro_server.batching.cost import MEASURED_ROWS, RECENT_ROWS, ForwardPass, RealTimeFactor
from kokoro_server.engine.protocol import SAMPLE_RATE, EngineLimits
from tests.batching.doubles import EchoEngine, make_result, until


class TimedEngine(EchoEngine):
    """Takes `true_factor` of the test's clock for a second of audio, whatever was `measured`."""

    def __init__(
        self, clock, measured: float, true_factor: float, parallel_calls: int = 1, present: float | None = None
    ) -> None:
        super().__init__()
        self.limits = EngineLimits(510, 1, 100_000, parallel_calls=parallel_calls)
        self.real_time_factor, self.present_factor = measured, present or measured
        self.true_factor = true_factor
        self.before = lambda rows: clock.pass_time(
            self.true_factor * sum(len(make_result(row).audio) for row in rows) / SAMPLE_RATE
        )

    def measure(self) -> None: ...


async def speak(queue, submit, *names: int) -> None:
    for name in names:
        [task] = await submit(queue, name)
        await task


def learned(queue) -> float:
    """The factor that the rows of late show."""
    return queue.snapshot()["devices"][0]["real_time_factor"]


@pytest.mark.parametrize(("measured", "true_factor"), [(2.4, 0.39), (0.39, 2.4)])
async def test_streams_are_cut_by_the_factor_of_the_start_whatever_rows_show(
    start, submit, clock, measured, true_factor
):
    queue = await start(engines=[TimedEngine(clock, measured, true_factor)])
    assert queue.real_time_factor() == measured
    await speak(queue, submit, *range(6))
    assert queue.real_time_factor() == measured
    assert learned(queue) == pytest.approx(true_factor, abs=0.001)


async def test_it_follows_what_else_the_machine_does_and_a_short_disturbance_does_not_count(start, submit, clock):
    engine = TimedEngine(clock, 0.4, 0.39)
    queue = await start(engines=[engine])
    await speak(queue, submit, *range(RECENT_ROWS))
    engine.true_factor = 3.0
    await speak(queue, submit, *range(RECENT_ROWS // 2))
    assert learned(queue) == pytest.approx(0.39)
    await speak(queue, submit, *range(RECENT_ROWS))
    assert learned(queue) == pytest.approx(3.0)
    engine.true_factor = 0.39
    await speak(queue, submit, *range(RECENT_ROWS))
    assert learned(queue) == pytest.approx(0.39)


async def test_rows_beside_others_of_ours_do_not_make_it_slower(start, submit, clock):
    engine = TimedEngine(clock, 0.4, 2.0, parallel_calls=2)
    together = threading.Barrier(2)
    slow = engine.before

    def before(rows):
        together.wait(5)
        slow(rows)

    engine.before = before
    queue = await start(engines=[engine])
    for _ in range(RECENT_ROWS):
        await asyncio.gather(*await submit(queue, 0, 1))
    assert learned(queue) == 0.4
    engine.before = slow
    await speak(queue, submit, *range(RECENT_ROWS))
    assert learned(queue) == pytest.approx(2.0)


async def test_rows_beside_others_show_a_machine_that_is_faster_than_was_measured(start, submit, clock):
    engine = TimedEngine(clock, 2.4, 0.1, parallel_calls=2)
    queue = await start(engines=[engine])
    for _ in range(RECENT_ROWS):
        engine.gate.clear()
        tasks = await submit(queue, 0, 1)
        await until(lambda: queue.snapshot()["queue_status"]["running_rows"] == 2)
        engine.gate.set()
        await asyncio.gather(*tasks)
    assert learned(queue) < 0.5


async def test_an_engine_that_does_not_measure_itself_has_no_factor(start, submit):
    queue = await start()
    await submit.held(queue, 0)
    assert queue.real_time_factor() is None
    assert "real_time_factor" not in queue.snapshot()["devices"][0]


def test_a_batch_of_several_rows_or_one_without_audio_does_not_count():
    speed = RealTimeFactor(0.4)
    for _ in range(RECENT_ROWS):
        speed.learn(ForwardPass(2, 400, 400, 400.0, seconds=50.0), alone=True)
        speed.learn(ForwardPass(1, 0, 0, 0.0, seconds=50.0), alone=True)
    assert speed.value == 0.4
    for _ in range(MEASURED_ROWS + 1):
        speed.learn(ForwardPass(1, 400, 400, 400.0, seconds=50.0), alone=True)
    assert speed.value == 5.0
