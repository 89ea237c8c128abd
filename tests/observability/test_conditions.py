from __future__ import annotations

import logging
import threading

import pytest

from kokoro_server.observability import conditions as degraded
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.observability.metrics import Metrics


def test_a_change_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    condition = Condition(Reason.LEXICON)
    condition.clear()
    for message in ("line 1 is wrong", "line 1 is wrong", "line 2 is wrong"):
        condition.set(message)
    condition.clear()
    condition.clear()
    assert [(record.levelname, record.message.split(" seconds")[0]) for record in caplog.records] == [
        ("WARNING", "degraded reason=lexicon line 1 is wrong"),
        ("WARNING", "degraded reason=lexicon line 2 is wrong"),
        ("INFO", "no longer degraded reason=lexicon"),
    ]


def test_it_lasts_since_it_set_in() -> None:
    first, second = Condition(Reason.G2P), Condition(Reason.WEIGHTS)
    first.set("a")
    assert first.current
    since = first.current.since
    second.set("b")
    first.set("c")
    assert [each.message for each in degraded.current((second, first))] == ["c", "b"]
    assert first.current.since == since


def test_the_metric_has_every_reason_and_shows_which_is_set() -> None:
    metrics, conditions = Metrics(), [Condition(Reason.GPU_GRAPHS) for _ in range(2)]
    metrics.watch_conditions(lambda: conditions)

    def shown(reason: Reason) -> float | None:
        return metrics.registry.get_sample_value("tts_degraded", {"reason": reason.value})

    assert {shown(reason) for reason in Reason} == {0.0}
    for condition in conditions:
        condition.set("x")
    assert shown(Reason.GPU_GRAPHS) == 1.0
    conditions[0].clear()
    assert shown(Reason.GPU_GRAPHS) == 1.0  # one of two engines is still worse
    conditions[1].clear()
    assert {shown(reason) for reason in Reason} == {0.0}


def test_threads_may_set_and_clear_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    condition = Condition(Reason.G2P)

    def flip() -> None:
        for _ in range(200):
            condition.set("x")
            condition.clear()

    threads = [threading.Thread(target=flip) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert condition.current is None
    levels = [record.levelname for record in caplog.records]
    assert levels.count("WARNING") == levels.count("INFO")  # each that set in has ended
