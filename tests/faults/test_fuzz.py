"""Random requests, texts and WebSocket messages: no 5xx, no hang, and the server is well afterwards.

`FUZZ_EXAMPLES=500 pytest tests/faults/test_fuzz.py` draws more of them, and others each time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosedOK
from websockets.sync.client import ClientConnection, connect

from tests.servers import Server

EXAMPLES = os.environ.get("FUZZ_EXAMPLES")
PATIENCE = 120  # seconds; a request that takes longer counts as lost
UPGRADE = (
    b"GET /tts/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
VOICES = ("af_heart", "bf_emma", "ef_dora", "ff_siwis", "jf_alpha", "zf_xiaobei")


def examples(count: int) -> settings:
    return settings(
        max_examples=int(EXAMPLES or count),
        derandomize=not EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(autouse=True)
def well_afterwards(tiny_server: Server) -> Iterator[None]:
    before = tiny_server.lines()
    yield
    deadline = time.monotonic() + PATIENCE
    while set(unfinished(tiny_server)) != {0.0}:
        assert time.monotonic() < deadline, "requests are left in the queue"
        time.sleep(0.1)
    with httpx.Client(base_url=tiny_server.url, timeout=PATIENCE) as client:
        assert client.get("/health/live").status_code == 200
        assert client.post("/tts", json={"text": "Still there."}).status_code == 200
    assert "Traceback" not in tiny_server.lines()[len(before) :]


def unfinished(server: Server) -> list[float]:
    metrics = httpx.get(f"{server.url}/metrics", timeout=PATIENCE).text
    return [float(value) for value in re.findall(r"^tts_requests_(?:running|waiting).* ([\d.e+]+)$", metrics, re.M)]


ODD = "[](){}<>/\\'\".,;:!?…—–-_@#%&*+=$€°²½①Ⅷ0123456789 \n\t\r\x00\x1b\x7f\x85\xa0\u200b\u200d\u2028\u202e\ufeff\ufffd"
LETTERS = "aAéñßÆʒˈːक\u093fह你好か漢カー가ا א\u0301\u0308😀🇩🇪👨\u200d👩\ufe0f𝒜\ud800\udfff\uffff\U0010ffff"
BITS = (
    *("[pause:", "0.1s]", "[a](/a/)", "](/", "[", "/)", "Dr. ", "3.14", "12:30", "a@b.co", "https://x.y/z", "1,000"),
    *("Hello", "word ", "你好。", "こんにちは", "नमस्ते", "\n\n", "- ", "5°C", "$5.20", "e.g. ", "……", "２０", "ＡＢＣ"),
)
TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(st.characters(), max_size=60),  # with surrogates
    st.text(ODD + LETTERS, max_size=200),
    st.lists(st.sampled_from(BITS), max_size=30).map("".join),
    st.tuples(st.sampled_from([*ODD, *LETTERS, "A. ", "a-", "か\n", "12:"]), st.integers(1, 200)).map(
        lambda drawn: drawn[0] * drawn[1]
    ),
)


@given(text=TEXTS, voice=st.sampled_from(VOICES), path=st.sampled_from(["/tts", "/tts/stream", "/tts/captioned"]))
@examples(25)
def test_any_text_is_spoken_or_refused(tiny_server: Server, text: str, voice: str, path: str) -> None:
    body = json.dumps({"text": text, "voice": voice, "speed": 4})  # ASCII: JSON has an escape for a lone surrogate
    headers = {"Content-Type": "application/json"}
    response = httpx.post(f"{tiny_server.url}{path}", content=body, headers=headers, timeout=PATIENCE)
    assert response.status_code in (200, 422), f"{response.status_code} {response.text[:300]}"
    assert len(response.content) > 44 if response.status_code == 200 else response.json()["error"]["field"] == "text"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = (
    *("text", "phonemes", "voice", "language", "speed", "pitch", "volume", "seed", "format", "sample_rate", "input"),
    *("trim", "lead", "tail", "pauses"),
    *("sample_format", "optimize_for_latency", "requests", "model", "response_format", "stream_format", "instructions"),
)
BODIES = st.one_of(
    st.binary(max_size=100),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5).map(lambda value: json.dumps(value).encode()),
    st.integers(1, 3000).map(lambda depth: b'{"text":' + b"[" * depth + b"]" * depth + b"}"),
    st.integers(1, 900).map(lambda depth: b'{"requests":[{"text":' + b"[" * depth + b"]" * depth + b"}]}"),
)
PATHS = (
    *("/tts", "/tts/stream", "/tts/captioned", "/tts/batch", "/v1/audio/speech", "/v1/audio/speech/timestamps"),
    *("/dev/captioned_speech", "/dev/phonemize", "/dev/generate_from_phonemes", "/v1/audio/voices/combine"),
    *("/dev/dialogue", "/v1/speak", "/tts/bytes", "/tts/sse", "/v1/text-to-speech/af_heart", "/voices"),
)


def message_of(response: httpx.Response) -> str:
    """Of an error, whichever protocol's shape it has."""
    answer = response.json()
    error = answer.get("error") or answer.get("detail") or answer
    message: str = error.get("message") or error["err_msg"]
    return message


@given(body=BODIES, path=st.sampled_from(PATHS), timeout=st.sampled_from([None, "1", "-1", "nan", "x", "1" * 400]))
@examples(100)
def test_any_body_is_answered(tiny_server: Server, body: bytes, path: str, timeout: str | None) -> None:
    headers = {"Content-Type": "application/json"} | ({"X-Request-Timeout": timeout} if timeout else {})
    response = httpx.post(f"{tiny_server.url}{path}", content=body, headers=headers, timeout=PATIENCE)
    assert response.status_code < 500 or (timeout == "1" and response.status_code == 504), response.text[:300]
    if response.status_code >= 400:
        assert message_of(response)
        assert "Traceback" not in response.text
        assert "/kokoro_server/" not in response.text


MESSAGES = st.one_of(
    st.tuples(st.just("append"), TEXTS).map(lambda drawn: {"type": "append", "text": drawn[1]}),
    st.sampled_from(["flush", "cancel", "close"]).map(lambda kind: {"type": kind}),
    st.fixed_dictionaries(
        {"type": st.just("start")},
        optional={
            "voice": st.sampled_from([*VOICES, "nobody"]),
            "speed": st.sampled_from([4, 2.5, 0, "fast"]),
            "format": st.sampled_from(["pcm", "wav", "mp3", "opus", "gif"]),
            "sample_rate": st.sampled_from([8000, 24000, 48000, 1]),
        },
    ),
    st.fixed_dictionaries({"type": st.sampled_from(["append", "start", "flush", "x"]), "text": JSON, "more": JSON}),
    JSON,
)
FRAMES = st.lists(
    st.tuples(
        st.sampled_from([0x81, 0x01, 0x00, 0x80, 0x82, 0x89, 0x8A]) | st.integers(0, 255),
        st.binary(max_size=125) | MESSAGES.map(lambda message: json.dumps(message).encode()[:125]),
    ),
    max_size=8,
)


@given(messages=st.lists(MESSAGES, max_size=12), end=st.sampled_from(["leave", "cancel", "finish"]))
@examples(60)
def test_any_messages_in_any_order(tiny_server: Server, messages: list[Any], end: str) -> None:
    with connect(address(tiny_server), close_timeout=PATIENCE) as client:
        assert event(client)["type"] == "ready"
        with contextlib.suppress(ConnectionClosedOK):  # one of the messages was close
            for message in messages:
                client.send(json.dumps(message))
            if end == "leave":
                return  # with everything that is being said
            if end == "cancel":
                client.send('{"type": "cancel"}')
            client.send('{"type": "close"}')
            while True:
                event(client)


@given(frames=FRAMES, cut=st.integers(1, 300))
@examples(60)
def test_any_frames(tiny_server: Server, frames: list[tuple[int, bytes]], cut: int) -> None:
    """Frames that no client would send, then one that says goodbye: in the end the server closes the connection."""
    data = b"".join(frame(first, content) for first, content in [*frames, (0x88, b"\x03\xe8")])
    url = urlsplit(tiny_server.url)
    with socket.create_connection((url.hostname, url.port), PATIENCE) as client, contextlib.suppress(ConnectionError):
        client.sendall(UPGRADE)
        assert client.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 101"
        for start in range(0, len(data), cut):
            client.sendall(data[start : start + cut])
        while client.recv(65_536):
            pass


def frame(first: int, content: bytes) -> bytes:
    """`first` has the bit of a last fragment, three reserved ones, and the opcode; the mask is zero."""
    return bytes([first, 0x80 | len(content)]) + bytes(4) + content


def address(server: Server) -> str:
    return server.url.replace("http", "ws") + "/tts/ws"


def event(client: ClientConnection) -> dict[str, Any]:
    received = client.recv(PATIENCE)
    return json.loads(received) if isinstance(received, str) else {"type": "audio"}
