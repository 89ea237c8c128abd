"""Limits that callers share."""

from __future__ import annotations

from kokoro_server.callers.shares import SharedLimit


def fill(limit: SharedLimit, caller: str, **others: int) -> int:
    """Takes as much as the caller gets."""
    while not limit.is_full_for(caller, **others):
        limit.take(caller)
    return limit.taken_by(caller)


def test_one_caller_may_take_everything_and_others_still_get_their_shares() -> None:
    limit = SharedLimit(12)
    assert [fill(limit, name) for name in ("ann", "bob", "cyd", "ann")] == [12, 6, 4, 12]
    assert limit.total == 22


def test_what_is_given_back_is_free_again() -> None:
    limit = SharedLimit(10)
    limit.take("ann", 7)
    limit.take("ann", 5)
    assert limit.is_full_for("ann")
    limit.give_back("ann", 7)
    assert not limit.is_full_for("ann")
    limit.give_back("ann", 5)
    assert (limit.total, limit.taken_by("ann")) == (0, 0)
    assert fill(limit, "bob") == 10


def test_processes_divide_a_share() -> None:
    limit = SharedLimit(16)
    assert fill(limit, "ann", elsewhere=12, processes=4) == 4
    assert fill(limit, "bob", elsewhere=12, processes=4) == 2
