"""Convolutions of snakes by Hopper's tensor cores, in one pass over the signal; see `halo_conv.cu`."""

from __future__ import annotations

import ctypes
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kokoro_server.engine.cuda.kernels.card import Card
from kokoro_server.engine.cuda.kernels.compiling import runs
from kokoro_server.engine.cuda.kernels.conv import FusedConv
from kokoro_server.engine.cuda.kernels.eight_bits import ByteConv
from kokoro_server.engine.cuda.kernels.gate import checkpoint
from kokoro_server.engine.cuda.kernels.norm import FusedInstanceNorm
from kokoro_server.engine.model.layers import AdaINParams, InstanceNorm
from kokoro_server.engine.model.lengths import Lengths, Placement, kernel_args

# As in `halo_conv.cu`.
STEPS, OUTPUTS = 128, 128  # of a tile
LINE = 128  # bytes: 64 channels of half precision, or 128 of bytes
LINES = 178  # of a tile with its halo, at most
THREADS = 256
SHARED = 4 * 16 * 1024 + 23 * 1024 + LINES * LINE + 3 * 2 * 4 * OUTPUTS + 4 * OUTPUTS + 32  # bytes
TOGETHER = 2  # programs on a multiprocessor

MAX_SHARED = 8  # the number of an attribute of a function: the shared memory that it may be launched with

PROGRAMS = Path(__file__).with_name("halo_conv.zip")  # made by `halo_build`
WIDTHS = (128, 256)  # channels


def takes(module: Any, placement: Placement) -> bool:
    is_narrow = STEPS + module.dilation[0] * (module.kernel_size[0] - 1) <= LINES
    fits = module.in_channels == module.out_channels and module.in_channels in WIDTHS
    return fits and is_narrow and placement.dtype == torch.float16


class HaloConv(FusedConv):
    """In half precision. The norm and the snake are part of the convolution."""

    def __init__(self, module: Any, placement: Placement, card: Card, gain: Tensor | None = None) -> None:
        super().__init__(module, placement, card, gain)
        self.lines = lines_of(self.weight.view(self.taps, self.inputs, self.outputs))

    def of_snake(
        self, signal: InstanceNorm, style: AdaINParams, lengths: Lengths, base: Tensor | None = None
    ) -> InstanceNorm:
        rows, time, _ = signal.x.shape
        if rows * -(-time // STEPS) * (self.outputs // OUTPUTS) < self.card.processors:
            return super().of_snake(signal, style, lengths, base)
        return _convolved(self, signal, style, lengths, base)


class HaloByteConv(ByteConv):
    """In 8 bits."""

    def __init__(self, module: Any, placement: Placement, card: Card, gain: Tensor) -> None:
        super().__init__(module, placement, card, gain)
        self.lines = lines_of(self.weight.view(self.outputs, self.taps, self.inputs).permute(1, 2, 0))

    def of_snake(
        self, signal: InstanceNorm, style: AdaINParams, lengths: Lengths, base: Tensor | None = None
    ) -> InstanceNorm:
        return _convolved(self, signal, style, lengths, base, self.factors, self.scales)


def _convolved(
    conv: HaloConv | HaloByteConv,
    signal: InstanceNorm,
    style: AdaINParams,
    lengths: Lengths,
    base: Tensor | None,
    factors: Tensor | None = None,
    scales: Tensor | None = None,
) -> InstanceNorm:
    assert isinstance(signal, FusedInstanceNorm)
    rows, time, channels = signal.x.shape
    tiles, blocks = -(-time // STEPS), conv.outputs // OUTPUTS
    affine = signal.affine(style)
    checkpoint()
    y = signal.x.new_empty(rows, time, conv.outputs)
    parts = affine.new_empty(rows, tiles, 2, conv.outputs)
    program = _program(f"{'float' if scales is None else 'int'}_{channels}.ptx", y.device)
    if runs():
        program(
            conv.card.processors * TOGETHER // blocks * blocks,
            signal.x, affine, conv.lines, y, base, conv.bias, factors, scales, parts, *kernel_args(lengths), rows, time,
            conv.taps, conv.dilation, conv.padding, tiles,
        )  # fmt: skip
    return FusedInstanceNorm(y, lengths, parts, STEPS)


def lines_of(weight: Tensor) -> Tensor:
    """Weights (taps, inputs, outputs) as a program reads them: for OUTPUTS outputs and a line's inputs at a time, each
    tap's lines, one for each output.
    """
    taps, inputs, outputs = weight.shape
    wide = LINE // weight.element_size()
    # A lane's eight neighbouring channels are in four columns of a product, two in each.
    columns = torch.arange(OUTPUTS).view(4, 4, 4, 2).permute(0, 2, 1, 3).flatten()
    split = weight.reshape(taps, inputs // wide, wide, outputs // OUTPUTS, OUTPUTS)
    return exchanged(split.permute(3, 1, 0, 4, 2)[:, :, :, columns.to(weight.device)])


def exchanged(lines: Tensor) -> Tensor:
    """Lines (..., number, channels), of whose eight parts each goes to the place of its own number ^ the line's."""
    number, parts = torch.arange(lines.shape[-2], device=lines.device), torch.arange(8, device=lines.device)
    by_part = lines.reshape(*lines.shape[:-1], 8, -1)
    source = (parts[None, :] ^ (number[:, None] & 7))[..., None].expand(by_part.shape)
    return by_part.gather(-2, source).reshape(lines.shape)


class Program:
    """A program of `halo_conv.cu` on the current device."""

    def __init__(self, assembly: bytes) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self._driver.cuModuleLoadData(ctypes.byref(module), assembly))
        self._check(self._driver.cuModuleGetFunction(ctypes.byref(self._function), module, b"conv"))
        self._check(self._driver.cuFuncSetAttribute(self._function, MAX_SHARED, SHARED))

    def __call__(self, programs: int, *arguments: Tensor | int | None) -> None:
        """Launch it on torch's current stream."""
        values = [
            ctypes.c_int(each) if isinstance(each, int) else ctypes.c_void_p(each.data_ptr() if each is not None else 0)
            for each in arguments
        ]
        addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._check(
            self._driver.cuLaunchKernel(self._function, programs, 1, 1, THREADS, 1, 1, SHARED, stream, addresses, None)
        )

    def _check(self, status: int) -> None:
        if status:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"CUDA error {status}: {(text.value or b'unknown').decode()}")


@cache
def _program(name: str, device: torch.device) -> Program:
    with torch.cuda.device(device), zipfile.ZipFile(PROGRAMS) as archive:
        return Program(archive.read(name) + b"\0")
