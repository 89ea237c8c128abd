"""The speed that an engine measures, and the best one that is known of the machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kokoro_server.engine.protocol import MeasuresSpeed
from kokoro_server.engine.speed import FILE, MAX_PASSES, BestSpeed, quickest
from tests import tiny_model


def passes(*seconds: float) -> Iterator[tuple[float, int]]:
    return ((each, 24_000) for each in seconds)


@pytest.mark.parametrize(
    ("seconds", "found", "taken"),
    [
        ((0.31, 0.32), 0.31, 2),
        ((1.11, 0.9, 0.31, 0.6, 0.32), 0.31, 5),
        ((1.11, 1.12), 1.11, 2),  # busy all the time
        ((2.0, 1.0, 0.5, 0.25, 0.12, 0.06), 0.06, MAX_PASSES),
    ],
)
def test_passes_beside_other_work_do_not_count(seconds: tuple[float, ...], found: float, taken: int) -> None:
    left = passes(*seconds)
    assert quickest(lambda: next(left)) == (found, 24_000)
    assert len(list(left)) == len(seconds) - taken


def test_torch_on_a_cpu_measures_its_speed() -> None:
    engine = tiny_model.torch_engine()
    assert engine.real_time_factor is None
    measuring: MeasuresSpeed = engine
    measuring.measure()
    assert engine.real_time_factor is not None
    assert engine.real_time_factor > 0


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
