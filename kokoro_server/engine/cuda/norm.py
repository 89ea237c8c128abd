"""Styled norms with their activation on an NVIDIA GPU: statistics, their merging, and one pass over the signal."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from kokoro_server.engine.cuda import triton_kernels as kernels
from kokoro_server.engine.model.layers import EPSILON, Modulation, Standard
from kokoro_server.engine.model.lengths import Span, lengths

CHUNK = 128  # steps per partial statistic


class FusedStandard(Standard):
    """`parts` are the statistics of each `chunk` steps, where whatever computed `x` has measured it already."""

    def __init__(self, x: Tensor, span: Span, parts: Tensor | None = None, chunk: int = CHUNK) -> None:
        super().__init__(x, span)
        self.chunk = chunk
        if parts is not None:
            self._partial = parts

    @cached_property
    def _partial(self) -> Tensor:
        rows, time, channels = self.x.shape
        tiles = -(-time // CHUNK)
        parts = self.x.new_empty(rows, tiles, 2, channels, dtype=torch.float32)
        grid = (tiles, -(-channels // 64), rows)
        kernels.measure[grid](self.x, parts, *lengths(self.span), time, tiles, channels, CHUNK, 64)
        return parts

    def leaky(self, style: Modulation) -> Tensor:
        return self._activated(style, snake=False)

    def snake(self, style: Modulation) -> Tensor:
        return self._activated(style, snake=True)

    def _activated(self, style: Modulation, *, snake: bool) -> Tensor:
        rows, time, channels = self.x.shape
        affine = self._affine(style)
        y = torch.empty_like(self.x, dtype=self.span.place.dtype)
        grid = (-(-time // 32), -(-channels // 128), rows)
        kernels.activate[grid](self.x, y, affine, *lengths(self.span), time, channels, snake, 32, 128)
        return y

    def _affine(self, style: Modulation) -> Tensor:
        parts, channels = self._partial, style.scale.shape[2]
        rows, tiles, _, wide = parts.shape
        affine = parts.new_empty(rows, 2, wide)
        kernels.merge[(-(-wide // 32), rows)](
            parts, style.scale, style.shift, affine, *lengths(self.span), tiles, channels, wide,
            style.scale.stride(0), EPSILON, self.chunk, 64, 32,
        )  # fmt: skip
        return affine
