"""The batched engine with the real weights against `kokoro.KModel`, one sentence at a time.

Samples are compared with KModel's F0 given to both. End to end they are the wrong thing to compare: the source sums F0
into phase over the whole utterance, so a rounding error of 1e-6 in F0, or in the sum (which KModel keeps in single
precision), shifts every harmonic a little by the end, as far from KModel in double precision as ours is from it. The
ear does not hear such a shift; the spectrum does not show it. End to end the log-mel spectrum is compared, and the
yardstick is the distance between two runs of KModel itself that differ in their noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kokoro_server.assets.library import Assets
from kokoro_server.audio.join import speech_bounds
from kokoro_server.engine import devices
from kokoro_server.engine.model import reference
from kokoro_server.engine.model.kokoro import BatchedKokoro, Prosody
from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME, Engine, Result, Row
from kokoro_server.engine.torch_engine import TorchEngine
from kokoro_server.voices import VoiceBook
from tests.engine import kmodel
from tests.engine.kmodel import Spoken
from tests.engine.rows import SENTENCES, VOICES, bounded, sentence_row

pytestmark = pytest.mark.real

SIZES = (1, 2, 3, 8)
SHORT = sorted(range(len(SENTENCES)), key=lambda index: len(SENTENCES[index]["phonemes"]))[:8]


@pytest.fixture(scope="module")
def plain(assets: Assets) -> Any:
    return reference.load(assets.weights)


@pytest.fixture(scope="module")
def engine(assets: Assets) -> TorchEngine:
    return devices.load_all(assets.weights, ["cpu"])[0]


@pytest.fixture(scope="module")
def single(plain: Any) -> BatchedKokoro:
    """The phase summed in single precision, as KModel does: with the same F0, nothing else can differ then."""
    return BatchedKokoro(plain, torch.device("cpu"), phase_dtype=torch.float32)


@pytest.fixture(scope="module")
def voices(assets: Assets) -> VoiceBook:
    return VoiceBook(assets.voices)


@pytest.fixture(scope="module")
def predicted(plain: Any, voices: VoiceBook) -> list[tuple[Row, Spoken]]:
    """KModel's durations and curves for every sentence, voices going round."""
    return predictions(plain, voices, range(len(SENTENCES)))


@pytest.fixture(scope="module")
def some_predicted(plain: Any, voices: VoiceBook) -> list[tuple[Row, Spoken]]:
    """For every tenth sentence, in the order of their lengths."""
    order = sorted(range(len(SENTENCES)), key=lambda index: len(SENTENCES[index]["phonemes"]))
    return predictions(plain, voices, order[::10])


def predictions(plain: Any, voices: VoiceBook, indices: Iterable[int]) -> list[tuple[Row, Spoken]]:
    rows = [sentence_row(index, voices) for index in indices]
    return [(row, kmodel.speak(plain, row, sound=False)) for row in rows]


@pytest.fixture(scope="module")
def spoken(plain: Any, voices: VoiceBook) -> list[tuple[Row, Spoken]]:
    """KModel's audio for some of the shortest sentences, each in another voice."""
    return all_spoken(plain, voices, 4)


@pytest.fixture(scope="module")
def eight_spoken(plain: Any, voices: VoiceBook) -> list[tuple[Row, Spoken]]:
    return all_spoken(plain, voices, 8)


def all_spoken(plain: Any, voices: VoiceBook, count: int) -> list[tuple[Row, Spoken]]:
    rows = [sentence_row(index, voices, voice) for index, voice in zip(SHORT, VOICES, strict=True)][:count]
    return [(row, kmodel.speak(plain, row)) for row in rows]


@pytest.fixture(scope="module")
def crowd(real_engine: Engine, spoken: list[tuple[Row, Spoken]]) -> list[Result]:
    """The results of all rows in one call."""
    return real_engine.synthesize([row for row, _ in spoken])


def relative(expected: torch.Tensor, actual: torch.Tensor) -> float:
    return ((expected - actual).abs().max() / expected.abs().max()).item()


@torch.inference_mode()
def assert_predicts(model: BatchedKokoro, rows: list[tuple[Row, Spoken]]) -> None:
    features = model.align(kmodel.batch([row for row, _ in rows]))
    prosody = model.prosody(features)
    for index, (row, alone) in enumerate(rows):
        assert features.durations[index, : len(row.tokens) + 2].tolist() == alone.durations.tolist()
        assert relative(alone.f0, prosody.f0[index, : len(alone.f0)]) < 1e-3
        assert relative(alone.energy, prosody.energy[index, : len(alone.f0)]) < 1e-3


def assert_predicts_in_random_batches(model: BatchedKokoro, rows: list[tuple[Row, Spoken]], seed: int) -> None:
    """Every row once, in batches of 8, 3, 2 and 1 by turns."""
    order = iter(np.random.default_rng(seed).permutation(len(rows)))
    for size in cycle(reversed(SIZES)):
        if not (chosen := [rows[index] for index in islice(order, size)]):
            break
        assert_predicts(model, chosen)


def test_durations_f0_and_energy_are_kmodels_in_random_batches(
    engine: TorchEngine, some_predicted: list[tuple[Row, Spoken]]
) -> None:
    assert_predicts_in_random_batches(engine.model, some_predicted, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_durations_f0_and_energy_of_every_sentence_are_kmodels_in_random_batches(
    seed: int, engine: TorchEngine, predicted: list[tuple[Row, Spoken]]
) -> None:
    assert_predicts_in_random_batches(engine.model, predicted, seed)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_durations_f0_and_energy_are_kmodels_for_every_sentence_in_batches_of(
    size: int, engine: TorchEngine, predicted: list[tuple[Row, Spoken]]
) -> None:
    order = np.random.default_rng(size).permutation(len(predicted))
    for start in range(0, len(order), size):
        assert_predicts(engine.model, [predicted[index] for index in order[start : start + size]])


@pytest.mark.slow
@given(data=st.data())
@bounded(20)
def test_durations_f0_and_energy_are_kmodels_in_any_batch_of_any_voice(
    data: st.DataObject, engine: TorchEngine, plain: Any, voices: VoiceBook
) -> None:
    pairs = st.tuples(st.integers(0, len(SENTENCES) - 1), st.sampled_from(voices.names()))
    chosen = data.draw(st.lists(pairs, min_size=1, max_size=max(SIZES)))
    rows = [sentence_row(index, voices, voice) for index, voice in chosen]
    assert_predicts(engine.model, [(row, kmodel.speak(plain, row, sound=False)) for row in rows])


@pytest.mark.parametrize("size", [1, 3])
def test_with_kmodels_f0_the_samples_are_kmodels_in_batches_of(
    size: int, single: BatchedKokoro, spoken: list[tuple[Row, Spoken]]
) -> None:
    assert_sounds_alike(single, spoken[:size])


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 8])
def test_with_kmodels_f0_the_samples_are_kmodels_in_batches_of_more(
    size: int, single: BatchedKokoro, eight_spoken: list[tuple[Row, Spoken]]
) -> None:
    assert_sounds_alike(single, eight_spoken[:size])


@torch.inference_mode()
def assert_sounds_alike(single: BatchedKokoro, chosen: list[tuple[Row, Spoken]]) -> None:
    features = single.align(kmodel.batch([row for row, _ in chosen]))
    own = single.prosody(features)
    prosody = Prosody(kmodel.padded([alone.f0 for _, alone in chosen]), own.energy)
    frames = zip(chosen, features.lengths.counts, strict=True)
    noise = kmodel.padded([kmodel.noise(row.seed, count) for (row, _), count in frames])
    audio = single.audio(features, prosody, noise)
    for index, (_, alone) in enumerate(chosen):
        assert kmodel.snr(alone.audio, audio[index, : len(alone.audio)]) > 60


@pytest.mark.slow
def test_end_to_end_it_is_far_nearer_to_kmodel_than_another_noise_is(
    engine: TorchEngine, plain: Any, spoken: list[tuple[Row, Spoken]]
) -> None:
    chosen = spoken[1:3]
    with torch.inference_mode():
        features = engine.model.align(kmodel.batch([row for row, _ in chosen]))
        frames = zip(chosen, features.lengths.counts, strict=True)
        noise = kmodel.padded([kmodel.noise(row.seed, count) for (row, _), count in frames])
        audio = engine.model.audio(features, engine.model.prosody(features), noise)
    for index, (row, alone) in enumerate(chosen):
        other = kmodel.speak(plain, replace(row, seed=row.seed + 1000))
        apart = kmodel.log_mel_distance(alone.audio, other.audio)
        assert kmodel.log_mel_distance(alone.audio, audio[index, : len(alone.audio)]) < apart / 5


def test_durations_are_kmodels_on_every_backend(crowd: list[Result], spoken: list[tuple[Row, Spoken]]) -> None:
    for (_, alone), result in zip(spoken, crowd, strict=True):
        assert result.durations.tolist() == alone.durations.tolist()
        assert len(result.audio) == len(alone.audio)


def test_alone_or_in_a_crowd_a_row_sounds_the_same(
    real_engine: Engine, crowd: list[Result], spoken: list[tuple[Row, Spoken]]
) -> None:
    rows = [row for row, _ in spoken]
    in_a_crowd = crowd[1]
    for again in (real_engine.synthesize([rows[1]])[0], real_engine.synthesize([rows[1], rows[0]])[0]):
        assert again.durations.tolist() == in_a_crowd.durations.tolist()
        assert kmodel.snr(in_a_crowd.audio, again.audio) > 80


def test_it_is_as_loud_as_kmodel(crowd: list[Result], spoken: list[tuple[Row, Spoken]]) -> None:
    assert 20 * np.log10(crowd[1].audio.std() / spoken[1][1].audio.std().item()) == pytest.approx(0, abs=0.5)


def test_rounding_does_not_move_the_cuts_of_real_speech(crowd: list[Result]) -> None:
    random = np.random.default_rng(20)
    for result in crowd:
        exact = speech_bounds(result.audio)
        for _ in range(10):
            rounded = result.audio * (1 + 0.01 * random.standard_normal(len(result.audio)))
            assert speech_bounds(rounded.astype(np.float32)) == exact


def test_an_octave_up_doubles_the_pitch_that_is_heard(real_engine: Engine, voices: VoiceBook) -> None:
    row = sentence_row(SHORT[3], voices, "am_michael")
    plain, high = real_engine.synthesize([row, replace(row, pitch=12.0)])
    assert high.durations.tolist() == plain.durations.tolist()
    assert len(high.audio) == len(plain.audio)
    assert heard_pitch(high.audio) / heard_pitch(plain.audio) == pytest.approx(2.0, rel=0.05)


def heard_pitch(audio: NDArray[np.float32]) -> float:
    """The median F0 of the voiced stretches, by autocorrelation."""
    window, hop = 1200, SAMPLES_PER_FRAME
    shortest, longest = SAMPLE_RATE // 420, SAMPLE_RATE // 60
    found = []
    for start in range(0, len(audio) - window - longest, hop):
        frame = audio[start : start + window].astype(np.float64)
        after = audio[start : start + window + longest].astype(np.float64)
        energy = np.convolve(after**2, np.ones(window), "valid")
        match = np.correlate(after, frame, "valid") / np.sqrt(energy * energy[0] + 1e-12)
        peaks = [
            lag
            for lag in range(shortest, longest)
            if match[lag] >= max(match[lag - 1], match[lag + 1]) and match[lag] > 0.85
        ]
        if peaks and frame.std() > 0.3 * audio.std():
            best = max(match[lag] for lag in peaks)
            found.append(SAMPLE_RATE / next(lag for lag in peaks if match[lag] > 0.95 * best))
    return float(np.median(found))
