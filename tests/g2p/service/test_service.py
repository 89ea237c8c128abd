from __future__ import annotations

import asyncio
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from kokoro_server import languages
from kokoro_server.g2p.client import G2PClient
from kokoro_server.g2p.result import G2PResult
from kokoro_server.g2p.service import phonemizers
from kokoro_server.g2p.service.app import create_app
from kokoro_server.g2p.service.converter import Converter
from kokoro_server.languages import Language
from tests.g2p.conftest import SOURCE_TREE

# As the command line does it.
STANDALONE = """
import sys
from kokoro_server.errors import SetupError
from kokoro_server.g2p.service import app as service
try:
    service.run("127.0.0.1", int(sys.argv[1]), "info")
except SetupError as error:
    sys.exit(error.message)
"""


def run_standalone(port: int, before: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", before + STANDALONE, str(port)]
    return subprocess.run(command, env=SOURCE_TREE, capture_output=True, text=True, timeout=60)


def test_american_english_is_the_default(http: httpx.Client) -> None:
    spoken = http.post("/convert", json={"text": "Hi!"}).json()
    assert spoken == {
        "phonemes": "hˈI!",
        "lang": "en-US",
        "tokens": [
            {"text": "Hi", "whitespace": "", "phonemes": "hˈI"},
            {"text": "!", "whitespace": "", "phonemes": "!"},
        ],
        "dropped": [],
    }


def test_a_batch_is_answered_in_order(http: httpx.Client) -> None:
    spoken = http.post("/convert/batch", json={"texts": ["uno", "dos"], "lang": "es"}).json()
    assert [result["phonemes"] for result in spoken["results"]] == ["ˈuno", "dˈos"]


def test_each_text_may_have_a_language_of_its_own(http: httpx.Client) -> None:
    codes = ["en-US", "en-GB", "es", "en-US"]
    response = http.post("/convert/batch", json={"texts": ["Bath."] * 4, "langs": codes})
    results = response.json()["results"]
    assert [result["lang"] for result in results] == codes
    assert [result["phonemes"] for result in results] == ["bˈæθ.", "bˈɑːθ.", "bˈat.", "bˈæθ."]
    assert response.headers["x-g2p-workers"] == "1"


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "field"),
    [
        ("/convert", {"text": "hi", "lang": "xx"}, 400, "unknown_language", "lang"),
        ("/convert", {"text": ""}, 422, "nothing_to_say", "text"),
        ("/convert", {"text": " \n\t\u3000"}, 422, "nothing_to_say", "text"),
        ("/convert", {"text": "x" * 10_001}, 413, "text_too_long", "text"),
        ("/convert", {}, 422, "invalid_input", "text"),
        ("/convert", {"text": 7}, 422, "invalid_input", "text"),
        ("/convert", {"text": "hi", "voice": "af_heart"}, 422, "invalid_input", "voice"),
        ("/convert/batch", {"texts": []}, 422, "invalid_input", "texts"),
        ("/convert/batch", {"texts": ["hi"] * 257}, 422, "invalid_input", "texts"),
        ("/convert/batch", {"texts": ["hi", " "]}, 422, "nothing_to_say", "texts.1"),
        ("/convert/batch", {"texts": ["hi", "x" * 10_001]}, 413, "text_too_long", "texts.1"),
        ("/convert/batch", {"texts": ["hi"], "lang": ""}, 400, "unknown_language", "lang"),
        ("/convert/batch", {"texts": ["a", "b"], "langs": ["en-US", "xx"]}, 400, "unknown_language", "langs.1"),
        ("/convert/batch", {"texts": ["a", "b"], "langs": ["en-US"]}, 422, "invalid_input", "langs"),
        ("/convert/batch", {"texts": ["a"], "langs": [7]}, 422, "invalid_input", "langs.0"),
        ("/nowhere", {}, 404, "http_error", None),
    ],
)
def test_what_is_refused(
    http: httpx.Client, path: str, body: dict[str, Any], status: int, code: str, field: str | None
) -> None:
    response = http.post(path, json=body)
    assert response.status_code == status
    error = response.json()["error"]
    assert (error["code"], error["field"]) == (code, field)
    assert 0 < len(error["message"]) < 300


@pytest.mark.parametrize(("path", "body"), [("/convert", {"text": "Hi!"}), ("/convert/batch", {"texts": ["Hi!"]})])
def test_texts_may_wait_behind_all_others(http: httpx.Client, path: str, body: dict[str, Any]) -> None:
    answers = [http.post(path, json=body, headers={"X-Priority": asked}) for asked in ("bulk", "Bulk", "normal")]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len({answer.content for answer in answers}) == 1
    refused = http.post(path, json=body, headers={"X-Priority": "first"})
    assert refused.status_code == 422
    error = refused.json()["error"]
    assert (error["code"], error["field"]) == ("invalid_input", "X-Priority")
    assert "normal or bulk" in error["message"]


class Observed(Converter):
    """Tells when it has taken calls on."""

    def __init__(self) -> None:
        super().__init__()
        self.taken_on = asyncio.Queue[None]()

    async def submit(self, texts: Sequence[tuple[str, Language]], *, bulk: bool = False) -> asyncio.Future[list[bytes]]:
        answer = await super().submit(texts, bulk=bulk)
        self.taken_on.put_nowait(None)
        return answer


async def test_bulk_that_has_not_begun_waits_for_those_who_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    converter, begun, go_on = Observed(), list[str](), threading.Event()

    def phonemize(text: str) -> G2PResult:
        go_on.wait(30)
        begun.append(text)
        return G2PResult(text)

    monkeypatch.setattr(phonemizers, "load", lambda *_: phonemize)
    app = create_app(converter)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://g2p.test") as http,
        asyncio.TaskGroup() as calls,
    ):
        for path, body, headers in (
            ("/convert/batch", {"texts": ["1", "2", "3", "4"]}, {"X-Priority": "bulk"}),
            ("/convert/batch", {"texts": ["a", "b"]}, {"X-Priority": "normal"}),
            ("/convert", {"text": "5"}, {"X-Priority": "bulk"}),
            ("/convert", {"text": "c"}, {}),
        ):
            calls.create_task(http.post(path, json=body, headers=headers))
            await converter.taken_on.get()
        go_on.set()
    assert begun == ["1", "2", "a", "b", "c", "3", "4", "5"]  # one is under way and one is next when the others come


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"text": "\\ud800"}'])
def test_a_body_that_is_not_json_is_refused(http: httpx.Client, body: bytes) -> None:
    response = http.post("/convert", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422)
    assert response.json()["error"]["message"]


@pytest.mark.parametrize("body", [b" " * 15_360_001, b"[" + b"[]," * 100_001 + b"[]]"], ids=["bytes", "values"])
def test_a_body_that_is_too_large_is_refused(http: httpx.Client, body: bytes) -> None:
    response = http.post("/convert", content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["error"]["code"]) == (413, "http_error")
    assert http.post("/convert", json={"text": "Hi!"}).status_code == 200


def test_the_longest_text_allowed_is_converted(http: httpx.Client) -> None:
    text = ("All work and no play. " * 500)[:10_000]
    tokens = http.post("/convert", json={"text": text}).json()["tokens"]
    assert "".join(token["text"] + token["whitespace"] for token in tokens) == text


async def test_requests_at_once_get_what_they_would_get_alone(client: G2PClient) -> None:
    jobs = [(f"Number {number}, 数字 {number}!", language) for number in range(3) for language in languages.LANGUAGES]
    alone = [await client.convert([text], language) for text, language in jobs]
    order = random.Random(7).sample(range(len(jobs)), len(jobs))
    together = await asyncio.gather(*(client.convert([jobs[index][0]], jobs[index][1]) for index in order))
    assert list(together) == [alone[index] for index in order]


async def test_health_is_answered_while_a_large_batch_is_converted(client: G2PClient) -> None:
    texts = ["All work and no play makes Jack a dull boy. " * 100] * 4
    large = asyncio.create_task(client.convert(texts, languages.EN_US))
    answers = 0
    while not large.done():
        assert (await client.health())["status"] == "ok"
        answers += 1
    await large
    assert answers > 1


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run_standalone(port)
    assert ended.returncode == 1
    assert ended.stderr.strip() == f"cannot listen on 127.0.0.1:{port}: Address already in use (G2P_HOST, G2P_PORT)"


def test_a_missing_library_is_one_clear_line() -> None:
    ended = run_standalone(0, before="import sys; sys.modules['spacy'] = None")
    assert ended.returncode == 1
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "American English cannot be loaded" in ended.stderr
    assert "pip install kokoro-server" in ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="counts its threads in /proc")
def test_its_libraries_start_no_threads() -> None:
    code = (
        "import os; from kokoro_server.g2p.service import app; app._limit_libraries(); import numpy; "
        "print(len(os.listdir('/proc/self/task')))"
    )
    counted = subprocess.run([sys.executable, "-c", code], env=SOURCE_TREE, capture_output=True, text=True, timeout=60)
    assert counted.stdout == "1\n", counted.stderr


def test_english_needs_no_pytorch() -> None:
    """spaCy loads it where it is installed, which takes two seconds and 200 MB."""
    code = (
        "import sys; from kokoro_server.g2p.service import stubs; stubs.install(); import spacy; "
        "print(sys.modules.keys() & {'torch', 'cupy'})"
    )
    loaded = subprocess.run([sys.executable, "-c", code], env=SOURCE_TREE, capture_output=True, text=True, timeout=60)
    assert loaded.stdout == "set()\n", loaded.stderr


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_without_a_traceback(stop: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-c", STANDALONE, str(port)], env=SOURCE_TREE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        with httpx.Client(trust_env=False, transport=httpx.HTTPTransport(retries=8)) as http:
            assert http.get(f"http://127.0.0.1:{port}/health", timeout=60).status_code == 200
        process.send_signal(stop)
        assert process.wait(20) == 0
        assert process.stdout
        assert process.stdout.read() == b""
