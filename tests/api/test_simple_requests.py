"""Plain text, forms and URLs in place of JSON, against a running server."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.servers import Server, say

TEXT = "Grüße, world & all. 1+1=2."
FOREIGN = "https://evil.example"
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PLAIN = {"Content-Type": "text/plain"}


@pytest.fixture(scope="module")
def expected(tiny_server: Server) -> bytes:
    return say(tiny_server, TEXT, voice="af_bella", speed=1.5, format="pcm").content


FIELDS = {"voice": "af_bella", "speed": "1.5", "format": "PCM"}


@pytest.mark.parametrize("path", ["/tts", "/tts/stream"])
@pytest.mark.parametrize(
    "request_of",
    [
        lambda url: httpx.post(
            f"{url}?{urlencode(FIELDS)}", content=TEXT.encode(), headers={"Content-Type": "text/plain"}
        ),
        lambda url: httpx.post(
            f"{url}?{urlencode(FIELDS)}", content=TEXT.encode(), headers={"Content-Type": "Text/Plain; charset=utf-8"}
        ),
        lambda url: httpx.get(url, params={"text": TEXT, **FIELDS}),
        lambda url: httpx.post(url, data={"text": TEXT, **FIELDS}),
        lambda url: httpx.post(f"{url}?voice=af_heart", data={"text": TEXT, **FIELDS, "language": ""}),
    ],
    ids=["text", "charset", "url", "form", "form over query"],
)
def test_same_audio_as_json(tiny_server: Server, expected: bytes, path: str, request_of: Any) -> None:
    answer = request_of(tiny_server.url + path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "audio/pcm"
    assert answer.headers["x-voice-used"] == "af_bella"
    if path == "/tts":
        assert answer.content == expected


@pytest.mark.parametrize("headers", [FORM, PLAIN], ids=["curl", "fetch"])
def test_json_that_is_called_a_form_or_plain_text(tiny_server: Server, headers: dict[str, str]) -> None:
    body = b'{"text": "Hello.", "voice": "am_adam"}'
    answer = httpx.post(f"{tiny_server.url}/tts", content=body, headers=headers)
    assert answer.headers["x-voice-used"] == "am_adam"


def test_other_text_may_have_braces(tiny_server: Server) -> None:
    answer = httpx.post(f"{tiny_server.url}/tts", content=b"{Hello.}", headers=PLAIN)
    assert answer.status_code == 200


@pytest.mark.parametrize("format", ["WAV", "Wav", "wav"])
def test_format_in_any_case(tiny_server: Server, format: str) -> None:
    answer = say(tiny_server, "Hello.", format=format)
    assert answer.headers["content-type"] == "audio/wav"
    assert answer.headers["content-disposition"].endswith("tts_output.wav")
    captioned = httpx.post(f"{tiny_server.url}/tts/captioned", json={"text": "Hello.", "format": "SRT"})
    assert captioned.text.startswith("1\n")


@pytest.mark.parametrize("value", ["false", "False", "numbers,dates"])
def test_normalize_as_words(tiny_server: Server, value: str) -> None:
    answer = httpx.get(f"{tiny_server.url}/tts", params={"text": "Hello 5.", "normalize": value})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("send", "status", "field", "words"),
    [
        (lambda url: httpx.get(url), 422, "text", "exactly one of"),
        (lambda url: httpx.get(url, params={"text": ""}), 422, "text", "exactly one of"),
        (lambda url: httpx.get(url, params={"text": "Hi.", "colour": "red"}), 422, "colour", "there is no such field"),
        (lambda url: httpx.get(url, params={"text": "Hi.", "speed": "fast"}), 422, "speed", "number"),
        (lambda url: httpx.get(url, params={"text": "Hi.", "format": "ogg"}), 422, "format", "'wav'"),
        (lambda url: httpx.get(url, params={"text": "Hi.", "normalize": "x"}), 422, "normalize", "list of kinds"),
        (lambda url: httpx.get(url, params={"text": "Hi.", "voice": "nobody"}), 400, "voice", "no voice"),
        (lambda url: httpx.get(f"{url}?text=Tom & Jerry."), 422, " Jerry.", "there is no such field"),
        (lambda url: httpx.get(f"{url}?text=one&text=two"), 422, "text", "more than once"),
        (lambda url: httpx.post(f"{url}?text=a", content=b"b", headers=PLAIN), 422, "text", "more than once"),
        (lambda url: httpx.post(url, content=b"text=" + b"%41" * 400_000, headers=FORM), 413, None, "send JSON"),
        (lambda url: httpx.get(f"{url}?text=%ff%fe"), 400, None, "not UTF-8"),
        (lambda url: httpx.get(f"{url}?text=a" + "&a=b" * 200), 422, None, "too many fields"),
        (lambda url: httpx.post(url, content=b"\xff\xfe", headers={"Content-Type": "text/plain"}), 400, None, "UTF-8"),
        (lambda url: httpx.post(url, content=b"", headers={"Content-Type": "text/plain"}), 422, "text", ""),
        (lambda url: httpx.post(url, content=b"{", headers=FORM), 422, None, "not valid JSON"),
        (lambda url: httpx.post(url, content=b"text=Hi.&lexicon=x", headers=FORM), 422, "lexicon", "dictionary"),
    ],
)
def test_wrong_ones_name_the_field(tiny_server: Server, send: Any, status: int, field: str | None, words: str) -> None:
    answer = send(f"{tiny_server.url}/tts")
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error.get("field") == field
    assert words in error["message"]


PAGE_HEADERS = [
    {"Origin": FOREIGN},
    {"Origin": "null"},
    {"Origin": FOREIGN, "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "cross-site", "User-Agent": CHROME},
    {"Sec-Fetch-Site": "same-site", "User-Agent": CHROME},
    {"Sec-Fetch-Site": "cross-site", "Referer": f"{FOREIGN}/page"},
]


@pytest.mark.parametrize("headers", PAGE_HEADERS)
@pytest.mark.parametrize("path", ["/tts", "/tts/stream"])
def test_foreign_pages_make_no_speech(tiny_server: Server, headers: dict[str, str], path: str) -> None:
    url = tiny_server.url + path
    answers = (
        httpx.get(url, params={"text": "Hi."}, headers=headers),
        httpx.post(url, content=b"Hi.", headers={**headers, "Content-Type": "text/plain"}),
        httpx.post(url, data={"text": "Hi."}, headers=headers),
    )
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert all("CORS_ORIGINS" in answer.text for answer in answers)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        # Over plain HTTP in a network, browsers send no Sec-Fetch-Site.
        ({"User-Agent": CHROME}, 403),
        ({"User-Agent": CHROME, "Referer": f"{FOREIGN}/"}, 403),
        ({"User-Agent": CHROME, "Referer": "nonsense"}, 403),
        ({"User-Agent": CHROME, "Referer": "http://["}, 403),
        ({"User-Agent": "AppleCoreMedia/1.0.0.21F90 (iPhone; U; CPU OS 17_5_1 like Mac OS X)"}, 403),
        ({"User-Agent": CHROME, "Referer": "{url}/"}, 200),
        ({"User-Agent": CHROME, "Referer": "http://localhost:3000/app"}, 200),
        ({"User-Agent": CHROME, "Sec-Fetch-Site": "none"}, 200),  # typed by a person
        ({"User-Agent": CHROME, "Sec-Fetch-Site": "same-origin"}, 200),
        ({"User-Agent": CHROME, "Sec-Fetch-Site": "cross-site", "Referer": "http://localhost:3000/"}, 200),
        ({"User-Agent": "VLC/3.0.20 LibVLC/3.0.20"}, 200),
        ({"User-Agent": "curl/8.5.0"}, 200),
        ({}, 200),
    ],
)
def test_which_browsers_may_fetch_a_url(tiny_server: Server, headers: dict[str, str], status: int) -> None:
    sent = {name: value.format(url=tiny_server.url) for name, value in headers.items()}
    answer = httpx.get(f"{tiny_server.url}/tts", params={"text": "Hi."}, headers=sent)
    assert answer.status_code == status, answer.text


def test_pages_that_may_use_the_server_send_forms(tiny_server: Server) -> None:
    for origin in (tiny_server.url, "http://localhost:3000"):
        answer = httpx.post(f"{tiny_server.url}/tts", data={"text": "Hi."}, headers={"Origin": origin})
        assert answer.status_code == 200, answer.text
    refused = httpx.post(f"{tiny_server.url}/tts/captioned", data={"text": "Hi."}, headers={"Origin": tiny_server.url})
    assert refused.status_code == 415
    untyped = httpx.post(f"{tiny_server.url}/tts", content=b'{"text": "Hi."}', headers={"Origin": tiny_server.url})
    assert untyped.status_code == 415


def test_other_urls_are_links_as_before(tiny_server: Server) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "User-Agent": CHROME}
    assert httpx.get(f"{tiny_server.url}/voices", headers=headers).status_code == 200


def test_a_wrong_field_is_all_that_is_said(tiny_server: Server) -> None:
    answer = httpx.get(f"{tiny_server.url}/tts", params={"text": "Hi.", "code_blocks": "x"})
    assert answer.json()["error"]["field"] == "code_blocks"
    assert "voice" not in answer.json()["error"]["message"]
    aliases = {"x": {"voice": "am_adam", "rate": 50}}
    body = {"input": "Hi.", "voice": "x", "voice_aliases": aliases}
    answer = httpx.post(f"{tiny_server.url}/v1/audio/speech", json=body)
    assert answer.json()["error"]["param"] == "voice_aliases.x.rate"


@pytest.mark.parametrize("path", ["/tts", "/tts/stream"])
def test_players_may_ask_before_they_play(tiny_server: Server, path: str) -> None:
    asked = httpx.head(f"{tiny_server.url}{path}?text=Hello.&format=MP3")
    assert (asked.status_code, asked.headers["content-type"], asked.content) == (200, "audio/mpeg", b"")
    assert "x-queue-time-ms" not in asked.headers
    assert httpx.head(f"{tiny_server.url}{path}?text=Hello.&format=exe").status_code == 422
    foreign = {"Origin": "https://evil.example"}
    assert httpx.head(f"{tiny_server.url}{path}?text=Hello.", headers=foreign).status_code == 403


def test_a_multipart_form_is_told_what_is_read(tiny_server: Server) -> None:
    answer = httpx.post(f"{tiny_server.url}/tts", files={"text": (None, "Hello.")})
    assert (answer.status_code, "x-www-form-urlencoded" in answer.text) == (415, True)
