"""The batched forward pass against `kokoro.KModel`, both at tiny size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kokoro_server.engine.model.kokoro import BatchedKokoro
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Row
from tests import tiny_model
from tests.engine import kmodel
from tests.engine.rows import bounded, random_row, random_rows

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def reference() -> Any:
    return tiny_model.build().double()


@pytest.fixture(scope="module")
def model(reference: Any) -> BatchedKokoro:
    return BatchedKokoro(reference, CPU, torch.float64, torch.float64)


@torch.inference_mode()
def assert_same(reference: Any, model: BatchedKokoro, rows: list[Row]) -> None:
    features = model.align(kmodel.batch(rows))
    prosody = model.prosody(features)
    noise = kmodel.padded(
        [kmodel.noise(row.seed, count) for row, count in zip(rows, features.lengths.counts, strict=True)]
    )
    audio = model.audio(features, prosody, noise)
    for index, row in enumerate(rows):
        with kmodel.double_precision():
            alone = kmodel.speak(reference, row)
        steps, samples = len(alone.f0), len(alone.audio)
        assert features.durations[index, : len(row.tokens) + 2].tolist() == alone.durations.tolist()
        assert features.durations[index, len(row.tokens) + 2 :].sum() == 0
        torch.testing.assert_close(prosody.f0[index, :steps], alone.f0, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(prosody.energy[index, :steps], alone.energy, rtol=1e-9, atol=1e-9)
        assert samples == features.lengths.counts[index] * SAMPLES_PER_FRAME
        assert kmodel.snr(alone.audio, audio[index, :samples]) > 120


@given(st.lists(random_rows(), min_size=1, max_size=5))
@bounded(8)
def test_in_double_precision_every_row_of_any_batch_is_what_kmodel_makes_of_it_alone(
    reference: Any, model: BatchedKokoro, rows: list[Row]
) -> None:
    assert_same(reference, model, rows)


def test_a_single_phoneme_beside_a_long_row(reference: Any, model: BatchedKokoro) -> None:
    assert_same(reference, model, [random_row(1, 1, speed=4.0), random_row(2, 90), random_row(3, 2)])


@torch.inference_mode()
def test_one_noise_channel_is_as_loud_as_nine(model: BatchedKokoro) -> None:
    source = model.decoder.generator.source
    unvoiced = torch.zeros(1, 400, dtype=torch.float64)
    nine = kmodel.noise(0, 200)[None].double()
    one = nine[..., 0]
    assert source(unvoiced, one).std().item() == pytest.approx(source(unvoiced, nine).std().item(), rel=0.02)


@torch.inference_mode()
def test_pitch_moves_voiced_f0_only(model: BatchedKokoro) -> None:
    features = model.align(kmodel.batch([random_row(seed, 60) for seed in range(3)]))
    prosody = model.prosody(features)
    voiced = model.voiced(prosody)
    assert 0.5 < voiced.double().mean() < 1
    up, same = (prosody.transposed(voiced, torch.full((3,), semitones)).f0 for semitones in (12.0, 0.0))
    assert torch.equal(same, prosody.f0)
    assert torch.equal(up[~voiced], prosody.f0[~voiced])
    assert torch.equal(up[voiced], prosody.f0[voiced] * 2)


@torch.inference_mode()
def test_what_lies_beyond_a_row_never_reaches_it(model: BatchedKokoro) -> None:
    features = model.align(kmodel.batch([random_row(1, 30), random_row(2, 9)]))
    prosody = model.prosody(features)
    noise = torch.zeros(2, features.lengths.size * SAMPLES_PER_FRAME, dtype=torch.float64)
    quiet = model.audio(features, prosody, noise)
    end = features.lengths.counts[1] * SAMPLES_PER_FRAME
    noise[1, end:] = 1e3
    loud = model.audio(features, prosody, noise)
    assert kmodel.snr(quiet[1, :end], loud[1, :end]) > 120
