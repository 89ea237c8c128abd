from __future__ import annotations

from kokoro_server.runtime.backoff import Backoff


def test_each_wait_is_longer_up_to_the_longest() -> None:
    backoff = Backoff(0.2, longest=1.0)
    assert [backoff.wait(failures) for failures in range(1, 6)] == [0.2, 0.4, 0.8, 1.0, 1.0]
    assert backoff.wait(0) == 0.2


def test_a_child_that_fails_for_days_is_still_restarted() -> None:
    assert Backoff(0.1, longest=10.0).wait(100_000) == 10.0
