"""Where a batch is computed, by what, and how long its rows are at each time resolution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from kokoro_server.engine.model.harmonic_source import Inverse, Source, Spectrum
    from kokoro_server.engine.model.layers import BiLSTM, Conv, Linear, Standard, Upsample


class Kernels(Protocol):
    """What the parts of the forward pass are made of: `plain.Plain` anywhere, `fused.Fused` on a GPU."""

    def linear(self, weight: Tensor, bias: Tensor, place: Place) -> Linear: ...

    def conv(self, module: Any, place: Place, gain: Tensor | None = None) -> Conv: ...

    def fine_conv(self, module: Any, place: Place, weights: torch.dtype) -> Conv:
        """One whose signals must not be rounded to half precision; weights of the precision `weights` are enough."""
        ...

    def last_conv(self, module: Any, place: Place, wave: Place) -> Conv:
        """One whose result is better kept in `wave`'s precision."""
        ...

    def upsample(self, module: Any, place: Place) -> Upsample: ...

    def lstm(self, module: Any, place: Place) -> BiLSTM: ...

    def source(self, module: Any, wave: Place, phase_dtype: torch.dtype | None) -> Source: ...

    def spectrum(self, place: Place, wave: Place) -> Spectrum: ...

    def inverse(self, wave: Place) -> Inverse: ...

    def standard(self, x: Tensor, span: Span) -> Standard: ...

    def leaky(self, parts: Iterable[Tensor], slope: float, span: Span) -> Tensor:
        """The leaky ReLU of the mean of the parts, 0 beyond each row's end, in `span`'s precision. May overwrite the
        parts.
        """
        ...


@dataclass(frozen=True)
class Place:
    """Where weights live, in which precision, and what computes with them."""

    device: torch.device
    dtype: torch.dtype
    kernels: Kernels

    def to(self, dtype: torch.dtype) -> Place:
        return replace(self, dtype=dtype)

    def __call__(self, tensor: Tensor) -> Tensor:
        return tensor.detach().to(device=self.device, dtype=self.dtype).contiguous()


@dataclass(frozen=True)
class Span:
    """The rows' lengths at one time resolution: `counts[i]` of `size` steps belong to row i."""

    counts: tuple[int, ...]
    size: int
    place: Place

    def scaled(self, factor: int, extra: int = 0) -> Span:
        counts = tuple(count * factor + extra for count in self.counts)
        return Span(counts, self.size * factor + extra, self.place)

    def at(self, place: Place) -> Span:
        return Span(self.counts, self.size, place)

    @cached_property
    def lengths(self) -> Tensor:
        return torch.tensor(self.counts, device=self.place.device)  # (rows,)

    @cached_property
    def inside(self) -> Tensor:
        """True where a step belongs to its row. (rows, size)"""
        return torch.arange(self.size, device=self.place.device) < self.lengths[:, None]

    @property
    def padded(self) -> bool:
        return min(self.counts) < self.size

    @cached_property
    def _weights(self) -> Tensor:
        return (self.inside.to(self.place.dtype) / self.lengths[:, None])[:, None]  # (rows, 1, size)

    def mean(self, x: Tensor) -> Tensor:
        """Each row's own mean over time. (rows, 1, channels)"""
        return self._weights @ x

    def clear(self, x: Tensor) -> Tensor:
        """Zero what lies beyond each row's end, in place."""
        for row, count in enumerate(self.counts):
            if count < self.size:
                x[row, count:] = 0
        return x


class DeviceSpan(Span):
    """A span whose lengths are known to the device alone: nothing waits for them, so a CUDA graph can hold it."""

    def __init__(self, origin: Tensor, size: int, place: Place, factor: int = 1, extra: int = 0) -> None:
        super().__init__((), size, place)
        self.__dict__.update(origin=origin, factor=factor, extra=extra)

    origin: Tensor  # (rows,); a row's length is origin * factor + extra
    factor: int
    extra: int

    def scaled(self, factor: int, extra: int = 0) -> DeviceSpan:
        scale, offset = self.factor * factor, self.extra * factor + extra
        return DeviceSpan(self.origin, self.size * factor + extra, self.place, scale, offset)

    def at(self, place: Place) -> DeviceSpan:
        return DeviceSpan(self.origin, self.size, place, self.factor, self.extra)

    @cached_property
    def lengths(self) -> Tensor:
        return self.origin * self.factor + self.extra

    @property
    def padded(self) -> bool:
        return True

    def clear(self, x: Tensor) -> Tensor:
        return x.masked_fill_(~self.inside[..., None], 0)


def lengths(span: Span) -> tuple[Tensor, int, int]:
    """A tensor, a factor and an addend that give the rows' lengths: the arithmetic is left to a kernel."""
    return (span.origin, span.factor, span.extra) if isinstance(span, DeviceSpan) else (span.lengths, 1, 0)
