"""A sentence that cannot be said does not end the reading of a whole page in another service's client."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.sync.client import connect
from wyoming.client import AsyncClient
from wyoming.tts import Synthesize

from tests.audio_files import decode
from tests.servers import TINY, Server, free_port, running, say

FOREIGN = "Hello 漢字 there."  # two letters that English cannot say
CARTESIA = {
    "voice": "af_heart",
    "output_format": {"container": "wav", "encoding": "pcm_s16le", "sample_rate": 24_000},
}
PATHS: list[tuple[str, str, dict[str, Any]]] = [  # path, its field of the text, other fields
    ("/v1/audio/speech", "input", {"response_format": "wav"}),
    ("/v1/audio/speech", "input", {"response_format": "wav", "stream": False}),
    ("/v1/audio/speech", "input", {}),
    ("/v1/audio/speech", "input", {"response_format": "opus"}),
    ("/v1/text-to-speech/af_heart", "text", {}),
    ("/v1/text-to-speech/af_heart/stream?output_format=pcm_24000", "text", {}),
    ("/v1/speak?encoding=linear16&container=wav", "text", {}),
    ("/cartesia/tts/bytes", "transcript", CARTESIA),
]


def post(server: Server, path: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=300)


@pytest.mark.parametrize(("path", "field", "fields"), PATHS)
def test_letters_are_left_out_and_counted(tiny_server: Server, path: str, field: str, fields: dict[str, Any]) -> None:
    answer = post(tiny_server, path, {field: FOREIGN, **fields})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-skipped-characters"] == "2"
    assert "x-nothing-to-say" not in answer.headers


@pytest.mark.parametrize(("path", "field", "fields"), PATHS)
@pytest.mark.parametrize(
    ("text", "skipped"),
    [("", None), ("   ", None), ("—", None), ("…", None), ("🎉", None), ("漢字", "2"), ("." * 200, None)],
)
def test_nothing_to_say_is_silence(
    tiny_server: Server, path: str, field: str, fields: dict[str, Any], text: str, skipped: str | None
) -> None:
    answer = post(tiny_server, path, {field: text, **fields})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-nothing-to-say"] == "true"
    assert answer.headers.get("x-skipped-characters") == skipped
    kind = answer.headers["content-type"]
    format = {"audio/mpeg": "mp3", "audio/wav": "wav", "audio/ogg": "opus", "audio/pcm": "pcm"}[kind]
    samples = np.frombuffer(answer.content, "<i2") / 32768 if format == "pcm" else decode(answer.content, format)
    assert 0.2 < len(samples) / 24_000 < 1.2
    assert np.abs(samples).max() < 1e-3


def test_captions_of_nothing(tiny_server: Server) -> None:
    whole = post(tiny_server, "/v1/audio/speech/timestamps", {"input": "—"}).json()
    assert whole["words"] == []
    assert base64.b64decode(whole["audio"])
    kokoro_fastapi = post(tiny_server, "/dev/captioned_speech", {"input": "—", "stream": False})
    assert kokoro_fastapi.json()["timestamps"] == []
    assert kokoro_fastapi.headers["x-nothing-to-say"] == "true"
    events = post(tiny_server, "/v1/audio/speech", {"input": "—", "stream_format": "sse"})
    assert events.headers["x-nothing-to-say"] == "true"
    assert events.text.rstrip().splitlines()[-1].startswith('data: {"type": "speech.audio.done"')
    elevenlabs = post(tiny_server, "/v1/text-to-speech/af_heart/with-timestamps", {"text": "—"})
    assert elevenlabs.status_code == 200, elevenlabs.text


def test_our_own_paths_are_strict(tiny_server: Server) -> None:
    for path in ("/tts", "/tts/stream", "/tts/captioned"):
        assert post(tiny_server, path, {"text": FOREIGN}).json()["error"]["code"] == "unspeakable"
        assert post(tiny_server, path, {"text": "—!"}).json()["error"]["code"] == "nothing_to_say"


def test_a_request_may_ask_for_refusal(tiny_server: Server) -> None:
    answer = post(tiny_server, "/v1/audio/speech", {"input": FOREIGN, "unspeakable": "refuse"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unspeakable")


def test_wrong_requests_are_still_refused(tiny_server: Server) -> None:
    assert post(tiny_server, "/v1/audio/speech", {"input": "—", "voice": "nobody"}).status_code == 400
    assert post(tiny_server, "/v1/audio/speech", {}).status_code == 400


def test_deepgram_socket_goes_on(tiny_server: Server) -> None:
    with connect(f"{tiny_server.url.replace('http', 'ws')}/v1/speak?encoding=linear16") as socket:
        for text in ("漢字", FOREIGN):
            socket.send(json.dumps({"type": "Speak", "text": text}))
        socket.send(json.dumps({"type": "Flush"}))
        types, audio = [], b""
        while "Flushed" not in types:
            message = socket.recv(timeout=60)
            if isinstance(message, bytes):
                audio += message
            else:
                types.append(json.loads(message)["type"])
    assert "Error" not in types
    assert "Warning" in types
    assert audio


@pytest.fixture(scope="module")
def other(shared_g2p: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With a Wyoming port, and with UNSPEAKABLE."""
    log = tmp_path_factory.mktemp("lenient") / "log"
    settings = {"WYOMING_PORT": str(free_port()), "UNSPEAKABLE": "refuse"}
    with running(TINY, log, G2P_SERVICE_URL=shared_g2p, **settings) as started:
        yield started


def test_the_setting_holds_everywhere(other: Server) -> None:
    answer = post(other, "/v1/audio/speech", {"input": FOREIGN})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unspeakable")
    assert say(other, FOREIGN).status_code == 422


def test_wyoming(other: Server) -> None:
    async def heard(text: str) -> tuple[list[str], bytes]:
        async with AsyncClient.from_uri(other.wyoming) as client:
            await client.write_event(Synthesize(text=text).event())
            types, audio = list[str](), b""
            while (event := await client.read_event()) and event.type not in ("audio-stop", "error"):
                types.append(event.type)
                audio += event.payload or b""
            return types, audio

    types, audio = asyncio.run(heard("—"))
    assert types[0] == "audio-start"
    assert len(audio) == round(0.3 * 24_000) * 2
    assert not any(audio)
