"""A word that is all of a text is spoken after others, which nobody hears."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.audio_files import assert_same_samples
from tests.servers import Server

RATE = 24_000
BYTES = 2  # a sample


def post(server: Server, path: str, **body: Any) -> httpx.Response:
    answer = httpx.post(server.url + path, json={"voice": "af_heart", **body}, timeout=300)
    assert answer.status_code == 200, answer.text
    return answer


def test_it_is_the_only_word_and_begins_with_the_clip(tiny_server: Server) -> None:
    answer = post(tiny_server, "/tts/captioned", text="Submit", format="wav").json()
    (word,) = answer["words"]
    assert word["text"] == "Submit"
    assert word["start"] < 0.3
    assert word["end"] - word["start"] > 0
    (alone,) = post(tiny_server, "/tts/captioned", text="Submit", format="wav", trim=False).json()["words"]
    assert alone["start"] < 1.0


def test_it_sounds_alike_on_every_path(tiny_server: Server) -> None:
    clip = post(tiny_server, "/tts", text="Submit", format="pcm").content
    assert_same_samples(clip, post(tiny_server, "/tts/stream", text="Submit", format="pcm").content)
    compat = {"input": "Submit", "model": "kokoro", "response_format": "pcm"}
    assert_same_samples(clip, post(tiny_server, "/v1/audio/speech", **compat).content)


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
def test_the_words_before_it_are_not_in_its_clip(tiny_server: Server, speed: float) -> None:
    alone, after = (
        len(post(tiny_server, "/tts", text=text, format="pcm", speed=speed).content) / BYTES / RATE
        for text in ("Submit", "The word is: submit.")
    )
    assert alone < after - 0.4 / speed
