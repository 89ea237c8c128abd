"""Requests as clients of ElevenLabs' REST API send them, against a running server."""

from __future__ import annotations

import base64
import io
import json
from itertools import pairwise
from typing import Any

import av
import httpx
import numpy as np
import pytest

from kokoro_server.api.compat.elevenlabs.stock_voices import STOCK
from kokoro_server.assets.catalog import CATALOG
from tests.audio_files import assert_same_samples, decode
from tests.servers import Server, say

TEXT = 'Hello there, world. It cost $5 - "too much", she said;  nobody knew why! (At all.)'
KEY = {"xi-api-key": "anything"}
NEAR = 0.1  # seconds


def post(server: Server, path: str, body: Any = None, **query: Any) -> httpx.Response:
    body = {"text": TEXT, "model_id": "eleven_flash_v2_5"} if body is None else body
    return httpx.post(server.url + path, json=body, params=query, headers=KEY, timeout=300)


def get(server: Server, path: str, headers: dict[str, str] = KEY, **query: Any) -> Any:
    answer = httpx.get(server.url + path, params=query, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def captioned_words(server: Server, text: str = TEXT, headers: dict[str, str] | None = None) -> list[dict[str, Any]]:
    body = {"text": text, "voice": "af_heart"}
    answer = httpx.post(server.url + "/tts/captioned", json=body, headers=headers, timeout=300)
    return [word for line in answer.text.splitlines() for word in json.loads(line).get("words", [])]


def check_alignment(alignment: dict[str, Any], words: list[dict[str, Any]], text: str = TEXT) -> None:
    starts, ends = alignment["character_start_times_seconds"], alignment["character_end_times_seconds"]
    assert "".join(alignment["characters"]) == text
    assert len(starts) == len(ends) == len(text)
    assert starts[0] == pytest.approx(words[0]["start"], abs=NEAR)
    both = [time for pair in zip(starts, ends, strict=True) for time in pair]
    assert all(before <= after for before, after in pairwise(both))
    for word in words:
        assert starts[word["char_start"]] == pytest.approx(word["start"], abs=NEAR)
        assert ends[word["char_end"] - 1] == pytest.approx(word["end"], abs=NEAR)


@pytest.mark.parametrize("prefix", ["", "/elevenlabs"])
@pytest.mark.parametrize("ending", ["", "/stream"])
def test_a_text_is_spoken(tiny_server: Server, prefix: str, ending: str) -> None:
    answer = post(tiny_server, f"{prefix}/v1/text-to-speech/af_heart{ending}", output_format="pcm_24000")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "audio/pcm"
    ours = httpx.post(f"{tiny_server.url}/tts{ending}", json={"text": TEXT, "format": "pcm"}, timeout=300)
    assert_same_samples(answer.content, ours.content)


@pytest.mark.parametrize(
    ("name", "codec", "rate"),
    [
        ("mp3_44100_128", "mp3", 44_100),
        ("mp3_22050_32", "mp3", 22_050),
        ("mp3_44100_192", "mp3", 44_100),
        ("opus_48000_64", "opus", 48_000),
        ("wav_44100", "pcm_s16le", 44_100),
    ],
)
def test_formats_are_as_their_names_say(tiny_server: Server, name: str, codec: str, rate: int) -> None:
    content = post(tiny_server, "/v1/text-to-speech/af_heart", output_format=name).content
    with av.open(io.BytesIO(content)) as container:
        stream = container.streams.audio[0]
        assert (stream.codec_context.codec.name.removesuffix("float"), stream.sample_rate) == (codec, rate)
        if codec == "mp3":
            assert stream.bit_rate == int(name.rpartition("_")[2]) * 1000
    assert decode(content, codec).any()


@pytest.mark.parametrize(("name", "size"), [("pcm_16000", 2), ("ulaw_8000", 1), ("alaw_8000", 1)])
def test_bare_samples_have_the_rate(tiny_server: Server, name: str, size: int) -> None:
    answer = post(tiny_server, "/v1/text-to-speech/af_heart", output_format=name)
    seconds = float(answer.headers["x-audio-duration"])
    rate = int(name.rpartition("_")[2])
    assert len(answer.content) / size / rate == pytest.approx(seconds, abs=0.01)


def test_characters_have_times(tiny_server: Server) -> None:
    answer = post(tiny_server, "/v1/text-to-speech/af_heart/with-timestamps", output_format="pcm_24000").json()
    assert base64.b64decode(answer["audio_base64"]) == say(tiny_server, TEXT, format="pcm").content
    check_alignment(answer["alignment"], captioned_words(tiny_server))
    assert answer["normalized_alignment"] == answer["alignment"]


def test_characters_have_times_in_a_stream(tiny_server: Server) -> None:
    text = " ".join([TEXT] * 4)
    body = {"text": text}
    path = "/v1/text-to-speech/af_heart/stream/with-timestamps"
    lines = post(tiny_server, path, body, output_format="pcm_24000").text.splitlines()
    assert max(map(len, lines)) < 128 * 1024, "aiohttp refuses longer lines"
    objects = [json.loads(line) for line in lines]
    audio = np.frombuffer(b"".join(base64.b64decode(item["audio_base64"]) for item in objects), "<i2")
    stretches = [item["alignment"] for item in objects if item["alignment"]]
    assert len(stretches) > 1
    whole: dict[str, list[Any]] = {name: [value for one in stretches for value in one[name]] for name in stretches[0]}
    check_alignment(whole, captioned_words(tiny_server, text, {"Accept": "application/x-ndjson"}), text)
    assert whole["character_end_times_seconds"][-1] == pytest.approx(len(audio) / 24_000, abs=0.01)


def test_settings_are_those_of_ours(tiny_server: Server) -> None:
    body = {
        "text": "Uno dos 3.",
        "model_id": "eleven_multilingual_v2",
        "language_code": "es",
        "seed": 7,
        "apply_text_normalization": "off",
        "voice_settings": {"speed": 1.2, "stability": 0.5, "similarity_boost": 0.8, "style": 0, "use_speaker_boost": 1},
        "previous_text": "Before.",
        "next_text": "After.",
        "pronunciation_dictionary_locators": [],
        "use_pvc_as_ivc": False,
    }
    made = post(tiny_server, "/v1/text-to-speech/af_heart", body, output_format="pcm_24000", enable_logging="false")
    expected = say(tiny_server, body["text"], language="es", seed=7, speed=1.2, normalize=False, format="pcm")
    assert made.content == expected.content
    assert "model=eleven_multilingual_v2" in tiny_server.lines()


def test_a_language_without_a_region_is_the_voices_own(tiny_server: Server) -> None:
    text = "The schedule of the lieutenant."
    made = post(
        tiny_server, "/v1/text-to-speech/bf_emma", {"text": text, "language_code": "en"}, output_format="pcm_24000"
    )
    assert made.content == say(tiny_server, text, voice="bf_emma", format="pcm").content


@pytest.mark.parametrize(
    ("path", "body", "query", "status", "code", "named"),
    [
        ("af_nobody", None, {}, 400, "voice_not_found", "af_nobody"),
        ("hpp4J3VqNfWAUOO0d1Us/stream", None, {}, 400, "voice_not_found", "GET /voices"),
        ("af_heart", {"model_id": "x"}, {}, 422, "invalid_input", "text"),
        ("af_heart", {"text": "Hi.", "voice_settings": {"speed": 9}}, {}, 422, "invalid_input", "voice_settings.speed"),
        ("af_heart", {"text": "Hi.", "language_code": "xx"}, {}, 400, "unknown_language", "xx"),
        (
            "af_heart",
            {"text": "Hi.", "pronunciation_dictionary_locators": [{"pronunciation_dictionary_id": "a"}]},
            {},
            422,
            "invalid_input",
            "pronunciation_dictionary_locators",
        ),
        ("af_heart", None, {"output_format": "mp3_44100_33"}, 422, "invalid_input", "32000"),
        ("af_heart", None, {"output_format": "mp3_22050_192"}, 422, "invalid_input", "160000"),
        ("af_heart", None, {"output_format": "opus_44100_64"}, 422, "invalid_input", "48000"),
        ("af_heart", None, {"output_format": "midi"}, 422, "invalid_input", "mp3_44100_128"),
        ("af_heart", None, {"output_format": "pcm_99999"}, 422, "invalid_input", "output_format"),
        ("af_heart/with-timestamps", None, {"output_format": "wav_24000_64"}, 422, "invalid_input", "mp3 and opus"),
    ],
)
def test_errors_have_their_shape(
    tiny_server: Server, path: str, body: Any, query: dict[str, str], status: int, code: str, named: str
) -> None:
    for prefix in ("", "/elevenlabs"):
        answer = post(tiny_server, f"{prefix}/v1/text-to-speech/{path}", body, **query)
        assert answer.status_code == status, answer.text
        assert answer.json()["detail"]["status"] == code
        assert named in answer.json()["detail"]["message"]


def test_voices_are_listed(tiny_server: Server) -> None:
    ours = {voice["name"] for voice in get(tiny_server, "/voices")["voices"]}
    voices = get(tiny_server, "/v1/voices")["voices"]
    assert {voice["voice_id"] for voice in voices} == ours
    assert all(voice["name"] and voice["category"] == "premade" for voice in voices)
    assert get(tiny_server, "/elevenlabs/v1/voices/bf_emma")["labels"]["accent"] == "British English"
    assert get(tiny_server, "/v1/voices/marin")["voice_id"] == "af_heart"


def test_voices_are_searched_page_by_page(tiny_server: Server) -> None:
    found, token = list[str](), None
    while True:
        page = get(tiny_server, "/v2/voices", page_size=4, **({"next_page_token": token} if token else {}))
        found += [voice["voice_id"] for voice in page["voices"]]
        token = page["next_page_token"]
        assert page["has_more"] == (token is not None)
        if token is None:
            break
    assert sorted(found) == sorted(voice["name"] for voice in get(tiny_server, "/voices")["voices"])
    assert page["total_count"] == len(found) > 4
    english = get(tiny_server, "/elevenlabs/v2/voices", search="emma british")
    assert [voice["voice_id"] for voice in english["voices"]] == ["bf_emma"]
    assert get(tiny_server, "/v2/voices", category="cloned")["voices"] == []


def test_models_are_an_array_for_their_clients_and_an_object_for_openais(tiny_server: Server) -> None:
    theirs = get(tiny_server, "/v1/models")
    assert {"kokoro", "eleven_flash_v2_5"} <= {model["model_id"] for model in theirs}
    assert get(tiny_server, "/elevenlabs/v1/models", headers={}) == theirs
    assert get(tiny_server, "/v1/models", headers={"Authorization": "Bearer x"})["object"] == "list"


def test_the_account_has_no_limit(tiny_server: Server) -> None:
    subscription = get(tiny_server, "/v1/user/subscription")
    assert subscription["character_count"] < subscription["character_limit"]
    assert get(tiny_server, "/elevenlabs/v1/user")["subscription"] == subscription


@pytest.mark.parametrize(
    ("voice_id", "name"),
    [("21m00Tcm4TlvDq8ikWAM", "af_heart"), ("9BWtsMINqrJLrRacOk9x", "af_bella"), ("af_sky", "af_sky")],
)
def test_stock_voices_stand_for_ours(tiny_server: Server, voice_id: str, name: str) -> None:
    answer = httpx.post(f"{tiny_server.url}/v1/text-to-speech/{voice_id}", json={"text": "Hi."}, timeout=300)
    assert answer.headers["x-voice-used"] == name
    assert httpx.get(f"{tiny_server.url}/v1/voices/{voice_id}").json()["voice_id"] == name


def test_every_stock_voice_is_one_that_we_have() -> None:
    assert set(STOCK.values()) <= set(CATALOG.voices)
    assert all(len(theirs) == 20 for theirs in STOCK)


def test_the_account_has_every_key_that_clients_require(tiny_server: Server) -> None:
    user = httpx.get(f"{tiny_server.url}/v1/user").json()
    subscription = httpx.get(f"{tiny_server.url}/v1/user/subscription").json()
    assert {"user_id", "workspace_id", "is_onboarding_completed", "created_at", "seat_type"} < set(user)
    assert user["subscription"] == subscription
    assert {"current_overage", "max_credit_limit_extension", "open_invoices", "has_open_invoices"} < set(subscription)
