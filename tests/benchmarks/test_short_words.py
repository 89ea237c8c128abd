from __future__ import annotations

import numpy as np

from benchmarks import short_words
from kokoro_server.engine import vocab
from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME, Result


def test_there_are_200_texts_and_other_spellings_of_them_count() -> None:
    assert len(short_words.spellings()) == 200
    assert short_words.is_right("b", "Bee.")
    assert short_words.is_right("2", "Too!")
    assert short_words.is_right("42", "42.")
    assert short_words.is_right("New message", "New message, new message")
    assert not short_words.is_right("help", "Help it.")
    assert not short_words.is_right("help", "")
    assert not short_words.is_right("think", "Thank you.")


def test_the_context_is_cut_away_in_the_silence_beside_the_word() -> None:
    """One sound for each phoneme, of which the pads, marks and spaces have none."""
    way = short_words.Way(before="jˈɛs. ", after=". plˈiz.")
    phonemes = f"{way.before}OkˈA{way.after}"
    durations = np.array([12, *(8 if each.isalpha() else 10 for each in phonemes), 4])
    voiced = np.repeat([False, *map(str.isalpha, phonemes), False], durations * SAMPLES_PER_FRAME)
    tone = np.sin(np.arange(len(voiced)) * 0.1).astype(np.float32)
    said = short_words.cut_out(Result(voiced * tone, durations), "OkˈA", way)
    assert len(vocab.tokenize(phonemes)) == len(phonemes)
    assert said.cut_db is not None
    assert said.cut_db < -100
    heard = np.flatnonzero(np.abs(said.clip) > 0.1)
    word = durations[1 + len(way.before) : 1 + len(way.before) + len("OkˈA")].sum() * SAMPLES_PER_FRAME
    assert abs(heard[-1] - heard[0] - word) < 0.01 * SAMPLE_RATE
