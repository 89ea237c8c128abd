"""The speed that an engine measures, and the best one that is known of the machine."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from kokoro_server.engine.protocol import SAMPLE_RATE, MeasuresSpeed
from kokoro_server.engine.speed import FILE, BestSpeed, TimedPass, present_factor, real_time_factor, timed
from tests import tiny_model


@pytest.mark.parametrize(
    ("seconds", "computing", "threads", "found"),
    [
        (0.31, 0.59, 2, 0.31),
        (2.4, 0.57, 2, 0.3),  # beside other work, as measured on two ARM cores
        (0.62, 0.6, 1, 0.6),
        (0.1, 0.57, 16, 0.1),
        (2.4, 0.57, 16, 0.3),  # not better known
    ],
)
def test_what_a_row_waits_for_other_work_does_not_count(
    seconds: float, computing: float, threads: int, found: float
) -> None:
    passes = [TimedPass(3 * seconds, 3 * computing, 2 * SAMPLE_RATE), TimedPass(seconds, computing, SAMPLE_RATE)]
    assert real_time_factor(passes, threads) == pytest.approx(found, abs=0.005)


def test_the_present_pace_is_what_passes_took_beside_other_work() -> None:
    assert present_factor([TimedPass(2.4, 0.5, SAMPLE_RATE), TimedPass(4.0, 0.6, SAMPLE_RATE)]) == pytest.approx(3.2)


def test_a_pass_that_waits_computes_nothing_meanwhile() -> None:
    waited = timed(lambda: (time.sleep(0.2), 7)[1])
    assert waited.samples == 7
    assert waited.seconds >= 0.2 > waited.computing


def test_torch_on_a_cpu_measures_its_speed() -> None:
    engine = tiny_model.torch_engine()
    assert engine.real_time_factor is None
    measuring: MeasuresSpeed = engine
    measuring.measure()
    assert engine.real_time_factor is not None
    assert engine.real_time_factor > 0
    assert engine.present_factor is not None
    assert engine.present_factor > 0


def test_the_best_speed_of_a_build_is_known_from_then_on(tmp_path: Path) -> None:
    int8, fp32 = (BestSpeed.of(tmp_path, build, 1) for build in ("int8", "fp32"))
    assert [int8.improved(measured) for measured in (1.11, 0.31, 1.11, 0.3, 0.32)] == [1.11, 0.31, 0.31, 0.3, 0.3]
    assert fp32.improved(0.6) == 0.6
    assert int8.improved(0.9) == 0.3


@pytest.mark.parametrize("content", ["", "[]", '{"a": {}}', '{"a": "quick"}'])
def test_a_damaged_file_is_reported_and_written_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    (tmp_path / FILE).write_text(content)
    with caplog.at_level(logging.WARNING):
        assert BestSpeed(tmp_path / FILE, "a").improved(0.4) == 0.4
        assert BestSpeed(tmp_path / FILE, "a").improved(0.5) == 0.4
    assert len(caplog.records) == 1


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    assert BestSpeed(tmp_path / "absent" / FILE, "a").improved(0.4) == 0.4
