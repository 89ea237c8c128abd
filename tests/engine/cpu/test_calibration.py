"""The calibration table: measured on the tiny model, and the one in the package."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.calibration import VOICES
from kokoro_server.assets import files
from kokoro_server.engine.cpu import calibration, quantization
from tests import tiny_model
from tests.engine.rows import random_row

SENTENCES = Path(__file__).parents[2] / "data" / "sentences.json"


def test_it_measures_every_channel_before_the_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization, "MIN_CHANNELS", 4)
    state = {name: tensor.numpy() for name, tensor in tiny_model.build().state_dict().items()}
    rows = [random_row(seed, 30) for seed in range(2)]
    table = calibration.measure(tiny_model.templates(), state, rows)
    assert {"decoder.decode.0.conv1", "decoder.generator.resblocks.3.convs1.0"} <= set(table)
    assert not [name for name in table if name.endswith("conv1x1") or name.startswith("predictor.")]
    for name, amax in table.items():
        weights = state.get(f"{name}.weight_v", state.get(f"{name}.weight"))
        assert weights is not None
        assert amax.shape == (weights.shape[0 if ".ups." in name else 1],)  # a transposed one has (in, out, taps)
        assert (amax > 0).all()
    first, second = (calibration.measure(tiny_model.templates(), state, [row]) for row in rows)
    assert all(np.array_equal(table[name], np.maximum(first[name], second[name])) for name in table)


def test_the_table_in_the_package_says_what_it_was_measured_with() -> None:
    table = quantization.channel_amax()
    assert quantization.PROVENANCE not in table
    assert all(name.startswith("decoder.") and amax.dtype == np.float32 for name, amax in table.items())
    with np.load(quantization.CHANNEL_AMAX) as entries:
        provenance = json.loads(str(entries[quantization.PROVENANCE]))
    assert provenance["sentences"] == files.sha256(SENTENCES)
    assert set(provenance["voices"]) == set(VOICES)
    assert len(provenance["weights"]) == 64
