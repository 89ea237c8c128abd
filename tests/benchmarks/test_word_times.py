"""Word times in all languages: in order, within the audio, of all that is written, and filled by their phonemes."""

from __future__ import annotations

import tomllib

import httpx
import numpy as np
import pytest

from benchmarks import word_times
from tests.servers import Server

TABLES = tomllib.loads((word_times.DATA / "word_times.toml").read_text(encoding="utf-8"))
# What is one written word is one entry, however it is read; liaison and elision do not tear words apart.
WRITTEN = {
    "en-US": ("We paid $1,984 in 1984.", ["We", "paid", "$1,984", "in", "1984"]),
    "es": ("Son 42 páginas de 1984.", ["Son", "42", "páginas", "de", "1984"]),
    "fr-FR": ("Les enfants de l'école ont 99 ans.", ["Les", "enfants", "de", "l'école", "ont", "99", "ans"]),
    "it": ("Nel 1984 c'era l'amico.", ["Nel", "1984", "c'era", "l'amico"]),
    "pt-BR": ("São 42 páginas de 1984.", ["São", "42", "páginas", "de", "1984"]),
}


@pytest.mark.parametrize("language", TABLES)
def test_times_are_whole(tiny_server: Server, language: str) -> None:
    found = word_times.Found()
    with httpx.Client(base_url=tiny_server.url, timeout=300) as client:
        for text in word_times.sentences(TABLES[language], 3):
            word_times.count_faults(word_times.spoken(client, text, language, "af_heart"), text, found)
    assert found.words > 10
    counts = {name: value for name, value in vars(found).items() if isinstance(value, int)}
    faults = {name: value for name, value in counts.items() if value and name not in ("sentences", "words")}
    assert not faults


@pytest.mark.parametrize("language", WRITTEN)
def test_a_written_word_is_one_entry(tiny_server: Server, language: str) -> None:
    text, words = WRITTEN[language]
    with httpx.Client(base_url=tiny_server.url, timeout=300) as client:
        answer = word_times.spoken(client, text, language, "af_heart")
    assert [word["text"] for word in answer["words"]] == words
    assert [text[word["char_start"] : word["char_end"]] for word in answer["words"]] == words


def test_the_spread_of_errors() -> None:
    found = word_times.spread([0.01, -0.03, 0.2, 0.08])
    assert (found["count"], found["within_allowed"], found["most_away_ms"]) == (4, 0.75, 200.0)


def test_words_on_either_side_of_a_silence() -> None:
    tone = np.sin(np.arange(12_000) / 10).astype(np.float32)  # half a second
    audio = np.concatenate([tone, np.zeros(6_000, np.float32), tone, np.zeros(2_400, np.float32), tone])
    (silent,) = word_times.silences(audio)  # the other one is too short
    assert np.allclose(silent, (0.5, 0.75), atol=0.01)
    words = [(0.0, 0.53), (0.76, 1.3), (1.3, 1.85)]
    ((index, pause),) = word_times.pauses(words, [silent])
    errors = word_times.Errors()
    word_times.add_pause(errors, words, index, *pause)
    assert np.allclose([errors.ends, errors.starts], [[0.03], [0.01]], atol=0.01)


def test_phonemes_have_phones() -> None:
    words = [{"text": "Hello"}]
    phonemes = [{"symbol": symbol, "word": 0} for symbol in ("h", "ə", "l", "ˈO")]
    assert word_times.pronunciations(words, phonemes) == ["HH AH L OW"]


def test_filled_words() -> None:
    words = [{"start": 0.1, "end": 0.5}, {"start": 0.5, "end": 0.9}]
    phonemes = [{"word": 0, "start": 0.1, "end": 0.3}, {"word": 0, "start": 0.3, "end": 0.5}]
    gap = [{"word": 1, "start": 0.6, "end": 0.9}]
    assert list(word_times.filled(words, phonemes + gap)) == [True, False]
    assert np.isclose(sum(each["end"] - each["start"] for each in phonemes), 0.4)
