# mypy: ignore-errors
"""The Triton kernels of all but the LSTMs. Arrays are (rows, time, channels), contiguous, unless said otherwise.

Every kernel knows how long each row is (`count = lengths * factor + extra`) and leaves out its padding, which
therefore costs next to nothing. Where a later convolution looks across the end of a row, zeros are written there.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

from kokoro_server.engine.cuda.kernels.compiling import kernel

HALO = tl.constexpr(64)  # steps past a row's end that are kept at 0: more than any convolution reaches


def descriptor(tensor: Any, tile: list[int]) -> Any:
    """A tensor descriptor: the array is read and written in tiles of one shape."""
    return TensorDescriptor.from_tensor(tensor, tile)


@triton.jit
def _sin(x):
    """For |x| up to a whole turn; its absolute error is 5e-7."""
    return tl.inline_asm_elementwise("sin.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def _cos(x):
    return tl.inline_asm_elementwise("cos.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def snake(z):
    """z + sin² z, whose period π is taken off in two parts to keep the rest exact."""
    turns = tl.floor(z * 0.3183098861837907 + 0.5)
    wave = _sin((z - turns * 3.140625) - turns * 9.67653589793e-4)
    return z + wave * wave


@triton.jit
def row_count(lengths, row, factor, extra):
    return tl.load(lengths + row).to(tl.int32) * factor + extra


@kernel("factor", "extra", "time", "tiles")
def partial_stats(x, parts, lengths, factor, extra, time, tiles, channels, CHUNK: tl.constexpr, BC: tl.constexpr):
    """Mean and sum of squared deviations of each chunk. `parts` is (rows, tiles, 2, channels)."""
    tile, row = tl.program_id(0), tl.program_id(2)
    count = row_count(lengths, row, factor, extra)
    start = tile * CHUNK
    if start >= count:
        return
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    t = start + tl.arange(0, CHUNK)
    live = (t < count)[:, None] & (c < channels)[None, :]
    v = tl.load(x + (row.to(tl.int64) * time + t)[:, None] * channels + c[None, :], mask=live, other=0.0)
    v = v.to(tl.float32)
    mean = tl.sum(v, 0) / tl.minimum(count - start, CHUNK).to(tl.float32)
    off = tl.where(live, v - mean[None, :], 0.0)
    at = parts + (row * tiles + tile) * 2 * channels + c
    tl.store(at, mean, mask=c < channels)
    tl.store(at + channels, tl.sum(off * off, 0), mask=c < channels)


@kernel("factor", "extra", "tiles")
def merge_stats(
    parts, scale, shift, affine, lengths, factor, extra, tiles, channels, wide, style_stride,
    EPSILON: tl.constexpr, CHUNK: tl.constexpr, BS: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Merges the chunks' statistics and a style into the norm's scale and shift. `affine` is (rows, 2, wide)."""
    row = tl.program_id(1)
    count = row_count(lengths, row, factor, extra)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    ok = c < channels
    origin = tl.load(parts + row * tiles * 2 * wide + c, mask=ok, other=0.0)  # of sums, which are small then and exact
    total = tl.zeros((BC,), tl.float32)
    for first in range(0, tl.cdiv(count, CHUNK), BS):
        s = first + tl.arange(0, BS)
        number = tl.minimum(tl.maximum(count - s * CHUNK, 0), CHUNK)
        live = (number > 0)[:, None] & ok[None, :]
        means = tl.load(parts + (row * tiles + s)[:, None] * 2 * wide + c[None, :], mask=live, other=0.0)
        total += tl.sum(tl.where(live, means - origin[None, :], 0.0) * number.to(tl.float32)[:, None], 0)
    mean = origin + total / count.to(tl.float32)
    spread = tl.zeros((BC,), tl.float32)
    for first in range(0, tl.cdiv(count, CHUNK), BS):
        s = first + tl.arange(0, BS)
        number = tl.minimum(tl.maximum(count - s * CHUNK, 0), CHUNK)
        live = (number > 0)[:, None] & ok[None, :]
        at = parts + (row * tiles + s)[:, None] * 2 * wide + c[None, :]
        off = tl.load(at, mask=live, other=0.0) - mean[None, :]
        inner = tl.load(at + wide, mask=live, other=0.0)
        spread += tl.sum(tl.where(live, inner + off * off * number.to(tl.float32)[:, None], 0.0), 0)
    gain = tl.load(scale + row * style_stride + c, mask=ok, other=0.0).to(tl.float32)
    gain *= tl.rsqrt(spread / count.to(tl.float32) + EPSILON)
    offset = tl.load(shift + row * style_stride + c, mask=ok, other=0.0).to(tl.float32) - mean * gain
    tl.store(affine + row * 2 * wide + c, gain, mask=c < wide)
    tl.store(affine + (row * 2 + 1) * wide + c, tl.where(ok, offset, 0.0), mask=c < wide)


@kernel("factor", "extra", "time")
def norm_activation(
    x, y, affine, lengths, factor, extra, time, channels, SNAKE: tl.constexpr, BT: tl.constexpr, BC: tl.constexpr
):
    """y = act(x * scale + shift)."""
    row = tl.program_id(2)
    count = row_count(lengths, row, factor, extra)
    start = tl.program_id(0) * BT
    if start >= count + HALO:
        return
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    t = start + tl.arange(0, BT)
    ok = c < channels
    gain = tl.load(affine + row * 2 * channels + c, mask=ok, other=0.0)
    offset = tl.load(affine + (row * 2 + 1) * channels + c, mask=ok, other=0.0)
    at = (row.to(tl.int64) * time + t)[:, None] * channels + c[None, :]
    live = (t < count)[:, None] & ok[None, :]
    z = tl.load(x + at, mask=live, other=0.0).to(tl.float32) * gain[None, :] + offset[None, :]
    z = snake(z) if SNAKE else tl.where(z > 0, z, 0.2 * z)
    tl.store(y + at, tl.where(live, z, 0.0).to(y.dtype.element_ty), mask=(t < time)[:, None] & ok[None, :])


@kernel("factor", "extra", "time")
def leaky_mean(
    a, b, c, y, lengths, factor, extra, time, slope, CHANNELS: tl.constexpr, PARTS: tl.constexpr, BT: tl.constexpr
):
    """y = leaky((a + b + c) / 3), or of `a` alone."""
    row = tl.program_id(1)
    count = row_count(lengths, row, factor, extra)
    start = tl.program_id(0) * BT
    if start >= count + HALO:
        return
    t = start + tl.arange(0, BT)
    at = (row.to(tl.int64) * time + t)[:, None] * CHANNELS + tl.arange(0, CHANNELS)[None, :]
    live = (t < count)[:, None]
    v = tl.load(a + at, mask=live, other=0.0).to(tl.float32)
    if PARTS == 3:
        v += tl.load(b + at, mask=live, other=0.0).to(tl.float32)
        v += tl.load(c + at, mask=live, other=0.0).to(tl.float32)
        v *= 1 / 3
    v = tl.where(live, tl.where(v > 0, v, slope * v), 0.0)
    tl.store(y + at, v.to(y.dtype.element_ty), mask=(t < time)[:, None])


@triton.jit
def finish_conv(
    total, y, base, bias, parts, scale, row, tile, block, count, tiles, channels,
    RESIDUAL: tl.constexpr, STATS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """What follows the products of a tile: the bias, the residual, and the statistics of what is stored."""
    start = tile * BM
    total += tl.load(bias + block * BN + tl.arange(0, BN))[None, :]
    if RESIDUAL:
        total += base.load([row, start, block * BN]).reshape(BM, BN).to(tl.float32)
        total *= scale
    y.store([row, start, block * BN], total.to(y.dtype).reshape(1, BM, BN))
    if STATS:
        live = (start + tl.arange(0, BM) < count)[:, None]
        mean = tl.sum(tl.where(live, total, 0.0), 0) / tl.minimum(count - start, BM).to(tl.float32)
        # Not from the sum of squares: of a channel that hardly changes, nothing would be left.
        off = tl.where(live, total - mean[None, :], 0.0)
        c = block * BN + tl.arange(0, BN)
        at = parts + (row * tiles + tile) * 2 * channels + c
        tl.store(at, mean, mask=c < channels)
        tl.store(at + channels, tl.sum(off * off, 0), mask=c < channels)


@kernel("factor", "extra", "dilation", "padding", "tiles")
def conv1d(
    x, w, y, base, bias, parts, lengths, factor, extra, dilation, padding, scale, tiles, channels,
    CIN: tl.constexpr, BLOCKS: tl.constexpr, TAPS: tl.constexpr, RESIDUAL: tl.constexpr, STATS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A convolution that keeps the length, as one matrix product per tap.

    `x`, `y` and `base` are descriptors of (rows, time, channels), `w` of (TAPS * CIN, channels): what they read outside
    of the array is 0, which is the padding of the convolution, and what they write there is dropped. `parts` is as in
    `partial_stats`, with a chunk for each tile.
    """
    block, tile, row = tl.program_id(0) % BLOCKS, tl.program_id(0) // BLOCKS, tl.program_id(1)
    start, count = tile * BM, row_count(lengths, row, factor, extra)
    if start >= count:
        return
    steps: tl.constexpr = CIN // BK
    total = tl.zeros((BM, BN), tl.float32)
    for i in range(TAPS * steps):
        at = start - padding + (i // steps) * dilation
        total = tl.dot(x.load([row, at, (i % steps) * BK]).reshape(BM, BK), w.load([i * BK, block * BN]), total)
    finish_conv(total, y, base, bias, parts, scale, row, tile, block, count, tiles, channels, RESIDUAL, STATS, BM, BN)


@kernel()
def split_fp16(x, y, size, stride, wide, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Splits a line of single precision into its high, low and (if PARTS is 3) high halves, `stride` apart, zeros
    between them; then two ones and zeros. `y` is (lines, wide).
    """
    line, k = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    v = tl.load(x + line * size + k, mask=k < size, other=0.0)
    high = v.to(y.dtype.element_ty)
    at = y + line * wide + k
    tl.store(at, high, mask=k < stride)
    tl.store(at + stride, (v - high.to(tl.float32)).to(y.dtype.element_ty), mask=k < stride)
    if PARTS == 3:
        tl.store(at + 2 * stride, high, mask=k < stride)
    ending = wide - PARTS * stride
    tl.store(at + PARTS * stride, tl.where(k < 2, 1.0, 0.0).to(y.dtype.element_ty), mask=k < ending)


@kernel("factor", "extra", "time", "out_time", "padding", "front")
def overlap_add(
    taps, base, bias, y, lengths, factor, extra, time, out_time, padding, front,
    STRIDE: tl.constexpr, CHANNELS: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """The end of a transposed convolution: `taps` is (rows, time, 2, STRIDE, CHANNELS); `front` steps are reflected."""
    row = tl.program_id(1)
    start = tl.program_id(0) * BT
    if start >= row_count(lengths, row, factor, extra):
        return
    u = start + tl.arange(0, BT)
    c = tl.arange(0, CHANNELS)[None, :]
    position = tl.where(u < front, front - u, u - front) + padding
    j, r = position // STRIDE, position % STRIDE
    at = ((row.to(tl.int64) * time + j) * 2 * STRIDE + r)[:, None] * CHANNELS + c
    ok = (u < out_time)[:, None]
    v = tl.load(taps + at, mask=ok & (j < time)[:, None], other=0.0).to(tl.float32)
    v += tl.load(taps + at - STRIDE * CHANNELS, mask=ok & (j > 0)[:, None], other=0.0).to(tl.float32)
    out = (row.to(tl.int64) * out_time + u)[:, None] * CHANNELS + c
    v += tl.load(base + out, mask=ok, other=0.0).to(tl.float32) + tl.load(bias + c)
    tl.store(y + out, v.to(y.dtype.element_ty), mask=ok)


@kernel("steps")
def harmonic_source(
    f0, phase, delta, noise, weight, bias, y, steps, amplitude, noise_level, noise_gain, threshold,
    STEP: tl.constexpr, HARMONICS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The source. `phase` and `delta` are (rows, steps, HARMONICS): turns at a step, and from it to the next."""
    row = tl.program_id(1)
    s = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = s < steps * STEP
    j = (s + STEP // 2) // STEP - 1
    part = tl.where(j < 0, 0.0, (s - j * STEP).to(tl.float32) - (STEP - 1) / 2) / STEP
    j = row * steps + tl.maximum(j, 0)
    tone = tl.zeros((BLOCK,), tl.float32)
    for h in tl.static_range(HARMONICS):
        turns = tl.load(phase + j * HARMONICS + h, mask=ok, other=0.0)
        turns += part * tl.load(delta + j * HARMONICS + h, mask=ok, other=0.0)
        tone += tl.load(weight + h) * _sin((turns - tl.floor(turns + 0.5)) * 6.283185307179586)
    voiced = tl.load(f0 + row * steps + s // STEP, mask=ok, other=0.0) > threshold
    at = row.to(tl.int64) * steps * STEP + s
    level = tl.where(voiced, noise_level, amplitude / 3) * noise_gain
    v = tl.where(voiced, tone * amplitude, 0.0) + level * tl.load(noise + at, mask=ok, other=0.0) + tl.load(bias)
    tl.store(y + at, libdevice.tanh(v), mask=ok)


@kernel("factor", "extra", "samples", "out_time")
def stft(
    x, real, imaginary, y, lengths, factor, extra, samples, out_time,
    WINDOW: tl.constexpr, HOP: tl.constexpr, BINS: tl.constexpr, WIDE: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """The STFT of the source: BINS magnitudes, BINS phases, zeros up to WIDE. The tables are (WINDOW, 16)."""
    row = tl.program_id(1)
    count = row_count(lengths, row, factor, extra)  # samples
    m = tl.program_id(0) * BT + tl.arange(0, BT)
    k = tl.arange(0, 16)
    re = tl.zeros((BT, 16), tl.float64)
    im = tl.zeros((BT, 16), tl.float64)
    live = m < count // HOP + 1
    for n in range(WINDOW):
        i = m * HOP + n - WINDOW // 2
        i = tl.where(i < 0, -i, i)
        i = tl.where(i >= count, 2 * count - 2 - i, i)
        v = tl.load(x + row.to(tl.int64) * samples + i, mask=live, other=0.0).to(tl.float64)[:, None]
        re += v * tl.load(real + n * 16 + k)[None, :]
        im += v * tl.load(imaginary + n * 16 + k)[None, :]
    re, im = re.to(tl.float32), im.to(tl.float32)
    at = y + (row.to(tl.int64) * out_time + m)[:, None] * WIDE + k[None, :]
    ok = (m < out_time)[:, None] & (k < BINS)[None, :]
    magnitude = tl.where(live[:, None], tl.sqrt(re * re + im * im), 0.0)
    angle = tl.where(live[:, None], libdevice.atan2(im, re), 0.0)
    tl.store(at, magnitude.to(y.dtype.element_ty), mask=ok)
    tl.store(at + BINS, angle.to(y.dtype.element_ty), mask=ok)
    rest = (m < out_time)[:, None] & (k < WIDE - 2 * BINS)[None, :]
    tl.store(at + 2 * BINS, tl.zeros((BT, 16), y.dtype.element_ty), mask=rest)


@kernel("factor", "extra", "time", "samples")
def istft(
    x, cosine, sine, window, y, lengths, factor, extra, time, samples,
    WINDOW: tl.constexpr, HOP: tl.constexpr, BINS: tl.constexpr, WIDE: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """The inverse STFT. The tables are (WINDOW // HOP, 16, 16) and (WINDOW // HOP, 16): bins and samples of a hop."""
    row = tl.program_id(1)
    count = row_count(lengths, row, factor, extra)
    hop = tl.program_id(0) * BT + tl.arange(0, BT)
    k, i = tl.arange(0, 16), tl.arange(0, 16)
    total = tl.zeros((BT, 16), tl.float32)
    weight = tl.zeros((BT, 16), tl.float32)
    for q in range(WINDOW // HOP):
        m = hop - q
        live = (m >= 0) & (m < count)
        at = x + (row.to(tl.int64) * time + m)[:, None] * WIDE + k[None, :]
        ok = live[:, None] & (k < BINS)[None, :]
        magnitude = tl.where(ok, tl.exp(tl.load(at, mask=ok, other=0.0).to(tl.float32)), 0.0)
        turns = tl.load(at + BINS, mask=ok, other=0.0).to(tl.float32) * 0.15915494309189535
        angle = _sin((turns - tl.floor(turns + 0.5)) * 6.283185307179586)
        table = q * 256 + k[:, None] * 16 + i[None, :]
        re, im = magnitude * _cos(angle), magnitude * _sin(angle)
        total = tl.dot(re, tl.load(cosine + table), total, input_precision="ieee")
        total = tl.dot(im, tl.load(sine + table), total, input_precision="ieee")
        weight += live.to(tl.float32)[:, None] * tl.load(window + q * 16 + i)[None, :]
    s = (hop * HOP - WINDOW // 2)[:, None] + i[None, :]
    ok = (s >= 0) & (s < samples) & (i < HOP)[None, :]
    tl.store(y + row.to(tl.int64) * samples + s, total / tl.where(weight == 0, 1.0, weight), mask=ok)


@kernel()
def gaussian_noise(seeds, y, samples, BLOCK: tl.constexpr):
    """Gaussian noise: a sample depends on its row's seed and its own index alone."""
    row = tl.program_id(1)
    s = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + row.to(tl.int64) * samples + s, tl.randn(tl.load(seeds + row), s), mask=s < samples)


@kernel()
def pass_gate(gate, most):
    """Wait while the first word of `gate` is not 0, for `most` looks at most; the second word counts them."""
    left = most
    while (tl.load(gate, volatile=True) != 0) & (left > 0):
        left -= 1
    tl.store(gate + 1, most - left)
