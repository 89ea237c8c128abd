"""The arguments of the application, and when replicas are added. Both without Ray."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from kokoro_server.cluster.autoscaling import ScaleByQueuedAudio, wanted
from kokoro_server.cluster.options import Autoscaling, ClusterOptions


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"replica": 2}, ("replica",)),
        ({"replicas": 0}, ("replicas",)),
        ({"cpus": 0}, ("cpus",)),
        ({"port": 70_000}, ("port",)),
        ({"g2p": {"replicas": 0}}, ("g2p", "replicas")),
        ({"autoscaling": {}}, ("autoscaling", "max_replicas")),
        ({"settings": {"API_KEYS": ["a"]}}, ("settings", "API_KEYS")),
    ],
)
def test_mistakes_are_named(arguments: dict[str, Any], place: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        ClusterOptions.model_validate(arguments)
    assert caught.value.errors()[0]["loc"][: len(place)] == place


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_replicas": 3, "max_replicas": 2}, "max_replicas is less than min_replicas"),
        ({"max_replicas": 2, "scale_in_s": 150, "scale_out_s": 150}, "scale_in_s must be less than scale_out_s"),
    ],
)
def test_autoscaling_that_contradicts_itself_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Autoscaling.model_validate(arguments)


def test_settings_become_variables() -> None:
    options = ClusterOptions(settings={"OPEN_METRICS": True, "BATCH_SIZE": 8, "QUEUE_TIMEOUT": 1.5, "API_KEYS": "a=b"})
    assert options.environ() == {"OPEN_METRICS": "true", "BATCH_SIZE": "8", "QUEUE_TIMEOUT": "1.5", "API_KEYS": "a=b"}


@pytest.mark.parametrize(
    ("arguments", "fronts"), [({"cpus": 1}, 1), ({"cpus": 16}, 4), ({"cpus": 16, "fronts": 2}, 2), ({"cpus": 0.5}, 1)]
)
def test_a_front_for_four_cores(arguments: dict[str, float], fronts: int) -> None:
    assert ClusterOptions.model_validate(arguments).worker_count == fronts


@pytest.mark.parametrize(
    ("replicas", "queued_s", "expected"),
    [
        (1, 100, 1),  # in between nothing changes
        (1, 151, 2),
        (2, 450, 6),  # as many as leave no more than 150 s at each
        (3, 150, 3),
        (3, 19, 2),  # in by one alone
        (3, 0, 2),
        (1, 0, 1),
        (0, 0, 0),
    ],
)
def test_replicas_for_what_waits(replicas: int, queued_s: float, expected: int) -> None:
    assert wanted(replicas, queued_s, scale_out_s=150, scale_in_s=20) == expected


def context(queued: dict[str, float] | None) -> Any:
    """Of two replicas, of which Ray wants three."""
    metrics = None if queued is None else {"queued_s": queued}
    return cast(Any, SimpleNamespace(current_num_replicas=2, target_num_replicas=3, aggregated_metrics=metrics))


@pytest.mark.parametrize(
    ("queued", "expected"),
    [({"a": 600.0, "b": 0.0}, 4), ({"a": 5.0, "b": 5.0}, 1), ({"a": 50.0}, 2), ({}, 3), (None, 3)],
)
def test_the_policy_goes_by_the_mean_of_what_replicas_tell(queued: dict[str, float] | None, expected: int) -> None:
    assert ScaleByQueuedAudio(scale_out_s=150, scale_in_s=20)(context(queued)) == (expected, {})
