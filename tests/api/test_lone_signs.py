"""A sign that is all of a text is named. One among other text, or that a language model writes, is not."""

from __future__ import annotations

import json

import httpx
import pytest
from websockets.sync.client import connect

from kokoro_server.api.compat.lenient import NAMED_SIGNS
from tests.servers import Server

SIGNS = [*"#%&@/\\_-*|`~^.,;:!?()[]{}\"'", "—", "…"]
PATIENCE = 120  # seconds


def phonemes(server: Server, text: str, language: str = "en-US") -> str:
    body = {"text": text, "language": language}
    answer = httpx.post(f"{server.url}/text/reading", json=body, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["phonemes"])


@pytest.mark.parametrize("sign", SIGNS)
def test_a_sign_is_heard(tiny_server: Server, sign: str) -> None:
    body = {"model": "kokoro", "voice": "af_heart", "input": sign, "response_format": "pcm"}
    answer = httpx.post(f"{tiny_server.url}/v1/audio/speech", json=body, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    assert len(answer.content) > 4_800  # a tenth of a second
    assert any(answer.content) or sign not in NAMED_SIGNS


def test_a_sign_sounds_as_its_name(tiny_server: Server) -> None:
    assert phonemes(tiny_server, ",") == phonemes(tiny_server, "comma")
    assert phonemes(tiny_server, " # \n") == phonemes(tiny_server, "hash")
    assert phonemes(tiny_server, "?", "es") == phonemes(tiny_server, "signo de interrogación", "es")


def test_a_sign_between_pauses_is_silent(tiny_server: Server) -> None:
    assert phonemes(tiny_server, "Hello [pause:1s], [pause:1s] you.") == phonemes(tiny_server, "Hello [pause:1s] you.")


def test_a_sign_in_a_session_is_silent(tiny_server: Server) -> None:
    with connect(f"{tiny_server.url.replace('http', 'ws')}/tts/ws") as socket:
        socket.send(json.dumps({"type": "append", "text": "—"}))
        socket.send(json.dumps({"type": "flush"}))
        socket.send(json.dumps({"type": "close"}))
        received = [message for message in socket if isinstance(message, bytes)]
    assert not b"".join(received)
