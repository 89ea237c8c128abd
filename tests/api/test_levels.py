"""`level`: all voices of a request equally loud, or each as loud as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from kokoro_server.audio.loudness import true_peaks
from kokoro_server.synthesis.utterance import PEAK_CEILING
from kokoro_server.voices.levels import GAINS
from tests.api.routes.test_voices import PHONEMES, client, say
from tests.audio_files import decode
from tests.servers import Server

METER = 10 ** (0.2 / 20)  # how far EBU Tech 3341 lets a meter of true peaks be off
TURNS = [{"text": "Who is there?"}, {"text": "A friend.", "voice": "am_adam"}]


def spoken(server: Server, path: str = "/tts", **body: Any) -> np.ndarray:
    answer = httpx.post(server.url + path, json={"format": "pcm", **body}, timeout=300)
    assert answer.status_code == 200, answer.text
    return decode(answer.content, "pcm")


def rms(audio: np.ndarray) -> float:
    return float(np.sqrt(np.mean(audio**2)))


@pytest.mark.parametrize("voice", ["af_heart", "am_adam"])
@pytest.mark.parametrize("path", ["/tts", "/tts/stream"])
def test_a_voice_is_brought_to_the_level_of_all(tiny_server: Server, voice: str, path: str) -> None:
    asked = {"text": "A friend.", "voice": voice, "volume": -12}
    own, even = (spoken(tiny_server, path, **asked, level=level) for level in ("own", "even"))
    assert GAINS[voice] != 0
    assert rms(even) == pytest.approx(rms(own) * 10 ** (GAINS[voice] / 20), rel=0.02)
    assert np.array_equal(spoken(tiny_server, path, **asked), own), "one voice keeps its own level by default"


@pytest.mark.parametrize(
    "several",
    [
        {"turns": TURNS},
        {"text": "Who is there?\n[voice:am_adam]A friend."},
        {"text": "<speak>Who is there? <voice name='am_adam'>A friend.</voice></speak>", "ssml": True},
    ],
)
def test_several_voices_are_even_unless_each_is_to_keep_its_own_level(
    tiny_server: Server, several: dict[str, Any]
) -> None:
    default, even, own = (
        spoken(tiny_server, volume=-12, **several, **level) for level in ({}, {"level": "even"}, {"level": "own"})
    )
    assert rms(default - even) < 1e-3 * rms(even)  # rows that share a batch may round otherwise
    assert len(even) == len(own)
    first, second = slice(0, len(own) // 4), slice(len(own) * 3 // 4, None)
    for part, voice in ((first, "af_heart"), (second, "am_adam")):
        assert rms(even[part]) == pytest.approx(rms(own[part]) * 10 ** (GAINS[voice] / 20), rel=0.02)


def test_two_turns_of_one_voice_keep_its_level(tiny_server: Server) -> None:
    turns = [{"text": "Who is there?"}, {"text": "A friend.", "voice": "af_heart"}]
    assert np.array_equal(spoken(tiny_server, turns=turns), spoken(tiny_server, turns=turns, level="own"))


def test_another_level_is_refused(tiny_server: Server) -> None:
    answer = httpx.post(f"{tiny_server.url}/tts", json={"text": "Hi.", "level": "loud"})
    assert answer.status_code == 422
    assert "'even' or 'own'" in answer.json()["error"]["message"]


async def test_no_peak_of_a_voice_that_is_made_louder_is_over_the_ceiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GAINS, "af_heart", 20.0)
    async with client(tmp_path, None) as server:
        for path in ("/tts", "/tts/stream"):
            for asked in ({}, {"speed": 2.5}, {"sample_rate": 48_000}, {"phonemes": f"{PHONEMES} " * 20}):
                answer = await say(server, "af_heart", path, level="even", **asked)
                peak = true_peaks(np.frombuffer(answer.content, "<f4").astype(np.float64)).max()
                assert PEAK_CEILING * 0.9 < peak < PEAK_CEILING * METER, (path, asked)
