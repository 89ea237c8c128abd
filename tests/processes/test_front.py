from __future__ import annotations

import pytest

from kokoro_server.processes.front import share


@pytest.mark.parametrize(("limit", "fronts", "shares"), [(3, 2, [2, 1]), (32, 4, [8] * 4), (32, 5, [7, 7, 6, 6, 6])])
def test_fronts_share_what_all_may_have(limit: int, fronts: int, shares: list[int]) -> None:
    assert [share(limit, number, fronts) for number in range(fronts)] == shares


def test_each_front_has_some() -> None:
    assert [share(1, number, 3) for number in range(3)] == [1, 1, 1]
