"""Where Ray's own proxy sends a request."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("ray")
from kokoro_server.cluster.router import SECONDS_A_REQUEST, QueuedAudioRouter

pytestmark = pytest.mark.cluster


def replica(name: str, **stats: Any) -> Any:
    return SimpleNamespace(replica_id=name, routing_stats=stats)


@pytest.fixture
def router() -> QueuedAudioRouter:
    """Without what Ray gives it to ask replicas with, as no choice needs that."""
    made = QueuedAudioRouter.__new__(QueuedAudioRouter)
    made.initialize_state()
    return made


async def choice(router: QueuedAudioRouter, *replicas: Any) -> list[list[str]]:
    return [[each.replica_id for each in rank] for rank in await router.choose_replicas(list(replicas))]


async def test_of_two_the_one_with_less_audio_waiting_is_first(router: QueuedAudioRouter) -> None:
    for _ in range(20):
        busy, free = (
            replica("busy", look=1, queued_s=90.0, ready=True),
            replica("free", look=1, queued_s=3.0, ready=True),
        )
        assert await choice(router, busy, free) == [["free"], ["busy"], []]


async def test_all_others_follow_the_two(router: QueuedAudioRouter) -> None:
    many = [replica(str(number), look=1, queued_s=float(number), ready=True) for number in range(5)]
    for _ in range(20):
        first, second, rest = await choice(router, *many)
        assert int(first[0]) < int(second[0])
        assert sorted([*first, *second, *rest]) == list("01234")


async def test_one_that_is_not_ready_gets_nothing_while_another_is(router: QueuedAudioRouter) -> None:
    absent, there = (
        replica("absent", look=1, queued_s=0.0, ready=False),
        replica("there", look=1, queued_s=99.0, ready=True),
    )
    assert await choice(router, absent, there) == [["there"], ["absent"]]
    assert await choice(router, absent) == [["absent"], []]


async def test_no_replicas_are_no_mistake(router: QueuedAudioRouter) -> None:
    assert await choice(router) == [[]]


async def test_a_replica_that_has_told_nothing_yet_is_asked(router: QueuedAudioRouter) -> None:
    assert (await choice(router, replica("new"), replica("busy", look=1, queued_s=50.0)))[0] == ["new"]


async def test_what_was_sent_since_a_replica_told_counts(router: QueuedAudioRouter) -> None:
    """Else a burst within one interval would all go to the same replica."""
    two = [replica("a", look=7, queued_s=0.0), replica("b", look=9, queued_s=0.0)]
    sent: Counter[str] = Counter()
    for _ in range(40):
        first = (await choice(router, *two))[0][0]
        router.on_request_routed(cast(Any, None), cast(Any, first), None)
        sent[first] += 1
    assert sent == {"a": 20, "b": 20}


async def test_what_a_replica_tells_replaces_what_was_counted(router: QueuedAudioRouter) -> None:
    a = replica("a", look=1, queued_s=0.0)
    b = replica("b", look=1, queued_s=2 * SECONDS_A_REQUEST)
    assert (await choice(router, a, b))[0] == ["a"]
    for _ in range(3):
        router.on_request_routed(cast(Any, None), cast(Any, "a"), None)
    assert (await choice(router, a, b))[0] == ["b"]
    assert (await choice(router, replica("a", look=2, queued_s=0.0), b))[0] == ["a"]
