"""Requests as clients of Kokoro-FastAPI send them, against a running server."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from tests.audio_files import assert_same_samples, decode
from tests.servers import Server, say

JSON = {"Content-Type": "application/json"}
TEXT = "Hello there, world. It was late, and the lights were on; nobody knew why."
# As Open WebUI, SillyTavern, AnythingLLM and Home Assistant's openai_tts send them; then the examples of
# Kokoro-FastAPI's README.
RECORDED: list[dict[str, Any]] = [
    {"input": TEXT, "voice": "alloy", "model": "tts-1"},
    {"model": "tts-1", "input": TEXT, "voice": "nova", "response_format": "mp3", "speed": 1.0, "instructions": "Calm."},
    {"input": TEXT, "response_format": "mp3", "voice": "af_heart", "speed": 1, "model": "tts-1"},
    {"model": "kokoro", "voice": "af_bella", "input": TEXT},
    {"model": "kokoro", "input": TEXT, "voice": "af_bella", "response_format": "mp3", "speed": 1.0},
    {"input": TEXT, "voice": "af_bella+af_sky", "response_format": "mp3"},
    {
        "model": "kokoro",
        "input": TEXT,
        "voice": "af_bella(2)+af_sky(1)",
        "response_format": "mp3",
        "download_format": "mp3",
        "stream": True,
        "speed": 1,
        "return_download_link": False,
        "lang_code": "a",
        "volume_multiplier": 1.0,
        "normalization_options": {
            "normalize": True,
            "unit_normalization": False,
            "url_normalization": True,
            "email_normalization": True,
            "optional_pluralization_normalization": True,
            "phone_normalization": True,
            "replace_remaining_symbols": True,
        },
    },
]


def post(server: Server, path: str, body: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=300)


def speech(server: Server, **fields: Any) -> httpx.Response:
    return post(server, "/v1/audio/speech", {"input": TEXT, "voice": "af_heart", "response_format": "pcm", **fields})


def phonemes(server: Server, text: str) -> str:
    found: str = post(server, "/text/reading", {"text": text, "language": "en-US"}).json()["phonemes"]
    return found


@pytest.mark.parametrize("body", RECORDED)
def test_recorded_requests_are_spoken(tiny_server: Server, body: dict[str, Any]) -> None:
    if body["voice"] in ("alloy", "nova"):
        body = body | {"voice": "marin"}  # the tiny model has no voice for these
    answer = post(tiny_server, "/v1/audio/speech", body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "audio/mpeg"
    assert decode(answer.content, "mp3").any()


@pytest.mark.parametrize("stream", [True, False])
def test_dialogue(tiny_server: Server, stream: bool) -> None:
    turns = [{"voice": "af_bella", "text": "Did it land?"}, {"voice": "am_adam", "text": "It did."}]
    body = {"turns": turns, "pause_between_turns": 0.4, "response_format": "wav", "stream": stream}
    spoken = post(tiny_server, "/dev/dialogue", body)
    assert spoken.status_code == 200, spoken.text
    path = "/tts/stream" if stream else "/tts"
    ours = post(tiny_server, path, {"turns": turns, "turn_pause": 0.4}).content
    assert spoken.content[:44] == ours[:44]
    assert_same_samples(spoken.content[44:], ours[44:])
    longer = post(tiny_server, "/dev/dialogue", body | {"pause_between_turns": 1.4})
    assert len(longer.content) - len(spoken.content) == 48_000
    wrong = post(tiny_server, "/dev/dialogue", {"turns": [turns[0], {"voice": "nobody", "text": "Hm."}]})
    assert (wrong.status_code, wrong.json()["detail"]["field"]) == (400, "turns.1.voice")


@pytest.mark.parametrize("stream", [True, False])
def test_punctuation_alone_is_silence(tiny_server: Server, stream: bool) -> None:
    """Home Assistant's openai_tts asks for a full stop before it takes a server."""
    answer = speech(tiny_server, input=".", stream=stream)
    assert answer.status_code == 200, answer.text
    assert set(answer.content) == {0}
    assert 0.2 <= len(answer.content) / 48_000 <= 0.5
    assert answer.headers["x-nothing-to-say"] == "true"
    assert speech(tiny_server, input="", stream=stream).content == answer.content


def test_a_whole_body_has_its_length(tiny_server: Server) -> None:
    whole, streamed = speech(tiny_server, stream=False), speech(tiny_server)
    assert int(whole.headers["content-length"]) == len(whole.content)
    assert whole.content == say(tiny_server, TEXT, format="pcm").content
    assert "content-length" not in streamed.headers


def test_the_language_is_that_of_its_letter(tiny_server: Server) -> None:
    text = "Uno dos tres."
    spanish = speech(tiny_server, input=text, lang_code="e", stream=False).content
    assert spanish == say(tiny_server, text, language="es", format="pcm").content
    assert spanish != say(tiny_server, text, format="pcm").content


def test_the_volume_is_a_factor(tiny_server: Server) -> None:
    full, half = (decode(speech(tiny_server, volume_multiplier=by).content, "pcm") for by in (1.0, 0.5))
    np.testing.assert_allclose(half, full / 2, atol=2e-4)


@pytest.mark.parametrize(
    ("options", "normalize"),
    [
        ({"normalize": False, "url_normalization": False}, False),
        ({"unit_normalization": False}, ["money", "numbers", "phones", "symbols", "addresses"]),
        ({"phone_normalization": False}, ["money", "numbers", "units", "symbols", "addresses"]),
    ],
)
def test_what_is_put_in_words_can_be_switched_off(
    tiny_server: Server, options: dict[str, bool], normalize: Any
) -> None:
    text = "Call 555-123-4567, it is 10 KB for $5."
    kinds = ["money", "numbers", "units", "phones", "symbols", "addresses"]
    made = speech(tiny_server, input=text, normalize=kinds, normalization_options=options, stream=False).content
    assert made == say(tiny_server, text, normalize=normalize, format="pcm").content
    assert made != say(tiny_server, text, normalize=kinds, format="pcm").content


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"voice_aliases": {"me": "nobody"}, "voice": "me"}, "voice"),
        ({"return_download_link": True, "stream_format": "sse"}, "return_download_link"),
        ({"download_format": "wav"}, "download_format"),
        ({"return_timestamps": True}, "return_timestamps"),
        ({"normalization_options": {"url_normalization": False}}, "normalization_options"),
        ({"normalization_options": {"optional_pluralization_normalization": False}}, "normalization_options"),
        ({"lang_code": "x"}, "lang_code"),
        ({"volume_multiplier": 0}, "volume_multiplier"),
        ({"voice": "+".join(["ash"] * 100)}, "voice"),  # our name for it is longer than may be
        ({"voice": "af_heart-af_heart"}, "voice"),
    ],
)
def test_what_cannot_be_honoured_is_refused(tiny_server: Server, fields: dict[str, Any], param: str) -> None:
    answer = speech(tiny_server, **fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert param in answer.json()["error"]["message"]


def test_captions_of_the_whole(tiny_server: Server) -> None:
    body = {"model": "kokoro", "input": TEXT, "voice": "af_heart", "response_format": "pcm", "stream": False}
    answer = post(tiny_server, "/dev/captioned_speech", body).json()
    expected = post(tiny_server, "/tts/captioned", {"text": TEXT, "format": "pcm"}).json()
    assert answer["audio"] == expected["audio"]
    assert answer["audio_format"] == "audio/pcm"
    assert answer["timestamps"] == [
        {"word": word["text"], "start_time": word["start"], "end_time": word["end"]} for word in expected["words"]
    ]
    without = post(tiny_server, "/dev/captioned_speech", body | {"return_timestamps": False}).json()
    assert without == answer | {"timestamps": []}


def test_captions_as_they_are_made(tiny_server: Server) -> None:
    body = {"input": TEXT * 5, "voice": "af_heart", "response_format": "pcm"}
    answer = post(tiny_server, "/dev/captioned_speech", body)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert len(lines) > 1
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert all(set(line) == {"audio", "audio_format", "timestamps"} for line in lines)
    made = b"".join(base64.b64decode(line["audio"]) for line in lines)
    assert_same_samples(made, speech(tiny_server, input=TEXT * 5).content)
    words = [word for line in lines for word in line["timestamps"]]
    assert " ".join(word["word"] for word in words).startswith("Hello there world It was late and")
    starts = [word["start_time"] for word in words]
    assert starts == sorted(starts)
    seconds = sum(len(base64.b64decode(line["audio"])) for line in lines) / 2 / 24_000
    assert seconds / 2 < starts[-1] < seconds


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("fields", "status", "field"),
    [({"input": None}, 422, "input"), ({"ssml": True}, 400, "input"), ({"voice": "nobody"}, 400, "voice")],
)
def test_a_wrong_field_of_captions_is_named(
    tiny_server: Server, stream: bool, fields: dict[str, Any], status: int, field: str
) -> None:
    answer = post(tiny_server, "/dev/captioned_speech", {"input": TEXT, "stream": stream, **fields})
    assert (answer.status_code, answer.json()["detail"]["field"]) == (status, field)


def test_phonemes_of_a_text_and_back(tiny_server: Server) -> None:
    answer = post(tiny_server, "/dev/phonemize", {"text": TEXT, "language": "a"}).json()
    assert answer["phonemes"] == phonemes(tiny_server, TEXT)
    assert len(answer["tokens"]) == len(answer["phonemes"])
    body = {"phonemes": answer["phonemes"], "voice": "af_bella"}
    spoken = post(tiny_server, "/dev/generate_from_phonemes", body)
    assert spoken.headers["content-type"] == "audio/wav"
    assert spoken.content == post(tiny_server, "/tts", body).content
    assert post(tiny_server, "/dev/phonemize", {"text": TEXT, "language": "x"}).json()["detail"]["field"] == "language"


@pytest.mark.parametrize("voices", ["af_bella+af_sky", ["af_bella", "af_sky"]])
def test_a_blend_comes_as_a_file(tiny_server: Server, voices: Any) -> None:
    mixed, bella, sky = (
        torch.load(io.BytesIO(post(tiny_server, "/v1/audio/voices/combine", asked).content), weights_only=True)
        for asked in (voices, "af_bella", "af_sky")
    )
    assert mixed.shape == (510, 1, 256)
    torch.testing.assert_close(mixed, (bella + sky) / 2)


def test_a_blend_may_name_voices_of_openai(tiny_server: Server) -> None:
    blends = (
        speech(tiny_server, input="Hi.", voice=voice).content for voice in ("coral(2)+marin", "af_bella(2)+af_heart")
    )
    assert len(set(blends)) == 1


def test_a_voice_is_taken_away(tiny_server: Server) -> None:
    assert speech(tiny_server, voice="af_bella-af_sky(0.3)").content != speech(tiny_server, voice="af_bella").content


@pytest.mark.parametrize("voices", ["nobody", [], [1], ["af_sky"] * 9, {"voices": 1}, "af_bella-", "af_sky+" * 100])
def test_what_is_no_blend_is_refused(tiny_server: Server, voices: Any) -> None:
    answer = post(tiny_server, "/v1/audio/voices/combine", voices)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_probe_is_answered(tiny_server: Server) -> None:
    assert httpx.get(f"{tiny_server.url}/v1/test").json() == {"status": "ok"}


@pytest.mark.parametrize("voice", ["\udfff", {"id": "\udfff"}])
@pytest.mark.parametrize(
    ("path", "text", "status"),
    [
        ("/v1/audio/speech", "input", 400),
        ("/dev/captioned_speech", "input", 422),
        ("/cartesia/tts/bytes", "transcript", 400),
    ],
)
def test_half_of_a_surrogate_pair_is_no_voice(
    tiny_server: Server, path: str, text: str, status: int, voice: object
) -> None:
    form = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
    body = json.dumps({text: "Hello.", "voice": voice, "output_format": form})
    answer = httpx.post(tiny_server.url + path, content=body, headers=JSON, timeout=60)
    assert answer.status_code == status, answer.text
    assert "voice: Input should be a valid string" in answer.text


@pytest.mark.parametrize("path", ["/dev/ssml", "/v1/text-to-speech/af_heart/with-timestamps"])
def test_half_of_a_surrogate_pair_is_no_text(tiny_server: Server, path: str) -> None:
    answer = httpx.post(tiny_server.url + path, content=json.dumps({"text": "\ud800"}), headers=JSON, timeout=60)
    assert answer.status_code == 422, answer.text
    assert "text: Input should be a valid string" in answer.text
