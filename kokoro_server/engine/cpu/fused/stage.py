"""A residual stage by the kernels."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kokoro_server.engine.cpu.fused import kernels as fused
from kokoro_server.engine.cpu.fused import tile
from kokoro_server.engine.cpu.fused.kernels import Kernels
from kokoro_server.engine.cpu.fused.weights import BLOCKS, CONVOLUTIONS, ConvolutionWeights
from kokoro_server.engine.cpu.numerics import EPSILON, SNAKE_TURNS, Moments, Signal


class Team:
    """Threads that share a kernel's work, the caller's among them. Stages that run side by side share the threads."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1, "kernels") if threads > 1 else None
        self._stages, self._lock = 0, threading.Lock()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """While a stage runs."""
        with self._lock:
            self._stages += 1
        try:
            yield
        finally:
            with self._lock:
                self._stages -= 1

    def share(self, count: int, work: Any) -> None:
        """Cut `count` into a part for each thread, call `work(part, begin, end)` for each, and wait for all of them.

        The parts are always the same, so results do not depend on how many threads were free.
        """
        cuts = [count * part // self.threads for part in range(self.threads + 1)]
        parts = [(part, *cuts[part : part + 2]) for part in range(self.threads) if cuts[part] < cuts[part + 1]]
        hands = max(1, min(len(parts), self.threads // max(1, self._stages)))

        def do(hand: int) -> None:
            for part in parts[hand::hands]:
                work(*part)

        futures = [self._pool.submit(do, hand) for hand in range(1, hands)] if self._pool else []
        do(0)
        for future in futures:
            future.result()


class Convolution:
    """Norm, snake and convolution."""

    def __init__(self, weights: ConvolutionWeights, kernels: Kernels) -> None:
        self._kernels = kernels
        self._matrix = tile.pack(weights.matrix, kernels.shape)
        self._column_sums = weights.matrix.sum(0, dtype=np.int32)
        self._scales, self._bias, self._shrink = weights.scales, weights.bias, weights.shrink
        self._taps, self._dilation, self._padding, self._scale_at, self._shift_at = map(int, weights.geometry)
        self._channels, self._outputs = len(weights.shrink), len(weights.bias)

    def __call__(
        self, x: Signal, moments: Moments, styles: Signal, base: Signal | None, y: Signal, team: Team
    ) -> Moments:
        """Write the result plus `base` into `y` and return its moments. `moments` are those of `x`."""
        steps, channels = x.shape
        factor, shift = self._norm(moments, styles)
        found = np.zeros((team.threads, 2, self._outputs))
        halo = (self._taps - 1) * self._dilation
        block = block_steps(steps, team.threads, self._kernels.shape.rows)
        room = fused.workspace_bytes(self._kernels.shape, channels, halo)

        def work(thread: int, begin: int, end: int) -> None:
            workspace = np.empty(room, np.uint8)
            self._kernels.convolve(
                x.ctypes.data, steps, channels, self._outputs,
                factor.ctypes.data, shift.ctypes.data, self._shrink.ctypes.data,
                self._matrix.ctypes.data, self._column_sums.ctypes.data, self._scales.ctypes.data,
                self._bias.ctypes.data, 0 if base is None else base.ctypes.data, y.ctypes.data,
                found[thread].ctypes.data, self._taps, self._dilation, self._padding, block,
                workspace.ctypes.data, begin, end,
            )  # fmt: skip

        team.share(-(-steps // block), work)
        return _moments(found, steps)

    @property
    def reach(self) -> int:
        """How many steps away its inputs may lie, on either side."""
        return self._padding

    def _norm(self, moments: Moments, styles: Signal) -> tuple[Signal, Signal]:
        """The factor and the addend of each channel."""
        mean, square = moments
        deviation = np.sqrt(np.maximum(square - mean * mean, 0) + EPSILON)
        scale, shift = (styles[at : at + self._channels] for at in (self._scale_at, self._shift_at))
        factor = scale * SNAKE_TURNS / deviation
        return factor.astype(np.float32), (shift * SNAKE_TURNS - mean * factor).astype(np.float32)


def block_steps(steps: int, threads: int, rows: int) -> int:
    """The length of a block: a multiple of `rows`, so that every thread gets the same number of blocks."""
    blocks = threads * -(-steps // (threads * fused.MAX_BLOCK))
    return min(fused.MAX_BLOCK, -(-steps // (blocks * rows)) * rows)


class FusedUpsampling:
    """The convolution between the stages: each step of its input becomes several, and one more at the beginning."""

    def __init__(self, weights: ConvolutionWeights, channels: int, kernels: Kernels, team: Team) -> None:
        """`channels` of the result."""
        self._kernels, self._team, self._width = kernels, team, channels
        self._matrix = tile.pack(weights.matrix, kernels.shape)
        self._column_sums = weights.matrix.sum(0, dtype=np.int32)
        self._scales, self._bias, self._shrink = weights.scales, weights.bias, weights.shrink
        self._taps, _, self._padding, *_ = map(int, weights.geometry)

    def __call__(self, x: Signal) -> Signal:
        (steps, channels), outputs = x.shape, len(self._bias)
        made = steps + 2 * self._padding - self._taps + 1
        y = tile.aligned((made, outputs), np.float32)
        block = block_steps(made, self._team.threads, self._kernels.shape.rows)
        room = fused.workspace_bytes_two(self._kernels.shape, channels, outputs, self._taps - 1)

        def work(_: int, begin: int, end: int) -> None:
            workspace, unused = np.empty(room, np.uint8), np.zeros((2, outputs))
            self._kernels.convolve_two_bytes(
                x.ctypes.data, steps, channels, outputs, self._shrink.ctypes.data, self._matrix.ctypes.data,
                self._column_sums.ctypes.data, self._scales.ctypes.data, self._bias.ctypes.data, y.ctypes.data,
                unused.ctypes.data, self._taps, self._padding, block, workspace.ctypes.data, begin, end,
            )  # fmt: skip

        self._team.share(-(-made // block), work)
        # As `traced_ops.TracedUpsample`: half a step is cut off at either end, and the beginning is reflected.
        steps, cut = y.reshape(-1, self._width), outputs // self._width // 2
        steps[cut - 1] = steps[cut + 1]
        return steps[cut - 1 : -cut]


class FusedStage:
    """Called with its source, its addend and all styles."""

    def __init__(
        self, number: int, weights: Mapping[str, ConvolutionWeights], slope: float, kernels: Kernels, team: Team
    ) -> None:
        self._kernels, self._team, self._slope = kernels, team, np.float32(slope)
        self._noise, *self._blocks = (
            [Convolution(weights[f"{block}.{name}"], kernels) for name in CONVOLUTIONS] for block in BLOCKS[number]
        )
        self.channels = len(weights[f"{BLOCKS[number][0]}.{CONVOLUTIONS[0]}"].bias)

    @property
    def reach(self) -> int:
        """How many steps away the inputs of a step of its result may lie, on either side."""
        noise, *blocks = (sum(each.reach for each in block) for block in (self._noise, *self._blocks))
        return noise + max(blocks)

    def __call__(
        self, source: Signal, addend: Signal, styles: Signal, known: Sequence[Sequence[Moments]] | None = None
    ) -> Signal:
        """With `known`, the norms go by these moments, for each convolution of each block, and not by those of the
        signals: these may then be a window of longer ones.
        """
        with self._team.at_work():
            return self._run(source, addend, styles, known)

    def _run(self, source: Signal, addend: Signal, styles: Signal, known: Sequence[Sequence[Moments]] | None) -> Signal:
        share, steps, shape = self._team.share, len(source), source.shape
        hidden, x, *ys = (tile.aligned(shape, np.float32) for _ in range(5))
        of_noise, *of_blocks = known or [()] * (1 + len(self._blocks))
        noise = self._block(self._noise, source, of_noise or [self.measure(source)], styles, hidden, ys[0])
        found = self._sums(shape[1])
        share(steps, lambda thread, begin, end: self._kernels.add(noise, addend, x, found[thread], begin, end))
        for block, y, moments in zip(self._blocks, ys, of_blocks, strict=True):
            self._block(block, x, moments or [_moments(found, steps)], styles, hidden, y)
        share(steps, lambda _, begin, end: self._kernels.mean_leaky(*ys, x, self._slope, begin, end))
        return x

    def measure(self, source: Signal) -> Moments:
        """The moments of a signal."""
        found = self._sums(source.shape[1])
        self._team.share(
            len(source), lambda thread, begin, end: self._kernels.measure(source, found[thread], begin, end)
        )
        return _moments(found, len(source))

    def _sums(self, channels: int) -> NDArray[np.float64]:
        """Room for each thread's sums over time, and sums of squares."""
        return np.zeros((self._team.threads, 2, channels))

    def _block(
        self, block: list[Convolution], x: Signal, moments: Sequence[Moments], styles: Signal, hidden: Signal, y: Signal
    ) -> Signal:
        """The block's result, in `y`. `moments` are those before each convolution; those that lack are measured."""
        known = dict(enumerate(moments))
        for number in range(0, len(block), 2):
            found = block[number](x, known[number], styles, None, hidden, self._team)
            found = block[number + 1](hidden, known.get(number + 1, found), styles, x, y, self._team)
            known.setdefault(number + 2, found)
            x = y
        return y


def _moments(sums: NDArray[np.float64], steps: int) -> Moments:
    """Of the sums of each thread."""
    moments: Moments = sums.sum(0) / steps
    return moments
