"""The graphs for a CPU with the real weights: in 8 bits they sound as they do in single precision."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kokoro_server.assets.library import Assets
from kokoro_server.config.settings import CpuPrecision, Settings
from kokoro_server.engine.cpu import build, build_cache, decode
from kokoro_server.engine.cpu.engine import OnnxEngine
from kokoro_server.engine.cpu.fused.stage import Convolution
from kokoro_server.engine.cpu.fused.weights import CONVOLUTIONS
from kokoro_server.engine.cpu.instructions import instructions
from kokoro_server.engine.cpu.moments import MomentPredictor
from kokoro_server.engine.cpu.numerics import Moments, Signal
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Row
from kokoro_server.observability import conditions as degraded
from kokoro_server.runtime.event_loop import trim
from kokoro_server.voices import VoiceBook
from tests.engine.kmodel import log_mel, log_mel_distance
from tests.engine.rows import SENTENCES, sentence_row
from tests.memory import anonymous_memory

pytestmark = pytest.mark.real

BY_LENGTH = sorted(range(len(SENTENCES)), key=lambda index: len(SENTENCES[index]["phonemes"]))
SHORT, ORDINARY = BY_LENGTH[2], BY_LENGTH[len(SENTENCES) // 2]


def built(assets: Assets, folder: Path, precision: CpuPrecision) -> OnnxEngine:
    folder.mkdir()
    build.build(assets.weights, folder, precision)
    return OnnxEngine(folder)


@pytest.mark.slow
def test_int8_is_nearer_to_single_precision_than_another_noise_is(assets: Assets, tmp_path: Path) -> None:
    exact, quantized = (built(assets, tmp_path / precision, precision) for precision in ("fp32", "int8"))
    assert (exact.precision, quantized.precision) == ("fp32", "int8")
    row = sentence_row(SHORT, VoiceBook(assets.voices), "bf_emma")
    plain, other = exact.synthesize([row, replace(row, seed=row.seed + 1000)])
    ours = quantized.synthesize([row])[0]
    assert ours.durations.tolist() == plain.durations.tolist()
    assert log_mel_distance(plain.audio, ours.audio) < log_mel_distance(plain.audio, other.audio)
    assert 20 * np.log10(ours.audio.std() / plain.audio.std()) == pytest.approx(0, abs=0.2)

    shortest = Row((50,), row.style, speed=4.0)
    spoken = quantized.synthesize([shortest])[0]
    assert len(spoken.audio) == spoken.durations.sum() * SAMPLES_PER_FRAME
    assert np.isfinite(spoken.audio).all()


@pytest.fixture(scope="module")
def fused(assets: Assets) -> OnnxEngine:
    """On the kernels, at the speed of two slow cores."""
    if not instructions().has_kernels:
        pytest.skip("no kernels for this processor")
    wanted = build_cache.key(assets.digest, "int8")
    engine = OnnxEngine(build_cache.ensure(Settings.load(dotenv=None).cache_dir, assets.weights, wanted))
    engine.real_time_factor = 0.35
    return engine


def spoken_early(engine: OnnxEngine, row: Row) -> tuple[list[np.ndarray], np.ndarray]:
    beginnings: list[np.ndarray] = []
    result = engine.synthesize_early(row, lambda beginning: beginnings.append(beginning.audio.copy()))
    assert len(result.audio) == result.durations.sum() * SAMPLES_PER_FRAME
    return beginnings, result.audio


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(log_mel(one) - log_mel(other)).mean())


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells what is held")
def test_the_memory_of_a_row_is_given_back(fused: OnnxEngine, assets: Assets) -> None:
    short, longest = (sentence_row(index, VoiceBook(assets.voices), "af_heart") for index in (SHORT, BY_LENGTH[-1]))
    fused.synthesize([short])
    trim()
    before = anonymous_memory()
    fused.synthesize([longest])
    trim()
    assert anonymous_memory() - before < 30_000_000


@pytest.mark.parametrize("voice", ["af_heart", "am_michael"])
def test_a_row_begins_early_and_sounds_like_the_whole(fused: OnnxEngine, assets: Assets, voice: str) -> None:
    row = sentence_row(ORDINARY, VoiceBook(assets.voices), voice)
    [whole], [other] = fused.synthesize([row]), fused.synthesize([replace(row, seed=row.seed + 1000)])
    beginnings, audio = spoken_early(fused, row)
    assert [len(each) for each in beginnings] == sorted({len(each) for each in beginnings})
    assert len(beginnings) == 2
    assert len(beginnings[0]) < len(audio) / 3
    assert all(np.array_equal(audio[: len(each)], each) for each in beginnings)
    goes_on = len(beginnings[-1]) + decode.SEAM
    assert np.array_equal(audio[goes_on:], whole.audio[goes_on:])
    speech = int(whole.durations[0]) * SAMPLES_PER_FRAME
    assert distance(whole.audio[speech:], audio[speech:]) < distance(whole.audio[speech:], other.audio[speech:])
    again, _ = spoken_early(fused, row)
    assert all(map(np.array_equal, again, beginnings))


def test_with_the_true_moments_the_beginning_is_that_of_the_whole(
    fused: OnnxEngine, assets: Assets, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = sentence_row(ORDINARY, VoiceBook(assets.voices), "af_heart")
    seen: list[Moments] = []
    convolve = Convolution.__call__

    def recorded(self: Convolution, x: Signal, before: Moments, *rest: Any) -> Moments:
        seen.append(before)
        return convolve(self, x, before, *rest)

    with monkeypatch.context() as watching:
        watching.setattr(Convolution, "__call__", recorded)
        [whole] = fused.synthesize([row])
    blocks = [seen[at : at + len(CONVOLUTIONS)] for at in range(0, len(seen), len(CONVOLUTIONS))]
    monkeypatch.setattr(MomentPredictor, "__call__", lambda *_: (blocks[:4], blocks[4:]))
    beginnings, _ = spoken_early(fused, row)
    speech = slice(int(whole.durations[0]) * SAMPLES_PER_FRAME, len(beginnings[-1]))
    difference = beginnings[-1][speech] - whole.audio[speech]
    # Blocks of other lengths round to other bytes, which is all that differs.
    assert 10 * np.log10(np.square(whole.audio[speech]).sum() / np.square(difference).sum()) > 15


def test_kernels_and_graphs_speak_alike(assets: Assets, tmp_path: Path) -> None:
    if not instructions().has_kernels:
        pytest.skip("no kernels for this processor")
    wanted = build_cache.key(assets.digest, "int8")
    cached = build_cache.ensure(Settings.load(dotenv=None).cache_dir, assets.weights, wanted)
    without_kernels = shutil.ignore_patterns("kernels")  # they are to be compiled here
    shutil.copytree(cached, tmp_path / "int8", ignore=without_kernels)
    fused = OnnxEngine(tmp_path / "int8")
    graphs = OnnxEngine(tmp_path / "int8", use_kernels=False)
    assert (fused.kernels, graphs.kernels) == (instructions().value, "onnxruntime")
    assert not degraded.current(fused.conditions)
    row = sentence_row(SHORT, VoiceBook(assets.voices), "bf_emma")
    [ours], [theirs], [other] = (
        engine.synthesize([each])
        for engine, each in ((fused, row), (graphs, row), (graphs, replace(row, seed=row.seed + 1000)))
    )
    assert log_mel_distance(theirs.audio, ours.audio) < log_mel_distance(theirs.audio, other.audio)
    again = OnnxEngine(tmp_path / "int8")  # with the kernels that were compiled and kept
    assert np.array_equal(again.synthesize([row])[0].audio, ours.audio)
    assert list((tmp_path / "int8" / "kernels").rglob("*.nbi"))
