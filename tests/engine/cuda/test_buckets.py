from __future__ import annotations

from kokoro_server.engine.cuda.graph_cache import Buckets


def test_sizes_go_up_to_the_next_bucket() -> None:
    buckets = Buckets((4, 1), (16, 4), (64, 16))
    assert buckets.sizes == [1, 2, 3, 4, 8, 12, 16, 32, 48, 64]
    assert [buckets.round_up(size) for size in (1, 4, 5, 13, 33)] == [1, 4, 8, 16, 48]


def test_beyond_the_largest_bucket_a_size_is_itself() -> None:
    buckets = Buckets((4, 2))
    assert buckets.round_up(7) == 7
    assert 4 in buckets
    assert 7 not in buckets


def test_a_size_may_go_further_up() -> None:
    buckets = Buckets((64, 16), (128, 32))
    assert buckets.candidates(20, 20) == [32, 48]
    assert buckets.candidates(20, 100) == [32, 48, 64, 96]
    assert buckets.candidates(128, 500) == [128]
    assert buckets.candidates(130, 500) == [130]
