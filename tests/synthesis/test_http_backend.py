"""Who speaks long work through a server."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kokoro_server.errors import BadRequest, Conflict, NotSupported, Unavailable
from kokoro_server.synthesis import speech_backend as speaker
from kokoro_server.synthesis.http_backend import HttpBackend
from kokoro_server.synthesis.speech import Speech, Turn
from kokoro_server.text.options import ReadingOptions

PCM = b"\1\0\2\0"
HEALTH = {"version": "1", "weights": {"source": "w", "precision": "fp32"}, "backend": "onnx", "device": "cpu"}
CLIP = {"audio": b64encode(PCM).decode(), "duration": 0.1, "words": [], "skipped": 2}
DROPPED = 0  # the connection ends without an answer


class Scripted(ThreadingHTTPServer):
    """Answers `answers`, one status after another, and speaks when there are no more."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.health: dict[str, Any] = HEALTH
        self.answers: list[int] = []
        self.asked: list[tuple[dict[str, Any], str | None]] = []  # bodies, with their priority


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def do_GET(self) -> None:
        self._answer(200, self.server.health)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((body, self.headers["x-priority"]))
        status = self.server.answers.pop(0) if self.server.answers else 200
        if status == DROPPED:
            self.close_connection = True
        else:
            self._answer(status, CLIP if status == 200 else {"error": "some_code", "message": "no"})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setattr(speaker, "RETRY_AFTER", 0.001)
    with Scripted() as scripted:
        thread = threading.Thread(target=scripted.serve_forever)
        thread.start()
        yield scripted
        scripted.shutdown()
        thread.join()


async def test_it_asks_behind_all_others(server: Scripted) -> None:
    async with HttpBackend.connect(server.url, None) as remote:
        spoken = await remote.speak(Speech("af_heart", "Hello."))
    assert (spoken.pcm, spoken.skipped) == (PCM, 2)
    assert [priority for _, priority in server.asked] == ["bulk"]


async def test_all_of_a_speech_is_sent_or_refused(server: Scripted) -> None:
    reading = ReadingOptions(frozenset({"money"}), "skip", "announce", {"a": "b"}, "skip")
    speech = Speech(
        "af_heart",
        "Hello.",
        language="en-GB",
        speed=1.2,
        pitch=1.0,
        seed=3,
        reading=reading,
        ssml=True,
        voice_aliases={"Ann": "af_sky"},
        level="even",
    )
    async with HttpBackend.connect(server.url, None) as remote:
        await remote.speak(speech)
        for other in (
            Speech("af_heart", phonemes="a"),
            Speech("af_heart", "a", volume=1.0),
            Speech("af_heart", turns=(Turn("a"),)),
        ):
            with pytest.raises(NotSupported):
                await remote.speak(other)
    ((body, _),) = server.asked
    assert body == {
        "text": "Hello.",
        "voice": "af_heart",
        "format": "pcm",
        "language": "en-GB",
        "speed": 1.2,
        "pitch": 1.0,
        "seed": 3,
        "ssml": True,
        "voice_aliases": {"Ann": "af_sky"},
        "normalize": ["money"],
        "code_blocks": "skip",
        "code_spans": "announce",
        "lexicon": {"a": "b"},
        "unspeakable": "skip",
        "level": "even",
    }


async def test_a_server_that_has_no_time_is_asked_again(server: Scripted) -> None:
    server.answers = [429, 504, 429, 504, 429, 504]
    async with HttpBackend.connect(server.url, None) as remote:
        assert (await remote.speak(Speech("af_heart", "Hello."))).pcm == PCM
        server.answers = [422]
        with pytest.raises(BadRequest):
            await remote.speak(Speech("af_heart", "Hello."))


async def test_a_server_that_comes_back_must_be_the_same(server: Scripted) -> None:
    server.answers = [DROPPED]
    speech = Speech("af_heart", "Hello.")
    async with HttpBackend.connect(server.url, None) as remote:
        with pytest.raises(Unavailable):
            await remote.speak(speech)
        assert (await remote.speak(speech)).pcm == PCM
        server.answers = [DROPPED]
        with pytest.raises(Unavailable):
            await remote.speak(speech)
        server.health = HEALTH | {"version": "2"}
        with pytest.raises(Conflict, match="another one now"):
            await remote.speak(speech)
