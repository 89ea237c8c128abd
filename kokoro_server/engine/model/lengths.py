"""Where weights and signals live, and how long the rows of a batch are at each time resolution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Placement:
    """A device and a precision."""

    device: torch.device
    dtype: torch.dtype

    def to(self, dtype: torch.dtype) -> Placement:
        return replace(self, dtype=dtype)

    def __call__(self, tensor: Tensor) -> Tensor:
        """Move a weight to this device and precision."""
        return tensor.detach().to(device=self.device, dtype=self.dtype).contiguous()


@dataclass(frozen=True)
class Lengths:
    """The rows' lengths at one time resolution: `counts[i]` of `size` steps belong to row i, the rest is padding."""

    counts: tuple[int, ...]
    size: int
    placement: Placement

    def scaled(self, factor: int, extra: int = 0) -> Lengths:
        """At a resolution of `factor` steps for each step of this one, and `extra` more."""
        counts = tuple(count * factor + extra for count in self.counts)
        return Lengths(counts, self.size * factor + extra, self.placement)

    def at(self, placement: Placement) -> Lengths:
        return Lengths(self.counts, self.size, placement)

    @cached_property
    def on_device(self) -> Tensor:
        return torch.tensor(self.counts, device=self.placement.device)  # (rows,)

    @cached_property
    def mask(self) -> Tensor:
        """True where a step belongs to its row. (rows, size)"""
        return torch.arange(self.size, device=self.placement.device) < self.on_device[:, None]

    @property
    def padded(self) -> bool:
        return min(self.counts) < self.size

    @cached_property
    def _weights(self) -> Tensor:
        return (self.mask.to(self.placement.dtype) / self.on_device[:, None])[:, None]  # (rows, 1, size)

    def mean(self, x: Tensor) -> Tensor:
        """Each row's own mean over time, without its padding. (rows, 1, channels)"""
        return self._weights @ x

    def mask_(self, x: Tensor) -> Tensor:
        """Zero the padding, in place."""
        for row, count in enumerate(self.counts):
            if count < self.size:
                x[row, count:] = 0
        return x


class DeviceLengths(Lengths):
    """Lengths that only the device knows. The host never waits for them, so a CUDA graph can be captured with them."""

    def __init__(self, origin: Tensor, size: int, placement: Placement, factor: int = 1, extra: int = 0) -> None:
        super().__init__((), size, placement)
        self.__dict__.update(origin=origin, factor=factor, extra=extra)

    origin: Tensor  # (rows,); a row's length is origin * factor + extra
    factor: int
    extra: int

    def scaled(self, factor: int, extra: int = 0) -> DeviceLengths:
        scale, offset = self.factor * factor, self.extra * factor + extra
        return DeviceLengths(self.origin, self.size * factor + extra, self.placement, scale, offset)

    def at(self, placement: Placement) -> DeviceLengths:
        return DeviceLengths(self.origin, self.size, placement, self.factor, self.extra)

    @cached_property
    def on_device(self) -> Tensor:
        return self.origin * self.factor + self.extra

    @property
    def padded(self) -> bool:
        return True

    def mask_(self, x: Tensor) -> Tensor:
        return x.masked_fill_(~self.mask[..., None], 0)


def kernel_args(lengths: Lengths) -> tuple[Tensor, int, int]:
    """A tensor, a factor and an addend that give the rows' lengths: a kernel does this arithmetic itself."""
    if isinstance(lengths, DeviceLengths):
        return lengths.origin, lengths.factor, lengths.extra
    return lengths.on_device, 1, 0
