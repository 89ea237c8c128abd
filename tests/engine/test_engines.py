"""Every engine at tiny size: what a caller may rely on, whatever the weights."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kokoro_server.engine.protocol import MAX_TOKENS, SAMPLES_PER_FRAME, STYLE_DIM, Engine, Result, Row
from kokoro_server.errors import InvalidInput
from tests import tiny_model
from tests.engine.kmodel import snr
from tests.engine.rows import bounded, longest_row, random_row, random_rows

STYLE = np.zeros(STYLE_DIM, np.float32)
SAME = 80.0  # dB; rounding leaves about 110
ALIKE = 8.0  # dB between backends: F0 rounded otherwise and summed into phase leaves 12 to 20, and other noise -2


def assert_same(one: Result, other: Result) -> None:
    assert one.durations.tolist() == other.durations.tolist()
    assert snr(one.audio, other.audio) > SAME


@given(st.lists(random_rows(), min_size=1, max_size=6), st.randoms(use_true_random=False))
@bounded(8)
def test_order_and_neighbours_do_not_matter(tiny_engine: Engine, rows: list[Row], random: Random) -> None:
    together = tiny_engine.synthesize(rows)
    order = list(range(len(rows)))
    random.shuffle(order)
    shuffled = tiny_engine.synthesize([rows[index] for index in order])
    for place, index in enumerate(order):
        assert_same(together[index], shuffled[place])
    for row, result in zip(rows, together, strict=True):
        assert_same(tiny_engine.synthesize([row])[0], result)


def test_a_result_is_audio_and_durations_that_agree(tiny_engine: Engine) -> None:
    for row, result in zip(rows := [random_row(1, 5), random_row(2, 40)], tiny_engine.synthesize(rows), strict=True):
        assert result.audio.dtype == np.float32
        assert len(result.durations) == len(row.tokens) + 2
        assert result.durations.min() >= 1
        assert len(result.audio) == result.durations.sum() * SAMPLES_PER_FRAME
        assert np.isfinite(result.audio).all()
        assert 0.005 < result.audio.std() < 0.3


def test_results_own_their_memory(tiny_engine: Engine) -> None:
    short, _ = tiny_engine.synthesize([random_row(1, 2), random_row(2, 40)])
    assert short.audio.base is None
    assert short.durations.base is None


def test_the_seed_decides_the_noise(tiny_engine: Engine) -> None:
    row = random_row(3, 12)
    again, other = (Row(row.tokens, row.style, seed=seed) for seed in (row.seed, row.seed + 1))
    first = tiny_engine.synthesize([row])[0]
    crowd = tiny_engine.synthesize([random_row(9, 30), other, again])
    assert_same(first, crowd[2])
    assert crowd[1].durations.tolist() == first.durations.tolist()
    assert snr(first.audio, crowd[1].audio) < 60


@pytest.mark.parametrize("seed", [-1, 2**64 - 1, 2**200])
def test_any_whole_number_is_a_seed(tiny_engine: Engine, seed: int) -> None:
    assert len(tiny_engine.synthesize([Row((50, 60), STYLE, seed=seed)])[0].audio)


def test_every_row_has_its_own_speed_and_pitch(tiny_engine: Engine) -> None:
    row = random_row(4, 30)
    slow, plain, fast, high = tiny_engine.synthesize(
        [Row(row.tokens, row.style, speed, pitch) for speed, pitch in ((0.5, 0), (1, 0), (2, 0), (1, 12))]
    )
    assert len(slow.audio) > 1.6 * len(plain.audio) > 2.2 * len(fast.audio)
    assert high.durations.tolist() == plain.durations.tolist()
    assert snr(plain.audio, high.audio) < 10


def test_pitch_0_is_the_identity(tiny_engine: Engine) -> None:
    rows = [random_row(5, 20), random_row(6, 8)]
    moved = Row(rows[0].tokens, rows[0].style, pitch=3.0)
    untouched, _ = tiny_engine.synthesize(rows)
    beside_a_moved_row, _ = tiny_engine.synthesize([rows[0], moved])
    assert_same(untouched, beside_a_moved_row)


def test_one_phoneme(tiny_engine: Engine) -> None:
    result = tiny_engine.synthesize([random_row(8, 1)])[0]
    assert len(result.durations) == 3
    assert len(result.audio)


def test_510_phonemes_beside_a_short_row(tiny_engine: Engine) -> None:
    short = random_row(9, 3)
    long, crowded = tiny_engine.synthesize([longest_row(), short])
    assert len(long.durations) == MAX_TOKENS + 2
    assert_same(crowded, tiny_engine.synthesize([short])[0])


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
    tiny_engine: Engine, row: Row, field: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as raised:
        tiny_engine.synthesize([random_row(1, 2), row])
    assert raised.value.field == field


def test_it_is_an_engine(tiny_engine: Engine) -> None:
    as_protocol: Engine = tiny_engine
    as_protocol.warmup()
    assert as_protocol.device == "cpu"
    assert as_protocol.limits.max_tokens == MAX_TOKENS
    assert as_protocol.limits.max_rows >= 1
    assert as_protocol.limits.max_padded_frames > 1000


def test_a_row_with_nothing_to_say_is_silent(tiny_engine: Engine) -> None:
    row = random_row(7, 6)
    before, empty, after = tiny_engine.synthesize([row, Row((), STYLE), row])
    assert empty.audio.shape == (0,)
    assert empty.durations.tolist() == [0, 0]
    assert_same(before, after)
    assert len(tiny_engine.synthesize([Row((), STYLE)])) == 1
    assert tiny_engine.synthesize([]) == []


def test_backends_say_the_same(tiny_engine: Engine) -> None:
    rows = [replace(random_row(seed, 10 + 9 * seed), pitch=pitch) for seed, pitch in ((1, 0.0), (2, 0.0), (3, 5.0))]
    for expected, result in zip(tiny_model.torch_engine().synthesize(rows), tiny_engine.synthesize(rows), strict=True):
        assert result.durations.tolist() == expected.durations.tolist()
        assert snr(expected.audio, result.audio) > ALIKE
