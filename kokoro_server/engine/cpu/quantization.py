"""Which convolutions int8 quantizes, and how their weights and the ranges of their inputs are chosen."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kokoro_server.engine.cpu.numerics import Array

MIN_CHANNELS = 64  # in and out: a narrower convolution is not worth quantizing

# In the last blocks both ends of an utterance have peaks, two to three times as high as the middle. Each end has a
# range of its own: in one range with the ends, the middle would have two to three times fewer steps. The middle is
# cut into segments too, so that no moment is rounded more coarsely than its surroundings need.
SEGMENTED = tuple(f"decoder.generator.resblocks.{block}." for block in (3, 4, 5))
EDGE_STEPS = 240  # of each end: two frames
SEGMENTS = 6  # including both ends

# These convolutions are a small part of all products, but everything after depends on them: their input has two bytes.
TWO_BYTE = (
    "predictor.N.", "decoder.asr_res.", "decoder.encode.", *(f"decoder.decode.{block}.conv1x1" for block in range(4)),
    "decoder.generator.ups.1",
)  # fmt: skip

CHANNEL_AMAX = Path(__file__).with_name("data") / "channel_amax.npz"
PROVENANCE = "provenance"  # its entry with the files and versions of the measurement, in JSON

# SmoothQuant's migration strength: 1 favours the quantization of the signals, 0 that of the weights.
ALPHA = 0.7
TWO_BYTE_ALPHA = 0.4  # where signals have 16 bits


# A processor without an exact product adds products in 16 bits. The bytes of a signal are 255 at most. So no sum leaves
# 16 bits if the positive weights of a sum come to no more than this, nor the negative ones.
GROUP_LIMIT = 128
GROUP_QUADS = 4  # of channels: our kernels add the first two of each, and the last two


class Form(StrEnum):
    """How the weights of a graph are written as bytes; see `saturation.best_form`."""

    SIGNED = "signed"
    PAIRED = "paired"  # signed, and any two that are added in 16 bits keep to GROUP_LIMIT
    UNSIGNED = "unsigned"


class QuantizedWeights(NamedTuple):
    """The weights of a convolution as one matrix; see `quantize_weights`."""

    matrix: Array  # (taps * input channels, output channels)
    scales: Array
    zero_points: Array | None
    bias: Array
    taps: int
    dilation: int


def is_quantizable(label: str, w: Array) -> bool:
    """Whether int8 quantizes the convolution `label`.

    Not those that decide durations and F0, nor the last one, whose result is an exponent and a phase.
    """
    wide = w.shape[1] >= MIN_CHANNELS and w.shape[0] >= MIN_CHANNELS
    return wide and label.startswith(("decoder.", "predictor.N.")) and not label.endswith("conv_post")


def channel_amax() -> dict[str, Array]:
    """The greatest magnitude of each input channel, by the name of the convolution; see data/README.md."""
    with np.load(CHANNEL_AMAX) as table:
        return {name: table[name].astype(np.float32) for name in table.files if name != PROVENANCE}


def smoothquant_scales(channel_amax: Array, w: Array, alpha: float) -> Array:
    """The divisor of each input channel, and factor of its weights, with which 8 bits serve both well."""
    weight = np.sqrt(np.square(w).mean((0, 2)))
    ratio = np.maximum(channel_amax, 1e-6) ** alpha / np.maximum(weight, 1e-9) ** (1 - alpha)
    return np.asarray(ratio / ratio.mean(), np.float32)


def tap_matrix(w: Array) -> Array:
    """The (outputs, channels, taps) weights of a convolution as (taps * channels, outputs)."""
    return w.transpose(2, 1, 0).reshape(w.shape[1] * w.shape[2], -1)


def quantize_weights(matrix: Array, form: Form) -> tuple[Array, Array, Array | None]:
    """A matrix in 8 bits, with a scale and, where it is unsigned, a zero point for each column."""
    if form is Form.SIGNED:
        scales = np.maximum(np.abs(matrix).max(0) / 127, 1e-12).astype(np.float32)
        return np.round(matrix / scales).astype(np.int8), scales, None
    if form is Form.PAIRED:
        return *quantize_in_groups(matrix, 1), None
    low, high = np.minimum(matrix.min(0), 0), np.maximum(matrix.max(0), 0)
    scales = np.maximum((high - low) / 255, 1e-12).astype(np.float32)
    zero_points = np.round(-low / scales)
    quantized = np.clip(np.round(matrix / scales) + zero_points, 0, 255).astype(np.uint8)
    return quantized, scales, zero_points.astype(np.uint8)


def quantize_in_groups(matrix: Array, quads: int) -> tuple[Array, Array]:
    """A matrix in signed bytes whose groups (see `group_sums`) keep to GROUP_LIMIT, with a scale for each column.

    Large weights seldom share a group, so this costs less precision than seven bits for all.
    """
    scales = np.maximum(np.abs(matrix).max(0) / 127, group_sums(matrix, quads) / GROUP_LIMIT)
    scales = np.maximum(scales, 1e-12).astype(np.float32)
    while True:
        quantized = np.round(matrix / scales)
        sums = group_sums(quantized, quads)
        if (sums <= GROUP_LIMIT).all():
            return quantized.astype(np.int8), scales
        # Rounding has made some sums larger.
        scales = np.where(sums > GROUP_LIMIT, scales * (sums / GROUP_LIMIT * 1.001), scales).astype(np.float32)


def group_sums(matrix: Array, quads: int) -> Array:
    """For each column the greatest sum of the positive, or of the negative, weights in a group.

    Of `quads` quads of rows, the first two rows of each form one group, the last two another.
    """
    depth, columns = matrix.shape
    whole = np.pad(matrix, ((0, -depth % (4 * quads)), (0, 0)))
    groups = whole.reshape(-1, quads, 2, 2, columns)
    kind = np.int16 if matrix.dtype == np.int8 else matrix.dtype
    positive = np.maximum(groups, 0).sum((1, 3), kind).max((0, 1))
    negative = np.minimum(groups, 0).sum((1, 3), kind).min((0, 1))
    return np.asarray(np.maximum(positive, -negative))
