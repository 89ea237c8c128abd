"""Convolutions in half precision on an NVIDIA GPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_server.engine.cuda import triton_kernels as kernels
from kokoro_server.engine.cuda.linear import halves, in_parts
from kokoro_server.engine.cuda.norm import FusedStandard
from kokoro_server.engine.model.layers import Conv, Standard, folded
from kokoro_server.engine.model.lengths import Place, Span, lengths

STEPS, CHANNELS, DEPTH = 128, 128, 64  # of a tile: what it computes, and how much it takes at a time
STAGES = 3  # of reading ahead: two programs fit on a multiprocessor
FEW_STEPS, FEW_STAGES = 64, 6  # where such tiles would leave multiprocessors idle
FEW_SHARED = 160 * 1024  # bytes that so many stages need; Blackwell for the desk has less, for the rack more


def aligned(channels: int) -> int:
    """The next multiple of 8: 16 bytes, which descriptors and cuDNN's fast kernels ask for."""
    return -(-channels // 8) * 8


class AlignedConv(Conv):
    """cuDNN's, with channels padded. Those beyond the module's own come out as 0."""

    def __init__(self, module: Any, place: Place, gain: Tensor | None = None) -> None:
        super().__init__(module, place, gain)
        outputs, self.inputs = (aligned(size) for size in self.weight.shape[:2])
        more = (0, 0, 0, 0, 0, self.inputs - self.weight.shape[1], 0, outputs - self.weight.shape[0])
        self.weight = F.pad(self.weight, more).contiguous(memory_format=torch.channels_last)
        if self.bias is not None:
            self.bias = F.pad(self.bias, (0, outputs - len(self.bias)))

    def __call__(self, x: Tensor, span: Span) -> Tensor:
        return super().__call__(F.pad(x, (0, self.inputs - x.shape[2])) if x.shape[2] < self.inputs else x, span)


class FusedConv(Conv):
    """One kernel for the convolution and what is added to it. Nothing is computed beyond a row's end.

    `output` is the precision of the result, where it is not `place`'s.
    """

    def __init__(
        self, module: Any, place: Place, gain: Tensor | None = None, output: torch.dtype | None = None
    ) -> None:
        weight = folded(module)  # (out, in, taps)
        if gain is not None:
            weight = weight / gain.view(1, -1, 1)
        outputs, inputs, self.taps = weight.shape
        self.width = min(CHANNELS, max(16, 1 << (outputs - 1).bit_length()))
        whole = -(-outputs // self.width) * self.width
        weight = self._stacked(F.pad(weight, (0, 0, 0, -inputs % DEPTH, 0, whole - outputs)), place)
        self.inputs, self.outputs = weight.shape[1], aligned(outputs)
        self.weight = weight.permute(2, 1, 0).flatten(0, 1).to(place.device).contiguous()  # (taps * inputs, outputs)
        bias = torch.zeros(outputs) if module.bias is None else module.bias.detach()
        self.bias = F.pad(bias.to(place.device, torch.float32), (0, whole - outputs))
        self.padding, self.dilation, self.output = module.padding[0], module.dilation[0], output or place.dtype
        properties = torch.cuda.get_device_properties(place.device)
        self.processors = properties.multi_processor_count
        roomy = getattr(properties, "shared_memory_per_multiprocessor", 0) >= FEW_SHARED  # older torch does not tell
        self.few_stages = FEW_STAGES if roomy else STAGES

    def _stacked(self, weight: Tensor, place: Place) -> Tensor:
        """The weights, in the precision of the products."""
        return weight.to(place.dtype)

    def __call__(self, x: Tensor, span: Span) -> Tensor:
        return self._run(x, span, None, 1.0, measure=False).x

    def onto(self, x: Tensor, base: Tensor, span: Span, scale: float = 1.0) -> Tensor:
        return self._run(x, span, base, scale, measure=False).x

    def measured(self, x: Tensor, span: Span, base: Tensor | None = None) -> Standard:
        return self._run(x, span, base, 1.0, measure=True)

    def _run(self, x: Tensor, span: Span, base: Tensor | None, scale: float, *, measure: bool) -> FusedStandard:
        rows, time, channels = x.shape
        if channels % 8:
            x = F.pad(x, (0, aligned(channels) - channels))
        y = x.new_empty(rows, time, self.outputs, dtype=self.output)
        blocks = self.weight.shape[1] // self.width
        many = rows * -(-time // STEPS) * blocks >= self.processors
        steps, stages = (STEPS, STAGES) if many else (FEW_STEPS, self.few_stages)
        tiles, tile = -(-time // steps), [1, steps, self.width]
        parts = y.new_empty(rows, tiles, 2, self.outputs, dtype=torch.float32) if measure else None
        out = kernels.descriptor(y, tile)
        kernels.convolve[(tiles * blocks, rows)](
            kernels.descriptor(x, [1, steps, DEPTH]),
            kernels.descriptor(self.weight, [DEPTH, self.width]),
            out,
            out if base is None else kernels.descriptor(base, tile),
            self.bias, self.bias if parts is None else parts, *lengths(span), self.dilation, self.padding, scale,
            tiles, self.outputs, self.inputs, blocks, self.taps, base is not None, measure, steps, self.width, DEPTH,
            num_stages=stages,
        )  # fmt: skip
        return FusedStandard(y, span, parts, steps)


class SplitConv(FusedConv):
    """Of signals in single precision, each the sum of two halves; so are the weights, unless `half` are enough."""

    def __init__(self, module: Any, place: Place, *, half: bool) -> None:
        self.parts = 2 if half else 3
        super().__init__(module, place)

    def _stacked(self, weight: Tensor, place: Place) -> Tensor:  # noqa: ARG002
        high, low = halves(weight)
        return torch.cat([high, high, low][: self.parts], 1)

    def _run(self, x: Tensor, span: Span, base: Tensor | None, scale: float, *, measure: bool) -> FusedStandard:
        parts = in_parts(x, self.parts, self.inputs // self.parts, self.inputs)
        return super()._run(parts, span, base, scale, measure=measure)
