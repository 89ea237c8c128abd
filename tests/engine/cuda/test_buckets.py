from __future__ import annotations

from kokoro_server.engine.cuda.graph_cache import Ladder


def test_sizes_go_up_to_the_next_rung() -> None:
    ladder = Ladder((4, 1), (16, 4), (64, 16))
    assert ladder.rungs == [1, 2, 3, 4, 8, 12, 16, 32, 48, 64]
    assert [ladder.up(size) for size in (1, 4, 5, 13, 33)] == [1, 4, 8, 16, 48]


def test_beyond_the_ladder_a_size_is_itself() -> None:
    ladder = Ladder((4, 2))
    assert ladder.up(7) == 7
    assert 4 in ladder
    assert 7 not in ladder


def test_a_size_may_go_further_up() -> None:
    ladder = Ladder((64, 16), (128, 32))
    assert ladder.near(20, 20) == [32, 48]
    assert ladder.near(20, 100) == [32, 48, 64, 96]
    assert ladder.near(128, 500) == [128]
    assert ladder.near(130, 500) == [130]
