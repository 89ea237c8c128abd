"""Rows of very different length are not computed together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kokoro_server.engine.cuda.graph_cache import Buckets
from kokoro_server.engine.cuda.length_split import split_by_length

BUCKETS = Buckets((4, 1), (8, 2), (16, 4))
MOST = BUCKETS.sizes[-1]


def cost(passes: list[list[int]], lengths: list[int], overhead: int) -> int:
    return sum(overhead + BUCKETS.round_up(len(part)) * max(lengths[i] for i in part) for part in passes)


def test_rows_alike_stay_together() -> None:
    assert split_by_length([50, 52, 48, 51], BUCKETS, 100) == [[2, 0, 3, 1]]


def test_one_long_row_goes_alone() -> None:
    assert split_by_length([30] * 7 + [500] + [30] * 7, BUCKETS, 100)[-1] == [7]


def test_not_where_another_pass_would_cost_more() -> None:
    assert len(split_by_length([30] * 7 + [500] + [30] * 7, BUCKETS, 10_000)) == 1


def test_more_rows_than_a_pass_takes_are_parted_by_length() -> None:
    first, second = split_by_length([9, 1] * MOST, BUCKETS, 10_000)
    assert set(first) == set(range(1, 2 * MOST, 2))
    assert set(second) == set(range(0, 2 * MOST, 2))


def test_no_rows_need_no_pass() -> None:
    assert split_by_length([], BUCKETS, 100) == []


@given(st.lists(st.integers(1, 510), min_size=1, max_size=40), st.integers(0, 2000))
def test_every_row_is_in_one_pass_and_none_costs_more_for_it(lengths: list[int], overhead: int) -> None:
    passes = split_by_length(lengths, BUCKETS, overhead)
    assert sorted(i for part in passes for i in part) == list(range(len(lengths)))
    assert all(0 < len(part) <= MOST for part in passes)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    undivided = [order[start : start + MOST] for start in range(0, len(order), MOST)]
    assert cost(passes, lengths, overhead) <= cost(undivided, lengths, overhead)
