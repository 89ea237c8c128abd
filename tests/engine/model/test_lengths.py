"""Lengths that only the device knows, which graphs are captured with, give what lengths that the host knows give."""

from __future__ import annotations

import pytest
import torch

from kokoro_server.engine.model.kokoro import BatchedKokoro
from kokoro_server.engine.model.lengths import DeviceLengths, Lengths, Placement, kernel_args
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME
from tests import tiny_model
from tests.engine import kmodel
from tests.engine.rows import random_row

CPU = torch.device("cpu")


@pytest.fixture
def placement() -> Placement:
    return Placement(CPU, torch.float64)


def test_device_lengths_scale_and_mask_like_lengths(placement: Placement) -> None:
    host = Lengths((5, 2, 1), 5, placement).scaled(2, 1).scaled(3)
    device = DeviceLengths(torch.tensor([5, 2, 1]), 5, placement).scaled(2, 1).scaled(3)
    assert device.size == host.size
    assert device.on_device.tolist() == list(host.counts)
    x = torch.randn(3, host.size, 4, dtype=torch.float64)
    x[1, -1] = torch.nan  # what was never computed
    assert torch.equal(host.mask_(x.clone()), device.mask_(x.clone()))
    kept = torch.nan_to_num(x)
    assert torch.equal(host.mean(kept), device.mean(kept))


def test_lengths_for_a_kernel(placement: Placement) -> None:
    origin = torch.tensor([5, 2])
    assert kernel_args(DeviceLengths(origin, 5, placement).scaled(20, 1)) == (origin, 20, 1)
    known, factor, extra = kernel_args(Lengths((5, 2), 5, placement).scaled(20, 1))
    assert (known * factor + extra).tolist() == [101, 41]


@torch.inference_mode()
def test_the_model_says_the_same_with_room_to_spare_and_lengths_on_the_device() -> None:
    model = BatchedKokoro(tiny_model.build().double(), CPU, torch.float64, torch.float64)
    rows = [random_row(1, 12), random_row(2, 3), random_row(3, 7)]
    batch = kmodel.batch(rows)
    features = model.align(batch)
    noise = torch.randn(3, features.lengths.size * SAMPLES_PER_FRAME, dtype=torch.float64)
    expected = model.audio(features, model.prosody(features), noise)

    more_tokens, more_frames = 5, 9
    tokens = torch.nn.functional.pad(batch.tokens, (0, more_tokens))
    lengths = DeviceLengths(torch.tensor(batch.counts), tokens.shape[1], model.predictor_placement)
    style = batch.style.double()
    text = model.encode(tokens, style, batch.speed, lengths)
    frames = DeviceLengths(text.durations.sum(1), features.lengths.size + more_frames, model.predictor_placement)
    roomy = text.aligned(style, frames)
    padded = torch.nn.functional.pad(noise, (0, more_frames * SAMPLES_PER_FRAME))
    actual = model.audio(roomy, model.prosody(roomy), padded)

    assert torch.equal(text.durations[:, :-more_tokens], features.durations)
    for row, count in enumerate(features.lengths.counts):
        end = count * SAMPLES_PER_FRAME
        assert kmodel.snr(expected[row, :end], actual[row, :end]) > 120
