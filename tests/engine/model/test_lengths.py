"""Lengths that only the device knows, which graphs are recorded with, give what lengths that the host knows give."""

from __future__ import annotations

import pytest
import torch

from kokoro_server.engine.model.kokoro import BatchedKokoro
from kokoro_server.engine.model.lengths import DeviceSpan, Place, Span, lengths
from kokoro_server.engine.model.torch_ops import Plain
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME
from tests import tiny_model
from tests.engine import kmodel
from tests.engine.rows import random_row

CPU = torch.device("cpu")


@pytest.fixture
def place() -> Place:
    return Place(CPU, torch.float64, Plain())


def test_a_device_span_scales_and_clears_like_a_span(place: Place) -> None:
    host = Span((5, 2, 1), 5, place).scaled(2, 1).scaled(3)
    device = DeviceSpan(torch.tensor([5, 2, 1]), 5, place).scaled(2, 1).scaled(3)
    assert device.size == host.size
    assert device.lengths.tolist() == list(host.counts)
    x = torch.randn(3, host.size, 4, dtype=torch.float64)
    x[1, -1] = torch.nan  # what was never computed
    assert torch.equal(host.clear(x.clone()), device.clear(x.clone()))
    kept = torch.nan_to_num(x)
    assert torch.equal(host.mean(kept), device.mean(kept))


def test_lengths_for_a_kernel(place: Place) -> None:
    origin = torch.tensor([5, 2])
    assert lengths(DeviceSpan(origin, 5, place).scaled(20, 1)) == (origin, 20, 1)
    known, factor, extra = lengths(Span((5, 2), 5, place).scaled(20, 1))
    assert (known * factor + extra).tolist() == [101, 41]


@torch.inference_mode()
def test_the_model_says_the_same_with_room_to_spare_and_lengths_on_the_device() -> None:
    model = BatchedKokoro(tiny_model.build().double(), CPU, torch.float64, torch.float64)
    rows = [random_row(1, 12), random_row(2, 3), random_row(3, 7)]
    batch = kmodel.batch(rows)
    plan = model.plan(batch)
    noise = torch.randn(3, plan.span.size * SAMPLES_PER_FRAME, dtype=torch.float64)
    expected = model.audio(plan, model.curves(plan), noise)

    more_tokens, more_frames = 5, 9
    tokens = torch.nn.functional.pad(batch.tokens, (0, more_tokens))
    span = DeviceSpan(torch.tensor(batch.counts), tokens.shape[1], model.exact)
    style = batch.style.double()
    reading = model.read(tokens, style, batch.speed, span)
    frames = DeviceSpan(reading.durations.sum(1), plan.span.size + more_frames, model.exact)
    roomy = reading.aligned(style, frames)
    padded = torch.nn.functional.pad(noise, (0, more_frames * SAMPLES_PER_FRAME))
    actual = model.audio(roomy, model.curves(roomy), padded)

    assert torch.equal(reading.durations[:, :-more_tokens], plan.durations)
    for row, count in enumerate(plan.span.counts):
        end = count * SAMPLES_PER_FRAME
        assert kmodel.snr(expected[row, :end], actual[row, :end]) > 120
