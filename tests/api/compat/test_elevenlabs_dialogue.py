"""Dialogues as elevenlabs-js 2.73 sends them."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

from tests.audio_files import assert_same_samples, decode
from tests.servers import Server

INPUTS = [
    {"text": "Did it land?", "voice_id": "af_bella"},
    {"text": "It did. We are safe.", "voice_id": "am_adam"},
    {"text": "Good.", "voice_id": "af_bella"},
]
TURNS = [{"text": each["text"], "voice": each["voice_id"]} for each in INPUTS]
TEXT = "\n".join(each["text"] for each in INPUTS)


def dialogue(server: Server, path: str = "", **fields: Any) -> httpx.Response:
    body = {"inputs": INPUTS, "model_id": "eleven_v3", "settings": {"stability": 0.5}} | fields
    url = f"{server.url}/v1/text-to-dialogue{path}?output_format=pcm_24000"
    return httpx.post(url, json=body, headers={"xi-api-key": "none"}, timeout=300)


@pytest.mark.parametrize(("path", "ours"), [("", "/tts"), ("/stream", "/tts/stream")])
def test_it_is_the_sound_of_turns(tiny_server: Server, path: str, ours: str) -> None:
    answer = dialogue(tiny_server, path)
    assert answer.status_code == 200, answer.text
    expected = httpx.post(tiny_server.url + ours, json={"turns": TURNS, "format": "pcm"}, timeout=300)
    assert_same_samples(answer.content, expected.content)


def test_characters_and_turns_have_times(tiny_server: Server) -> None:
    answer = dialogue(tiny_server, "/with-timestamps").json()
    alignment, turns = answer["alignment"], answer["voice_segments"]
    assert "".join(alignment["characters"]) == TEXT
    seconds = len(decode(base64.b64decode(answer["audio_base64"]), "pcm")) / 24_000
    ends = alignment["character_end_times_seconds"]
    assert ends == sorted(ends)
    assert ends[-1] == pytest.approx(seconds, abs=1e-3)
    _check_turns(turns)
    for turn, said in zip(turns, INPUTS, strict=True):
        assert TEXT[turn["character_start_index"] : turn["character_end_index"]] == said["text"].rstrip(".?")


def test_a_stream_has_the_same_times(tiny_server: Server) -> None:
    answer = dialogue(tiny_server, "/stream/with-timestamps")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    characters = [each for line in lines if line["alignment"] for each in line["alignment"]["characters"]]
    assert "".join(characters) == TEXT
    _check_turns([turn for line in lines for turn in line["voice_segments"]])
    for line in lines:
        for turn in line["voice_segments"]:
            assert 0 <= turn["character_start_index"] < turn["character_end_index"]
            assert turn["character_end_index"] <= len(line["alignment"]["characters"])


def test_a_language_without_its_region_is_that_of_each_voice(tiny_server: Server) -> None:
    assert_same_samples(dialogue(tiny_server, language_code="en").content, dialogue(tiny_server).content)


def test_errors_have_their_shape(tiny_server: Server) -> None:
    unknown = dialogue(tiny_server, inputs=[INPUTS[0], {"text": "Hm.", "voice_id": "nobody"}])
    assert (unknown.status_code, unknown.json()["detail"]["status"]) == (400, "voice_not_found")
    for wrong in ({"inputs": []}, {"inputs": [INPUTS[0]] * 1001}, {"inputs": [{"text": "Hm."}]}, {"seed": -1}):
        answer = dialogue(tiny_server, **wrong)
        assert (answer.status_code, "message" in answer.json()["detail"]) == (422, True), answer.text


def _check_turns(turns: list[dict[str, Any]]) -> None:
    order = [turn["dialogue_input_index"] for turn in turns]
    assert order == sorted(order)
    assert set(order) == set(range(len(INPUTS)))
    assert [INPUTS[index]["voice_id"] for index in order] == [turn["voice_id"] for turn in turns]
    times = [time for turn in turns for time in (turn["start_time_seconds"], turn["end_time_seconds"])]
    assert times == sorted(times)
