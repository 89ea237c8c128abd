# mypy: ignore-errors
"""The Triton kernels of convolutions in 8 bits."""

from __future__ import annotations

import triton
import triton.language as tl

from kokoro_server.engine.cuda.kernels.compiling import kernel
from kokoro_server.engine.cuda.kernels.triton_kernels import finish_conv, row_count, snake

EDGE = tl.constexpr(64)  # steps of both edges of a tile together, at most
LEAST = tl.constexpr(1e-6)  # of a tile's greatest magnitude: silence has none


@triton.jit
def _styled(x, at, live, gain, offset, factor):
    z = tl.load(x + at, mask=live, other=0.0).to(tl.float32) * gain[None, :] + offset[None, :]
    return tl.where(live, snake(z) * factor[None, :], 0.0)


@triton.jit
def _bytes(z, step):
    """The nearest whole numbers of steps."""
    z = z * step
    return tl.where(z < 0, z - 0.5, z + 0.5).to(tl.int8)


@kernel("factor", "extra", "time", "tiles", "padding")
def snake_in_bytes(
    x, y, steps, affine, factors, lengths, factor, extra, time, tiles, padding,
    CHANNELS: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """The snake of a styled norm, in bytes, in the tiles that a convolution reads.

    `y` is (rows * tiles, BM + 2 * padding, CHANNELS): a tile has the `padding` steps before and after it too, because
    its bytes count steps of its own, which go to `steps` (rows, tiles).
    """
    tile, row = tl.program_id(0), tl.program_id(1)
    count, start = row_count(lengths, row, factor, extra), tile * BM
    if start >= count:
        return
    c = tl.arange(0, CHANNELS)
    gain, offset = tl.load(affine + row * 2 * CHANNELS + c), tl.load(affine + (row * 2 + 1) * CHANNELS + c)
    factors = tl.load(factors + c)
    i, e = tl.arange(0, BM), tl.arange(0, EDGE)
    source, t = row.to(tl.int64) * time, start + i
    middle = _styled(x, (source + t)[:, None] * CHANNELS + c[None, :], (t < count)[:, None], gain, offset, factors)
    t = start - padding + e + tl.where(e < padding, 0, BM)
    live = (t >= 0) & (t < count) & (e < 2 * padding)
    edges = _styled(x, (source + t)[:, None] * CHANNELS + c[None, :], live[:, None], gain, offset, factors)
    most = tl.maximum(tl.max(tl.max(tl.abs(middle), 0), 0), tl.max(tl.max(tl.abs(edges), 0), 0))
    most = tl.maximum(most, LEAST)
    tl.store(steps + row * tiles + tile, most / 127)
    target = y + (row.to(tl.int64) * tiles + tile) * (BM + 2 * padding) * CHANNELS
    tl.store(target + (padding + i)[:, None] * CHANNELS + c[None, :], _bytes(middle, 127 / most))
    target += (e + tl.where(e < padding, 0, BM))[:, None] * CHANNELS + c[None, :]
    tl.store(target, _bytes(edges, 127 / most), mask=(e < 2 * padding)[:, None])


@kernel("factor", "extra", "dilation", "tiles")
def conv1d_in_bytes(
    x, w, y, base, bias, scales, steps, parts, lengths, factor, extra, dilation, tiles, channels,
    CIN: tl.constexpr, BLOCKS: tl.constexpr, TAPS: tl.constexpr, RESIDUAL: tl.constexpr, STATS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """`triton_kernels.conv1d` of what `snake_in_bytes` wrote. `w` is a descriptor of (channels, TAPS * CIN) bytes, of
    which each counts steps of `scales` (channels,). The sums are exact.
    """
    block, tile, row = tl.program_id(0) % BLOCKS, tl.program_id(0) // BLOCKS, tl.program_id(1)
    count = row_count(lengths, row, factor, extra)
    if tile * BM >= count:
        return
    depth: tl.constexpr = CIN // BK
    total = tl.zeros((BM, BN), tl.int32)
    for i in range(TAPS * depth):
        tap = x.load([row * tiles + tile, (i // depth) * dilation, (i % depth) * BK]).reshape(BM, BK)
        total = tl.dot(tap, w.load([block * BN, i * BK]).T, total, out_dtype=tl.int32)
    scale = tl.load(scales + block * BN + tl.arange(0, BN)) * tl.load(steps + row * tiles + tile)
    sound = total.to(tl.float32) * scale[None, :]
    finish_conv(sound, y, base, bias, parts, 1.0, row, tile, block, count, tiles, channels, RESIDUAL, STATS, BM, BN)
