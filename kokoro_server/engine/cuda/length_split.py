"""Which rows to compute together: a short one beside a long one is computed as if it were long."""

from __future__ import annotations

from collections.abc import Sequence

from kokoro_server.engine.cuda.graph_cache import Ladder


def divided(lengths: Sequence[int], ladder: Ladder, fixed: int) -> list[list[int]]:
    """Rows by number, in passes of about the same length, none beyond the ladder.

    A pass computes with its longest row's length for as many rows as the ladder says; besides, it takes as long as
    `fixed` more of such would.
    """
    most = ladder.rungs[-1]
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    passes: list[list[int]] = []
    for start in range(0, len(order), most):
        passes += _cut(order[start : start + most], lengths, ladder, fixed)
    return passes


def _cut(order: list[int], lengths: Sequence[int], ladder: Ladder, fixed: int) -> list[list[int]]:
    """The longest apart, as many as are worth it, and again."""
    longest, whole = lengths[order[-1]], ladder.up(len(order)) * lengths[order[-1]]
    if whole - sum(lengths[i] for i in order) <= fixed:
        return [order]

    def cost(apart: int) -> int:
        rest = len(order) - apart
        return fixed + ladder.up(rest) * lengths[order[rest - 1]] + apart * longest

    best = min((rung for rung in ladder.rungs if rung < len(order)), key=cost, default=0)
    if not best or cost(best) >= whole:
        return [order]
    return [*_cut(order[:-best], lengths, ladder, fixed), order[-best:]]
