"""Which convolutions int8 quantizes, and how their weights and the ranges of their inputs are chosen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kokoro_server.engine.cpu.numerics import Array

MIN_CHANNELS = 64  # in and out: a narrower convolution is not worth quantizing

# In the last blocks both ends of an utterance have peaks, two to three times as high as everything between them.
# Each end is quantized by itself: in one range with the ends, the rest would have two to three times fewer steps. The
# middle is cut into segments too, so that no moment is rounded more coarsely than its surroundings ask for.
SEGMENTED = tuple(f"decoder.generator.resblocks.{block}." for block in (3, 4, 5))
EDGE_STEPS = 240  # of each end: two frames
SEGMENTS = 6  # including both ends

# These convolutions are few of all products, but everything after depends on them: their input has two bytes.
TWO_BYTE = (
    "predictor.N.", "decoder.asr_res.", "decoder.encode.", *(f"decoder.decode.{block}.conv1x1" for block in range(4)),
    "decoder.generator.ups.1",
)  # fmt: skip

# SmoothQuant's migration strength: 1 favours the quantization of the signals, 0 that of the weights.
ALPHA = 0.7
TWO_BYTE_ALPHA = 0.4  # where signals have 16 bits


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

    It leaves out what decides durations and F0, and the last convolution, whose result is an exponent and a phase.
    """
    wide = w.shape[1] >= MIN_CHANNELS and w.shape[0] >= MIN_CHANNELS
    return wide and label.startswith(("decoder.", "predictor.N.")) and not label.endswith("conv_post")


def smoothquant_scales(channel_amax: Array, w: Array, alpha: float) -> Array:
    """What to divide each input channel by, and multiply its weights with, so that 8 bits serve both well."""
    weight = np.sqrt(np.square(w).mean((0, 2)))
    ratio = np.maximum(channel_amax, 1e-6) ** alpha / np.maximum(weight, 1e-9) ** (1 - alpha)
    return np.asarray(ratio / ratio.mean(), np.float32)


def tap_matrix(w: Array) -> Array:
    """The (outputs, channels, taps) weights of a convolution as (taps * channels, outputs)."""
    return w.transpose(2, 1, 0).reshape(w.shape[1] * w.shape[2], -1)


def quantize_weights(matrix: Array, signed: bool) -> tuple[Array, Array, Array | None]:
    """A matrix in 8 bits, with a scale and, where it is not `signed`, a zero point for each column."""
    if signed:
        scales = np.maximum(np.abs(matrix).max(0) / 127, 1e-12).astype(np.float32)
        return np.round(matrix / scales).astype(np.int8), scales, None
    low, high = np.minimum(matrix.min(0), 0), np.maximum(matrix.max(0), 0)
    scales = np.maximum((high - low) / 255, 1e-12).astype(np.float32)
    zero_points = np.round(-low / scales)
    quantized = np.clip(np.round(matrix / scales) + zero_points, 0, 255).astype(np.uint8)
    return quantized, scales, zero_points.astype(np.uint8)
