"""The engine at tiny size: what a caller may rely on, whatever the weights."""

from __future__ import annotations

import math
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kokoro_server.engine.protocol import MAX_TOKENS, SAMPLES_PER_FRAME, STYLE_DIM, Engine, Result, Row
from kokoro_server.engine.torch_engine import TorchEngine, pick_device
from kokoro_server.errors import ConfigError, InvalidInput
from tests.engine.kmodel import snr
from tests.engine.rows import bounded, longest_row, random_row, random_rows

STYLE = np.zeros(STYLE_DIM, np.float32)
SAME = 80.0  # dB; rounding leaves about 110


@pytest.fixture(scope="module")
def engine() -> TorchEngine:
    return TorchEngine.tiny()


def assert_same(one: Result, other: Result) -> None:
    assert one.durations.tolist() == other.durations.tolist()
    assert snr(one.audio, other.audio) > SAME


@given(st.lists(random_rows(), min_size=1, max_size=6), st.randoms(use_true_random=False))
@bounded(8)
def test_order_and_neighbours_do_not_matter(engine: TorchEngine, rows: list[Row], random: Random) -> None:
    together = engine.synthesize(rows)
    order = list(range(len(rows)))
    random.shuffle(order)
    shuffled = engine.synthesize([rows[index] for index in order])
    for place, index in enumerate(order):
        assert_same(together[index], shuffled[place])
    for row, result in zip(rows, together, strict=True):
        assert_same(engine.synthesize([row])[0], result)


def test_a_result_is_audio_and_durations_that_agree(engine: TorchEngine) -> None:
    for row, result in zip(rows := [random_row(1, 5), random_row(2, 40)], engine.synthesize(rows), strict=True):
        assert result.audio.dtype == np.float32
        assert len(result.durations) == len(row.tokens) + 2
        assert result.durations.min() >= 1
        assert len(result.audio) == result.durations.sum() * SAMPLES_PER_FRAME
        assert np.isfinite(result.audio).all()
        assert 0.005 < result.audio.std() < 0.3


def test_all_rows_go_through_the_decoder_at_once(engine: TorchEngine) -> None:
    with patch.object(engine.model, "decoder", wraps=engine.model.decoder) as decoder:
        engine.synthesize([random_row(seed, 5 + seed) for seed in range(4)])
    assert decoder.call_count == 1


def test_results_own_their_memory(engine: TorchEngine) -> None:
    short, _ = engine.synthesize([random_row(1, 2), random_row(2, 40)])
    assert short.audio.base is None
    assert short.durations.base is None


def test_the_seed_decides_the_noise(engine: TorchEngine) -> None:
    row = random_row(3, 12)
    again, other = (Row(row.tokens, row.style, seed=seed) for seed in (row.seed, row.seed + 1))
    first = engine.synthesize([row])[0]
    crowd = engine.synthesize([random_row(9, 30), other, again])
    assert_same(first, crowd[2])
    assert crowd[1].durations.tolist() == first.durations.tolist()
    assert snr(first.audio, crowd[1].audio) < 60


@pytest.mark.parametrize("seed", [-1, 2**64 - 1, 2**200])
def test_any_whole_number_is_a_seed(engine: TorchEngine, seed: int) -> None:
    assert len(engine.synthesize([Row((50, 60), STYLE, seed=seed)])[0].audio)


def test_every_row_has_its_own_speed_and_pitch(engine: TorchEngine) -> None:
    row = random_row(4, 30)
    slow, plain, fast, high = engine.synthesize(
        [Row(row.tokens, row.style, speed, pitch) for speed, pitch in ((0.5, 0), (1, 0), (2, 0), (1, 12))]
    )
    assert len(slow.audio) > 1.6 * len(plain.audio) > 2.2 * len(fast.audio)
    assert high.durations.tolist() == plain.durations.tolist()
    assert snr(plain.audio, high.audio) < 10


def test_pitch_0_is_the_identity(engine: TorchEngine) -> None:
    rows = [random_row(5, 20), random_row(6, 8)]
    moved = Row(rows[0].tokens, rows[0].style, pitch=3.0)
    untouched, _ = engine.synthesize(rows)
    beside_a_moved_row, _ = engine.synthesize([rows[0], moved])
    assert_same(untouched, beside_a_moved_row)


def test_a_row_with_nothing_to_say_is_silent_and_costs_nothing(engine: TorchEngine) -> None:
    row = random_row(7, 6)
    before, empty, after = engine.synthesize([row, Row((), STYLE), row])
    assert empty.audio.shape == (0,)
    assert empty.durations.tolist() == [0, 0]
    assert_same(before, after)
    with patch.object(engine.model, "plan", side_effect=AssertionError("the model was run")):
        assert len(engine.synthesize([Row((), STYLE)])) == 1
        assert engine.synthesize([]) == []


def test_one_phoneme(engine: TorchEngine) -> None:
    result = engine.synthesize([random_row(8, 1)])[0]
    assert len(result.durations) == 3
    assert len(result.audio)


def test_510_phonemes_beside_a_short_row(engine: TorchEngine) -> None:
    short = random_row(9, 3)
    long, crowded = engine.synthesize([longest_row(), short])
    assert len(long.durations) == MAX_TOKENS + 2
    assert_same(crowded, engine.synthesize([short])[0])


@pytest.mark.parametrize(
    ("row", "field", "message"),
    [
        (Row((50,) * 511, STYLE), "tokens", "511 phonemes .* at most 510"),
        (Row((178,), STYLE), "tokens", "between 0 and 177"),
        (Row((-1,), STYLE), "tokens", "between 0 and 177"),
        (Row((50,), STYLE, speed=0.0), "speed", "allowed is 0.25 to 4"),
        (Row((50,), STYLE, speed=math.nan), "speed", "nan"),
        (Row((50,), STYLE, speed=math.inf), "speed", "inf"),
        (Row((50,), STYLE, pitch=math.nan), "pitch", "nan"),
        (Row((50,), STYLE, pitch=25.0), "pitch", "allowed is ±24"),
        (Row((50,), STYLE[:128]), "style", "256"),
        (Row((50,), np.full(STYLE_DIM, np.nan, np.float32)), "style", "finite"),
    ],
)
def test_what_the_model_cannot_take_is_the_callers_error(
    engine: TorchEngine, row: Row, field: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as raised:
        engine.synthesize([random_row(1, 2), row])
    assert raised.value.field == field


def test_it_is_an_engine(engine: TorchEngine) -> None:
    as_protocol: Engine = engine
    as_protocol.warmup()
    assert as_protocol.device == "cpu"
    assert as_protocol.limits.max_tokens == MAX_TOKENS
    assert as_protocol.limits.max_rows == 4
    assert as_protocol.limits.max_padded_frames > 1000


def test_synthesis_leaves_torch_as_it_was(engine: TorchEngine) -> None:
    before = torch.get_num_threads(), torch.is_grad_enabled(), torch.random.get_rng_state()
    engine.synthesize([random_row(1, 3)])
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == before[:2]
    assert torch.equal(torch.random.get_rng_state(), before[2])


def test_tiny_models_of_one_seed_are_alike(engine: TorchEngine) -> None:
    row = random_row(1, 5)
    same, other = TorchEngine.tiny(), TorchEngine.tiny(seed=1)
    assert np.array_equal(same.synthesize([row])[0].audio, engine.synthesize([row])[0].audio)
    assert not np.array_equal(other.synthesize([row])[0].audio, engine.synthesize([row])[0].audio)


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "meta"])
def test_a_device_that_is_not_there_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"KOKORO_DEVICE={name}"):
        pick_device(name)


def test_auto_finds_a_device() -> None:
    assert pick_device("auto").type in {"cpu", "cuda", "mps"}
    assert pick_device("cpu").type == "cpu"
