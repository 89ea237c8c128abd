# mypy: ignore-errors
"""The Triton kernels of convolutions in 8 bits."""

from __future__ import annotations

import triton
import triton.language as tl

from kokoro_server.engine.cuda.kernels.compiling import kernel
from kokoro_server.engine.cuda.kernels.triton_kernels import finish_conv, row_count, snake

LEAST = tl.constexpr(1e-6)  # of a tile's greatest magnitude: silence has none
NEAREST = tl.constexpr(12582912.0)  # 1.5 * 2^23: what is added to it is rounded to a whole number, in the last bits


@triton.jit
def _steps(x, row, first, last, time, CHANNELS: tl.constexpr, BT: tl.constexpr):
    """BT steps from `first` on, the last of them over and over."""
    t = tl.minimum(tl.maximum(first + tl.arange(0, BT), 0), last)
    return tl.load(x + (row.to(tl.int64) * time + t)[:, None] * CHANNELS + tl.arange(0, CHANNELS)[None, :])


@kernel("factor", "extra", "time", "tiles", "padding")
def snake_in_bytes(
    x, y, steps, affine, factors, lengths, factor, extra, time, tiles, padding,
    CHANNELS: tl.constexpr, BM: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """The snake of a styled norm, in bytes, in the tiles that a convolution reads.

    `y` is (rows * tiles, BM + 2 * padding, CHANNELS): a tile has the `padding` steps before and after it too, because
    its bytes count steps of its own, which go to `steps` (rows, tiles). A snake rises everywhere, so that a channel's
    greatest magnitude is that of its least or its greatest number.
    """
    tile, row = tl.program_id(0), tl.program_id(1)
    count, first, size = row_count(lengths, row, factor, extra), tile * BM - padding, BM + 2 * padding
    if tile * BM >= count:
        return
    last = tl.minimum(count, first + size) - 1
    least = _steps(x, row, first, last, time, CHANNELS, BT)
    most = least
    for i in range(BT, size, BT):
        v = _steps(x, row, first + i, last, time, CHANNELS, BT)
        least, most = tl.minimum(least, v), tl.maximum(most, v)
    c = tl.arange(0, CHANNELS)
    gain, offset = tl.load(affine + row * 2 * CHANNELS + c), tl.load(affine + (row * 2 + 1) * CHANNELS + c)
    factors = tl.load(factors + c)
    low = tl.abs(snake(tl.min(least, 0).to(tl.float32) * gain + offset))
    high = tl.abs(snake(tl.max(most, 0).to(tl.float32) * gain + offset))
    magnitude = tl.maximum(tl.max(tl.maximum(low, high) * factors, 0), LEAST)
    tl.store(steps + row * tiles + tile, magnitude / 127)
    factors *= 127 / magnitude
    target = y + (row.to(tl.int64) * tiles + tile) * size * CHANNELS
    for i in range(0, size, BT):
        at = i + tl.arange(0, BT)
        z = _steps(x, row, first + i, last, time, CHANNELS, BT).to(tl.float32) * gain[None, :] + offset[None, :]
        live = (first + at >= 0) & (first + at <= last)
        z = tl.where(live[:, None], snake(z) * factors[None, :], 0.0) + NEAREST
        out = target + at[:, None] * CHANNELS + c[None, :]
        tl.store(out, z.to(tl.int32, bitcast=True).to(tl.int8), mask=(at < size)[:, None])


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
