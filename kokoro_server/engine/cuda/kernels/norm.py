"""Adaptive norms with their activation on an NVIDIA GPU: statistics, their merging, and one pass over the signal."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from kokoro_server.engine.cuda.kernels import triton_kernels as kernels
from kokoro_server.engine.cuda.kernels.gate import checkpoint
from kokoro_server.engine.model.layers import EPSILON, AdaINParams, InstanceNorm
from kokoro_server.engine.model.lengths import Lengths, kernel_args

CHUNK = 128  # steps per partial statistic


class FusedInstanceNorm(InstanceNorm):
    """`partial` has the statistics of each `chunk` steps, if the kernel that made `x` has computed them."""

    def __init__(self, x: Tensor, lengths: Lengths, partial: Tensor | None = None, chunk: int = CHUNK) -> None:
        super().__init__(x, lengths)
        self.chunk = chunk
        if partial is not None:
            self._partial = partial

    @cached_property
    def _partial(self) -> Tensor:
        rows, time, channels = self.x.shape
        tiles = -(-time // CHUNK)
        parts = self.x.new_empty(rows, tiles, 2, channels, dtype=torch.float32)
        grid = (tiles, -(-channels // 64), rows)
        kernels.partial_stats[grid](self.x, parts, *kernel_args(self.lengths), time, tiles, channels, CHUNK, 64)
        return parts

    def leaky(self, style: AdaINParams) -> Tensor:
        return self._activated(style, snake=False)

    def snake(self, style: AdaINParams) -> Tensor:
        return self._activated(style, snake=True)

    def _activated(self, style: AdaINParams, *, snake: bool) -> Tensor:
        rows, time, channels = self.x.shape
        affine = self.affine(style)
        checkpoint()
        y = torch.empty_like(self.x, dtype=self.lengths.placement.dtype)
        grid = (-(-time // 32), -(-channels // 128), rows)
        kernels.norm_activation[grid](self.x, y, affine, *kernel_args(self.lengths), time, channels, snake, 32, 128)
        return y

    def affine(self, style: AdaINParams) -> Tensor:
        """The scale and the shift of each row's channels, (rows, 2, channels)."""
        parts, channels = self._partial, style.scale.shape[2]
        rows, tiles, _, width = parts.shape
        affine = parts.new_empty(rows, 2, width)
        kernels.merge_stats[(-(-width // 32), rows)](
            parts, style.scale, style.shift, affine, *kernel_args(self.lengths), tiles, channels, width,
            style.scale.stride(0), EPSILON, self.chunk, 64, 32,
        )  # fmt: skip
        return affine
