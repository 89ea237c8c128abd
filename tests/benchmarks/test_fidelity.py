"""The measures of fidelity, on the tiny model and on clips made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import corpus, engine_cpu, fidelity, listening
from kokoro_server.engine import vocab
from tests import tiny_model
from tests.engine.rows import random_row


def test_the_corpus_is_1000_different_sentences_that_the_model_can_say() -> None:
    sentences = corpus.sentences()
    assert len({sentence["text"] for sentence in sentences}) == len(sentences) == 1000
    assert not any(vocab.unknown(sentence["phonemes"]) for sentence in sentences)
    assert len({*fidelity.spread(240)}) == 240


def test_an_engine_is_nearer_to_itself_than_to_its_other_noise() -> None:
    speak = fidelity.one_by_one(tiny_model.torch_engine())
    rows = [random_row(seed, 12) for seed in range(3)]
    spoken = speak(rows)
    same = fidelity.nearness(fidelity.sound(spoken), fidelity.sound(speak(rows)))
    assert same["log_mel_db"] | {"sentences": 0} == dict.fromkeys(same["log_mel_db"], 0)
    assert same["level_db"] == {"mean": 0, "most": 0}
    again = speak([replace(row, seed=row.seed + 10) for row in rows])
    assert fidelity.nearness(fidelity.sound(spoken), fidelity.sound(again))["log_mel_db"]["least"] > 0
    lengths = [result.durations for result in spoken]
    assert fidelity.durations(lengths, lengths)["durations_moved"] == 0


def test_what_differs_is_counted() -> None:
    clip = np.full(4800, 0.5, np.float32)
    found = fidelity.nearness([clip, clip], [clip / 2, np.full(5400, 0.5, np.float32)])
    assert found["level_db"]["most"] == pytest.approx(6.02, abs=0.01)
    assert found["of_other_length"] == 1
    one, other = np.array([2, 3, 3]), np.array([2, 4, 3])
    moved = fidelity.durations([one, one], [one, other])
    assert moved == {"sentences": 2, "sentences_moved": 1, "durations": 6, "durations_moved": 1}


def test_clips_survive_their_file(tmp_path: Path) -> None:
    clips = [np.sin(np.arange(100 * (i + 1), dtype=np.float32)) for i in range(3)]
    listening.keep(tmp_path / "clips" / "a.npz", clips)
    for one, other in zip(clips, listening.kept(tmp_path / "clips" / "a.npz"), strict=True):
        assert np.abs(one - other).max() < 1e-4


def test_clips_that_are_kept_are_not_made_again(tmp_path: Path) -> None:
    clips = [np.zeros(10, np.float32)]
    made = [len(listening.once(tmp_path / "a.npz", lambda: clips * count)) for count in (2, 5)]  # noqa: B023
    assert made == [2, 2]


def test_bars_are_held_against_what_was_measured() -> None:
    found = engine_cpu.ratios({"ours-onnx-int8": 2.4, "public-int8": 0.6, "kmodel": 0.9})
    assert found["ours-onnx-int8 / public-int8"] == {"ratio": 4.0, "bar": 3.0, "met": True}
    assert found["ours-onnx-int8 / kmodel"]["met"] is False
    assert "ours-onnx-fp32 / public-fp32" not in found
