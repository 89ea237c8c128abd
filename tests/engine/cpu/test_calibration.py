"""The calibration table: measured on the tiny model, and the one in the package."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.calibration import VOICES
from kokoro_server.assets import files
from kokoro_server.engine import vocab
from kokoro_server.engine.cpu import build, calibration, quantization
from kokoro_server.engine.protocol import STYLE_DIM
from tests import tiny_model
from tests.engine.rows import random_row

STYLES = list((0.15 * np.random.default_rng(0).standard_normal((6, STYLE_DIM))).astype(np.float32))
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


def test_a_slow_machine_measures_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization, "MIN_CHANNELS", 4)
    state = {name: tensor.numpy() for name, tensor in tiny_model.build().state_dict().items()}
    rows = calibration.rows_of(vocab.ids(), STYLES, 20)
    ticks = iter(range(100))
    cut, few, every = (
        calibration.measure(tiny_model.templates(), state, some, patience, lambda: 1.0 * next(ticks))
        for some, patience in ((rows, 0.5), (rows[: calibration.LEAST_ROWS], np.inf), (rows, np.inf))
    )
    assert all(np.array_equal(cut[name], few[name]) for name in few)
    assert not all(np.array_equal(cut[name], every[name]) for name in every)


def test_rows_are_phonemes_of_the_model_with_spaces_between_words() -> None:
    vocabulary = {" ": 7, ".": 3, "x": 2, "ʃ": 9}
    rows = calibration.rows_of(vocabulary, STYLES, 40)
    assert {number for row in rows for number in row.tokens} == {7, 2, 9}
    assert [row.tokens for row in rows] == [row.tokens for row in calibration.rows_of(vocabulary, STYLES, 40)]
    assert len({row.tokens for row in rows}) == len(rows) == len(STYLES)


def test_a_build_of_other_weights_takes_the_table_of_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "templates", tiny_model.templates)
    taken = list[object]()
    monkeypatch.setattr(build, "assemble", lambda *arguments: taken.extend(arguments))
    monkeypatch.setattr(calibration, "measure", lambda _templates, _state, rows, _patience: {"measured": rows})
    rows, steps = calibration.rows_of(vocab.ids(), STYLES[:2], 20), list[str]()
    calibration.build_calibrated(rows, tiny_model.weights(), tmp_path, "int8", steps.append)
    assert steps == ["reading weights", "calibrating"]
    assert taken[2:5] == [tmp_path, "int8", {"measured": rows}]
    assert calibration.digest("a") != calibration.digest("b")


def test_the_table_in_the_package_says_what_it_was_measured_with() -> None:
    table = quantization.channel_amax()
    assert quantization.PROVENANCE not in table
    assert all(name.startswith("decoder.") and amax.dtype == np.float32 for name, amax in table.items())
    with np.load(quantization.CHANNEL_AMAX) as entries:
        provenance = json.loads(str(entries[quantization.PROVENANCE]))
    assert provenance["sentences"] == files.sha256(SENTENCES)
    assert set(provenance["voices"]) == set(VOICES)
    assert len(provenance["weights"]) == 64
