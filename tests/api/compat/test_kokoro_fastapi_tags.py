"""Kokoro-FastAPI's tags of rates, aliases with a pace, its SSML endpoints and its names."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kokoro_server.api.compat.kokoro_fastapi.ssml_text import tagged
from kokoro_server.languages import EN_US
from kokoro_server.text import voice_tags
from kokoro_server.text.script import Cast, Delivery, Run
from kokoro_server.text.traced import Traced
from tests.growth import is_at_most
from tests.servers import Server, say

TEXT = "The quick brown fox jumps over the lazy dog and keeps on running through the open field."


class Voices:
    def canonical(self, spec: str) -> str:
        return spec

    def language(self, spec: str) -> str:
        return spec[0]


def speeds(text: str, speed: float = 1.0, rates: dict[str, float] | None = None) -> list[tuple[str, str, float]]:
    cast = Cast(Voices(), None, {"slow": "af_bella"}, rates or {})
    run = Run(Traced.of(text), Delivery("af_heart", EN_US, speed))
    return [
        (each.text.text.strip(), each.delivery.voice, round(each.delivery.speed, 4))
        for each in voice_tags.split(run, cast, speed, rates=True)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[rate:0.5] a", [("a", "af_heart", 0.5)]),
        ("a [RATE: 2 ] b [rate:1.0] c", [("a", "af_heart", 1.0), ("b", "af_heart", 2.0), ("c", "af_heart", 1.0)]),
        ("[rate:2] a [voice:am_adam] b", [("a", "af_heart", 2.0), ("b", "am_adam", 1.0)]),
        ("[voice:slow] a [rate:1.1] b", [("a", "af_bella", 0.8), ("b", "af_bella", 0.88)]),
        ("[voice:slow] a [/voice] b", [("a", "af_bella", 0.8), ("b", "af_heart", 1.0)]),
        ("[rate:99] a [rate:0] b", [("a", "af_heart", 4.0), ("b", "af_heart", 0.25)]),
        ("[rate:fast] a", [("[rate:fast] a", "af_heart", 1.0)]),
        ("[rate:2](/x/) a", [("[rate:2](/x/) a", "af_heart", 1.0)]),
    ],
)
def test_rates(text: str, expected: list[tuple[str, str, float]]) -> None:
    assert speeds(text, rates={"slow": 0.8}) == expected


def test_the_speed_of_the_request_is_scaled() -> None:
    assert speeds("a [voice:slow] b [rate:0.5] c", 2.0, {"slow": 0.8}) == [
        ("a", "af_heart", 2.0),
        ("b", "af_bella", 1.6),
        ("c", "af_bella", 0.8),
    ]


def post(server: Server, path: str, **body: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=300)


def pcm(server: Server, text: str = TEXT, **fields: Any) -> bytes:
    body = {"input": text, "voice": "af_bella", "response_format": "pcm", "stream": False, **fields}
    answer = post(server, "/v1/audio/speech", **body)
    assert answer.status_code == 200, answer.text
    return answer.content


def test_rate_and_pace_of_an_alias(tiny_server: Server) -> None:
    assert pcm(tiny_server, f"[rate:0.5] {TEXT}", allow_voice_tags=True) == pcm(tiny_server, speed=0.5)
    aliases = {"slowpoke": {"voice": "af_bella", "rate": 0.8}, "plain": "af_bella"}
    assert pcm(tiny_server, voice="slowpoke", voice_aliases=aliases) == pcm(tiny_server, speed=0.8)
    assert pcm(tiny_server, voice="plain", voice_aliases=aliases) == pcm(tiny_server)


def test_tags_may_be_switched_off(tiny_server: Server) -> None:
    text = f"[voice:am_adam] {TEXT}"
    assert pcm(tiny_server, text) == pcm(tiny_server, text, allow_voice_tags=True) == pcm(tiny_server, voice="am_adam")
    assert pcm(tiny_server, text, allow_voice_tags=False) != pcm(tiny_server, text)
    unknown = "[voice:nobody] Hello."
    assert post(tiny_server, "/v1/audio/speech", input=unknown).status_code == 400
    assert pcm(tiny_server, unknown, allow_voice_tags=False)


def test_ssml_becomes_tags(tiny_server: Server) -> None:
    ssml = f'<speak><prosody rate="slow">{TEXT}</prosody></speak>'
    translated = post(tiny_server, "/dev/ssml", text=ssml, voice="af_bella").json()["text"]
    assert translated == f"[rate:0.75]{TEXT}"
    assert pcm(tiny_server, translated, allow_voice_tags=True) == pcm(tiny_server, speed=0.75)
    assert post(tiny_server, "/dev/ssml", text=ssml).json()["text"] == TEXT
    mixed = '<speak>Hi<break time="1s"/>there, <voice name="am_adam">you</voice> <sub alias="all">a</sub>.</speak>'
    text = post(tiny_server, "/dev/ssml", text=mixed, voice="af_bella").json()["text"]
    assert text.startswith("Hi[pause:1s]there,")
    assert "[voice:am_adam]you" in text
    assert "[voice:af_bella]" in text
    assert "all." in text
    assert post(tiny_server, "/dev/ssml", text="No markup.").json()["text"] == "No markup."
    assert post(tiny_server, "/dev/ssml", text="<speak>open").status_code == 400
    support = httpx.get(f"{tiny_server.url}/dev/ssml").json()
    assert support["prosody_rates"]["slow"] == 0.75
    assert {"elements", "ignored", "break_strengths", "rate_range"} < set(support)


def test_nothing_is_said_of_an_empty_script() -> None:
    assert tagged([], tags=True) == ""


def test_lists_and_pages(tiny_server: Server) -> None:
    voices = httpx.get(f"{tiny_server.url}/v1/audio/voices").json()["voices"]
    assert all(voice["id"] == voice["name"] for voice in voices)
    page = httpx.get(f"{tiny_server.url}/web/", follow_redirects=True)
    assert (page.status_code, page.url.path) == (200, "/")
    assert page.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/dev/unload"), ("GET", "/debug/threads"), ("GET", "/debug/system")]
)
def test_what_is_disabled(tiny_server: Server, method: str, path: str) -> None:
    assert httpx.request(method, tiny_server.url + path).status_code == 403


def test_voices_that_only_kokoro_fastapi_has(tiny_server: Server) -> None:
    for voice in ("af_jadzia", "af_v0bella", "am_v0gurney"):
        answer = post(tiny_server, "/v1/audio/speech", input="Hi.", voice=voice)
        assert answer.status_code == 400
        assert "Kokoro-FastAPI adds it" in answer.json()["error"]["message"]


def test_names_of_openai_below_its_own_paths(tiny_server: Server) -> None:
    body = {"input": "Hello.", "response_format": "pcm", "stream": False}
    theirs, ours = (
        post(tiny_server, "/dev/captioned_speech", **body, voice=voice).json()["audio"]
        for voice in ("alloy", "am_adam")
    )
    assert theirs == ours
    assert say(tiny_server, "Hello.", voice="alloy").status_code == 400  # af_alloy, which the tiny model does not have


def test_tags_are_found_in_linear_time() -> None:
    short, long = (lambda: speeds("[rate:1" * 2_000)), (lambda: speeds("[rate:1" * 8_000))
    assert is_at_most(8, short, long, harmless=0.01)
