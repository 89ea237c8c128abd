"""SSML over HTTP: it is spoken as it says, with times on the markup, or refused; tags are never read aloud."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import httpx
import numpy as np
import pytest

from tests.audio_files import decode
from tests.servers import Server

DIALOGUE = (
    '<speak>Dr. Ng &amp; I <break time="500ms"/>say:\n<voice name="bf_emma"><prosody rate="120%">Come in!</prosody>'
    '</voice> <p>It is <sub alias="nine sharp">9:00</sub>.</p></speak>'
)
WORDS = ["Dr", "Ng", "&amp;", "I", "say", "Come", "in", "It", "is", "9:00"]


def post(server: Server, path: str, **body: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=300)


def spoken(server: Server, text: str, **body: Any) -> bytes:
    answer = post(server, "/tts", text=text, format="pcm", **body)
    assert answer.status_code == 200, answer.text
    return answer.content


def test_word_times_are_on_the_markup(tiny_server: Server) -> None:
    answer = post(tiny_server, "/tts/captioned", text=DIALOGUE, ssml=True, format="pcm").json()
    words = answer["words"]
    assert [DIALOGUE[word["char_start"] : word["char_end"]].rstrip(".") for word in words] == WORDS
    assert [word["text"].rstrip(".") for word in words] == [word.replace("&amp;", "&") for word in WORDS]
    times = [time for word in words for time in (word["start"], word["end"])]
    assert times == sorted(times)
    assert times[-1] <= answer["duration"]
    assert words[4]["start"] - words[3]["end"] >= 0.4  # the break, of which sounds take a little


def test_subtitles_have_no_tags(tiny_server: Server) -> None:
    subtitles = post(tiny_server, "/tts/captioned", text=DIALOGUE, ssml=True, format="vtt").text
    shown = " ".join(line for line in subtitles.splitlines()[1:] if line and "-->" not in line)
    assert shown == "Dr. Ng &amp; I say: Come in! It is 9:00."


def test_a_manner_is_that_of_the_request_with_the_same_fields(tiny_server: Server) -> None:
    plain = spoken(tiny_server, "Come in!", voice="bf_emma", speed=1.2, pitch=2)
    markup = '<speak><voice name="bf_emma"><prosody rate="120%" pitch="+2st">Come in!</prosody></voice></speak>'
    assert spoken(tiny_server, markup, ssml=True) == plain
    assert spoken(tiny_server, "<speak>Come in!</speak>", ssml=True, voice="bf_emma", speed=1.2, pitch=2) == plain
    soft = spoken(tiny_server, f'<speak><prosody volume="-6dB">{markup[7:-8]}</prosody></speak>', ssml=True)
    np.testing.assert_allclose(decode(soft, "pcm"), decode(plain, "pcm") * 10 ** (-6 / 20), atol=1e-4)
    silent = spoken(tiny_server, '<speak><prosody volume="silent">Come in!</prosody></speak>', ssml=True)
    assert len(silent) > 1_000
    assert not any(silent)


def test_what_is_louder_than_full_scale_is_limited(tiny_server: Server) -> None:
    markup = '<speak><prosody volume="+20dB">Come in, please!</prosody></speak>'
    samples = np.frombuffer(spoken(tiny_server, markup, ssml=True, sample_format="pcm_f32le"), "<f4")
    assert 0.5 < np.abs(samples).max() < 1


def test_every_endpoint_takes_it(tiny_server: Server) -> None:
    markup = "<speak>Come in!</speak>"
    plain = spoken(tiny_server, "Come in!")
    assert post(tiny_server, "/tts/stream", text=markup, ssml=True, format="pcm").content == plain
    theirs = {"input": markup, "ssml": True, "response_format": "pcm", "stream": False}
    assert post(tiny_server, "/v1/audio/speech", **theirs).content == plain
    captions = post(tiny_server, "/dev/captioned_speech", **theirs).json()
    assert [word["word"] for word in captions["timestamps"]] == ["Come", "in"]
    batch = post(tiny_server, "/tts/batch", requests=[{"text": markup, "ssml": True, "format": "pcm"}])
    with zipfile.ZipFile(io.BytesIO(batch.content)) as file:
        assert file.read("tts_001_af_heart.pcm") == plain
    reading = post(tiny_server, "/text/reading", text=DIALOGUE, ssml=True).json()
    assert [word["text"].rstrip(".") for word in reading["words"]] == WORDS
    last = reading["readings"][-1]
    assert (last["source"], last["words"], last["rule"]) == ("9:00", "nine sharp", "sub")
    assert all(DIALOGUE[each["start"] : each["end"]] == each["source"] for each in reading["readings"])


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("/tts", {"text": "<speak><foo/></speak>"}, 400, "text"),
        ("/tts/stream", {"text": "Hello"}, 400, "text"),
        ("/text/reading", {"text": "<speak>a"}, 400, "text"),
        ("/v1/audio/speech", {"input": "<speak><foo/></speak>"}, 400, "input"),
        ("/tts", {"text": "<speak></speak>"}, 422, "text"),
        ("/tts", {"text": "<speak>[pause:x]</speak>"}, 422, "text"),
        ("/tts", {"text": "<speak>" + "<break time='30s'/>" * 30 + "</speak>"}, 422, "text"),
        ("/tts", {"text": "<speak>" + "a" * 100_000 + "</speak>"}, 413, "text"),
        ("/tts", {"phonemes": "a"}, 422, "text"),
        ("/tts", {"turns": [{"text": "a"}]}, 422, "text"),
    ],
)
def test_what_is_wrong_is_told(tiny_server: Server, path: str, body: dict[str, Any], status: int, field: str) -> None:
    answer = post(tiny_server, path, ssml=True, **body)
    error = answer.json()["error"]
    assert (answer.status_code, error.get("field", error.get("param"))) == (status, field), answer.text
    if status == 400:
        assert error["code"] == "invalid_ssml"
        assert "character" in error["message"]
