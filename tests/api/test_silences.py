"""The silence at the ends of clips and between sentences, over HTTP."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from kokoro_server.audio.join import LEAD, TAIL
from kokoro_server.engine.protocol import SAMPLE_RATE
from tests.servers import Server

SPEECH = "/v1/audio/speech"
TEXT = "Think of it. He said nothing at all."


def spoken(server: Server, path: str, **fields: Any) -> bytes:
    text = "input" if path == SPEECH else "phonemes" if "phonemes" in fields else "text"
    body = {text: TEXT, "format": "pcm", **fields}
    answer = httpx.post(server.url + path, json=body, timeout=300)
    assert answer.status_code == 200, answer.text
    return answer.content


def seconds(content: bytes) -> float:
    return len(content) / 2 / SAMPLE_RATE


@pytest.mark.parametrize("fields", [{}, {"phonemes": "θˈɪŋk ˌʌv ɪt."}], ids=["text", "phonemes"])
@pytest.mark.parametrize("path", ["/tts", "/tts/stream", SPEECH])
def test_lead_and_tail_are_as_asked(tiny_server: Server, path: str, fields: dict[str, Any]) -> None:
    if path == SPEECH and fields:
        return
    usual = spoken(tiny_server, path, **fields)
    longer = spoken(tiny_server, path, lead=LEAD + 1, tail=TAIL + 2, **fields)
    assert len(longer) - len(usual) == 2 * 3 * SAMPLE_RATE
    assert len(spoken(tiny_server, path, trim=False, lead=5, **fields)) == len(
        spoken(tiny_server, path, trim=False, **fields)
    )


def test_words_move_with_the_lead(tiny_server: Server) -> None:
    def captioned(**fields: Any) -> dict[str, Any]:
        answer = httpx.post(f"{tiny_server.url}/tts/captioned", json={"text": TEXT, **fields}, timeout=300)
        found: dict[str, Any] = answer.json()
        return found

    usual, later, close = captioned(), captioned(lead=LEAD + 1), captioned(lead=0, tail=0)
    pairs = zip(usual["words"], later["words"], strict=True)
    moved = [after["start"] - word["start"] for word, after in pairs]
    assert moved[1:] == pytest.approx([1.0] * (len(moved) - 1), abs=1e-3)
    for found in (usual, later, close):
        assert found["words"][0]["start"] >= 0
        assert found["words"][-1]["end"] <= found["duration"]
        assert all(word["start"] <= word["end"] for word in found["words"])


def test_a_paragraph_and_a_sentence_have_the_pauses_that_are_asked_for(tiny_server: Server) -> None:
    def length(between: str, **pauses: float) -> float:
        fields = {"pauses": pauses} if pauses else {}
        return seconds(spoken(tiny_server, "/tts", text=f"One, two.{between}Three.", **fields))

    usual = length("\n\n")
    assert length("\n\n", paragraph=2.75) - usual == pytest.approx(2.0, abs=1e-3)
    assert length("\n\n", comma=5.0) == usual
    assert length(" ", sentence=2.0) - length(" ", sentence=1.0) == pytest.approx(1.0, abs=1e-3)
    assert length("\n\n", sentence=2.0) == pytest.approx(usual, abs=1e-3)


@pytest.mark.parametrize(
    ("fields", "at_fault"),
    [
        ({"lead": -0.1}, "lead"),
        ({"tail": 10.5}, "tail"),
        ({"lead": "soon"}, "lead"),
        ({"trim": "a bit"}, "trim"),
        ({"pauses": {"sentence": 11}}, "pauses.sentence"),
        ({"pauses": {"chapter": 1}}, "pauses.chapter"),
        ({"pauses": 2}, "pauses"),
    ],
)
def test_a_wrong_silence_is_refused_by_name(tiny_server: Server, fields: dict[str, Any], at_fault: str) -> None:
    answer = httpx.post(f"{tiny_server.url}/tts", json={"text": "One.", **fields}, timeout=60)
    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == at_fault


@pytest.mark.parametrize("fields", [{}, {"lead": 0, "tail": 0}, {"speed": 4}, {"ssml": True}], ids=str)
def test_subtitles_end_with_the_audio(tiny_server: Server, fields: dict[str, Any]) -> None:
    text = "<speak>Yes.</speak>" if "ssml" in fields else "Yes."
    body = {"text": text, "format": "srt", **fields}
    answer = httpx.post(f"{tiny_server.url}/tts/captioned", json=body, timeout=300)
    times = re.findall(r"(\d\d):(\d\d):(\d\d),(\d{3})", answer.text)
    start, end = (float(f"{seconds}.{milliseconds}") for _, _, seconds, milliseconds in times)
    assert 0 <= start < end <= float(answer.headers["x-audio-duration"])


NO_TIME: list[dict[str, Any]] = [
    {"text": "[pause:0s]"},
    {"text": "[pause:0.01ms]"},
    {"text": "<speak><break time='0s'/></speak>", "ssml": True},
    {"turns": [{"text": ""}, {"text": "—"}], "turn_pause": 0},
]


@pytest.mark.parametrize("body", NO_TIME, ids=range(len(NO_TIME)))
@pytest.mark.parametrize("path", ["/tts", "/tts/stream", "/tts/captioned"])
def test_a_pause_that_takes_no_time_is_nothing_to_say(tiny_server: Server, path: str, body: dict[str, Any]) -> None:
    answer = httpx.post(tiny_server.url + path, json=body, timeout=300)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "nothing_to_say")


def test_it_costs_no_other_clip_of_a_batch(tiny_server: Server) -> None:
    bodies = [{"text": "[pause:0s]"}, {"text": "[pause:1s]"}]
    answer = httpx.post(f"{tiny_server.url}/tts/batch", json={"requests": bodies}, timeout=300)
    assert (answer.status_code, answer.headers["x-failed-requests"]) == (200, "1")
