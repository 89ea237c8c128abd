"""Splits a batch into passes by length, because a short row costs as much as the longest of its pass."""

from __future__ import annotations

from collections.abc import Sequence

from kokoro_server.engine.cuda.graph_cache import Buckets


def split_by_length(lengths: Sequence[int], buckets: Buckets, overhead: int) -> list[list[int]]:
    """The rows' indices, in passes of about equal lengths, none larger than the largest bucket.

    A pass costs its longest row's length times its row count rounded up to a bucket, plus `overhead`.
    """
    most = buckets.sizes[-1]
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    passes: list[list[int]] = []
    for start in range(0, len(order), most):
        passes += _split(order[start : start + most], lengths, buckets, overhead)
    return passes


def _split(order: list[int], lengths: Sequence[int], buckets: Buckets, overhead: int) -> list[list[int]]:
    """Give the longest rows a separate pass where that is cheaper, and split the rest in the same way."""
    longest, whole = lengths[order[-1]], buckets.round_up(len(order)) * lengths[order[-1]]
    if whole - sum(lengths[i] for i in order) <= overhead:
        return [order]

    def cost(apart: int) -> int:
        rest = len(order) - apart
        return overhead + buckets.round_up(rest) * lengths[order[rest - 1]] + apart * longest

    best = min((size for size in buckets.sizes if size < len(order)), key=cost, default=0)
    if not best or cost(best) >= whole:
        return [order]
    return [*_split(order[:-best], lengths, buckets, overhead), order[-best:]]
