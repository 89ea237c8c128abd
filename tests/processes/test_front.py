from __future__ import annotations

import pytest

from kokoro_server.link.board import Board
from kokoro_server.link.siblings import FIRST_FRONT, BoardSiblings
from kokoro_server.processes.front import ShownConnections, share
from kokoro_server.siblings import Cell


@pytest.mark.parametrize(("limit", "fronts", "shares"), [(3, 2, [2, 1]), (32, 4, [8] * 4), (32, 5, [7, 7, 6, 6, 6])])
def test_fronts_share_what_all_may_have(limit: int, fronts: int, shares: list[int]) -> None:
    assert [share(limit, number, fronts) for number in range(fronts)] == shares


def test_each_front_has_some() -> None:
    assert [share(1, number, 3) for number in range(3)] == [1, 1, 1]


def test_other_fronts_see_at_once_how_many_connections_one_has() -> None:
    board = Board.create(FIRST_FRONT + 2)
    one, other = (BoardSiblings(board, FIRST_FRONT + number) for number in range(2))
    connections = ShownConnections(one)
    seen = []
    for change, what in ((connections.add, "a"), (connections.add, "b"), (connections.discard, "a"),
                         (connections.discard, "a"), (connections.remove, "b")):  # fmt: skip
        change(what)
        seen.append(other.total(Cell.CONNECTIONS))
    assert seen == [1, 2, 1, 1, 0]
    board.close()
