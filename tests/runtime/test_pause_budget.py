"""How long some may keep others waiting."""

from __future__ import annotations

import pytest

from kokoro_server.runtime.pause_budget import PAUSED_AT_ONCE, PAUSED_SHARE, PAUSED_TOO_LONG, PauseBudget


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def budget(clock: Clock) -> PauseBudget:
    return PauseBudget(clock)


def take(budget: PauseBudget, clock: Clock, seconds: float) -> bool:
    with budget.taken() as allowed:
        clock.time += seconds
    return allowed


def paused_share(budget: PauseBudget, clock: Clock, seconds: float, apart: float, calls: int = 2000) -> float:
    started = clock.time
    paused = 0.0
    for _ in range(calls):
        paused += seconds * take(budget, clock, seconds)
        clock.time += apart
    return paused / (clock.time - started)


def test_who_seldom_asks_always_may(budget: PauseBudget, clock: Clock) -> None:
    assert paused_share(budget, clock, 0.006, 0.1) == pytest.approx(0.006 / 0.106)


def test_who_always_asks_has_its_share(budget: PauseBudget, clock: Clock) -> None:
    assert paused_share(budget, clock, 0.01, 0.0) == pytest.approx(PAUSED_SHARE, rel=0.2)


def test_what_was_not_used_is_kept_for_a_while(budget: PauseBudget, clock: Clock) -> None:
    clock.time += 1_000
    most = PAUSED_AT_ONCE / 0.05 / (1 - PAUSED_SHARE)  # calls, each of which earns a little
    allowed = [take(budget, clock, 0.05) for _ in range(10)]
    assert allowed.index(False) == pytest.approx(most, abs=1)


def test_one_slow_call_is_not_paid_for_by_many(budget: PauseBudget, clock: Clock) -> None:
    take(budget, clock, 10.0)
    clock.time += PAUSED_TOO_LONG / PAUSED_SHARE + 0.001
    assert take(budget, clock, 0.001)
