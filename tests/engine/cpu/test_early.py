"""The windows of a row that are made early: heard until what follows is made, on any machine."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kokoro_server.engine.cpu import early
from kokoro_server.engine.cpu.early import early_windows
from kokoro_server.engine.speed import LEVELS, level

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=100)


def seconds(frames: int, pace: float) -> float:
    """To make a window, in frames that are heard meanwhile."""
    return pace * (early.FIRST_STAGE * (frames + early.FIRST_AROUND) + early.LAST_STAGE * (frames + early.LAST_AROUND))


@given(LENGTHS, st.integers(1, 20), st.integers(1, 30), st.floats(0.01, 2.0))
def test_no_listener_waits_once_he_hears_something(speech: list[int], before: int, after: int, pace: float) -> None:
    lengths = np.array([before, *speech, after])
    windows = early_windows(lengths, pace)
    assert windows == early_windows(lengths, level(pace))
    if not windows:
        return
    (begin, _), *_ = windows
    assert 0 <= begin <= before / 2
    assert [end for _, end in windows[:-1]] == [begin for begin, _ in windows[1:]]
    heard = windows[0][1] - before
    for begin, end in windows[1:]:
        heard -= seconds(end - begin, level(pace))
        assert heard >= 0
        heard += end - begin
    assert heard >= level(pace) * (early.FIRST_STAGE + early.LAST_STAGE) * lengths.sum()
    assert windows[-1][1] - before <= early.MOST * sum(speech[:-1])


def test_a_sentence_has_them_on_a_laptop_and_a_word_has_none() -> None:
    sentence, word = np.array([12, *[3] * 35, 20]), np.array([12, 8, 10, 20])
    assert [len(early_windows(sentence, pace)) for pace in LEVELS] == [1, 2, 2, 0, 0, 0]
    assert not any(early_windows(word, pace) for pace in LEVELS)
    assert not early_windows(sentence, None)
