"""DEFAULT_VOICE that is a voice of a model below MODELS_PATH, on every path that names none."""

from __future__ import annotations

import json
import os
from base64 import b64decode
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect
from wyoming.tts import SynthesizeVoice

from kokoro_server.config.settings import Settings
from kokoro_server.errors import ConfigError
from kokoro_server.synthesis.http_backend import HttpBackend
from kokoro_server.voices.custom.keeper import check_defaults
from tests import other_models, servers
from tests.api.test_defaults import wyoming_audio, wyoming_voices
from tests.assets.test_models import described
from tests.servers import REAL, TINY, Server, free_port, running, say, spawn

TEXT = "Guten Tag."
ANNA, BERT = "german/df_anna", "german/dm_bert"
SWEDISH = other_models.GERMAN.replace("languages.de", "languages.sv").replace('"d"', '"s"')


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    other_models.write(folder / "german")
    other_models.write(folder / "swedish", SWEDISH, voices="sf_eva")
    (described(folder, "broken") / "config.json").unlink()
    return folder


@pytest.fixture(scope="module", params=["1", pytest.param("2", marks=pytest.mark.slow)])
def server(
    models: Path, shared_g2p: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("server")
    environ = {"MODELS_PATH": str(models), "KOKORO_CACHE_DIR": str(home / "cache"), "G2P_SERVICE_URL": shared_g2p}
    environ |= {"DEFAULT_VOICE": f"{ANNA},sv=swedish/sf_eva,fr=ff_siwis", "WYOMING_PORT": str(free_port())}
    environ |= {"SERVER_PROCESSES": request.param, "KOKORO_BACKEND": "torch", "KOKORO_DEVICE": "cpu"}
    with running(TINY, home / "log", **environ) as started:
        yield started


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tts", {"text": TEXT}),
        ("/tts", {"text": TEXT, "language": "de"}),
        ("/tts", {"text": TEXT, "language": "auto"}),
        ("/tts/stream", {"text": TEXT}),
        ("/v1/audio/speech", {"input": TEXT}),
        ("/v1/audio/speech", {"input": TEXT, "model": "german"}),
        ("/v1/audio/speech", {"input": TEXT, "lang_code": "de"}),
        ("/dev/dialogue", {"turns": [{"text": TEXT}]}),
        ("/v1/speak", {"text": TEXT}),
    ],
)
def test_it_speaks_for_requests_that_name_none(server: Server, path: str, body: dict[str, Any]) -> None:
    answer = httpx.post(server.url + path, json=body, timeout=300)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-voice-used"] == ANNA


@pytest.mark.parametrize(
    ("fields", "voice"),
    [
        ({"language": "en-US"}, "af_heart"),  # which German cannot say
        ({"language": "it"}, "af_heart"),
        ({"language": "fr"}, "ff_siwis"),
        ({"language": "sv"}, "swedish/sf_eva"),
        ({"voice": "am_adam"}, "am_adam"),
        ({"voice": BERT}, BERT),
    ],
)
def test_another_language_has_another_voice(server: Server, fields: dict[str, Any], voice: str) -> None:
    answer = say(server, "Nana.", **fields)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-voice-used"] == voice


def test_the_field_of_a_model_goes_before_a_default_voice(server: Server) -> None:
    url = f"{server.url}/v1/audio/speech"
    for fields, voice in (({"model": "swedish"}, "swedish/sf_eva"), ({"model": "tts-1"}, ANNA)):
        answer = httpx.post(url, json={"input": "Nana.", **fields}, timeout=300)
        assert answer.headers["x-voice-used"] == voice


def test_lists_and_clips_in_a_row(server: Server) -> None:
    assert httpx.get(f"{server.url}/voices", timeout=60).json()["default"] == ANNA
    captioned = httpx.post(f"{server.url}/tts/captioned", json={"text": TEXT}, timeout=300).json()
    assert captioned["voice"] == ANNA
    batch = {"requests": [{"text": TEXT}, {"text": "Hello.", "language": "en-US"}]}
    answer = httpx.post(f"{server.url}/tts/batch", json=batch, timeout=300)
    assert answer.headers["x-failed-requests"] == "0"
    lines = httpx.post(f"{server.url}/tts/bulk", json=batch, timeout=300)
    assert b'"error"' not in lines.content
    reading = httpx.post(f"{server.url}/text/reading", json={"text": TEXT}, timeout=60).json()
    assert reading["language"] == "de"
    phonemes = httpx.post(f"{server.url}/dev/phonemize", json={"text": TEXT, "language": "de"}, timeout=60)
    assert phonemes.status_code == 200, phonemes.text


def test_sockets(server: Server) -> None:
    with connect(f"{server.url.replace('http', 'ws')}/tts/ws") as socket:
        assert json.loads(socket.recv())["voice"] == ANNA
        socket.send(json.dumps({"type": "append", "text": TEXT}))
        socket.send(json.dumps({"type": "close"}))
        heard = b""
        while not heard:
            message = socket.recv(timeout=60)
            heard = message if isinstance(message, bytes) else b64decode(json.loads(message).get("audio", ""))
    with connect(f"{server.url.replace('http', 'ws')}/v1/speak?encoding=linear16") as socket:
        socket.send(json.dumps({"type": "Speak", "text": TEXT}))
        socket.send(json.dumps({"type": "Flush"}))
        while not isinstance(message := socket.recv(timeout=60), bytes):
            assert json.loads(message)["type"] != "Error"


def test_wyoming(server: Server) -> None:
    listed = wyoming_voices(server)
    assert {ANNA, BERT, "swedish/sf_eva"} < set(listed)
    assert listed.index(ANNA) < listed.index(BERT)
    own = say(server, "Hello there.", voice=ANNA, format="pcm").content
    assert wyoming_audio(server, SynthesizeVoice(name=ANNA)) == own
    assert wyoming_audio(server, SynthesizeVoice(language="de")) == own
    swedish = say(server, "Hello there.", voice="swedish/sf_eva", format="pcm").content
    assert wyoming_audio(server, SynthesizeVoice(language="sv")) == swedish


def test_a_book_is_read_by_it_and_its_english_by_another(server: Server) -> None:
    book = "---\nlang: de\ntitle: Nana\n---\n\n# Eins\n\nGuten Tag.\n"
    sent = {"file": ("book.md", book.encode())}
    job = httpx.post(f"{server.url}/jobs", files=sent, data={"format": "flac"}, timeout=60)
    assert job.status_code in (200, 201, 202), job.text
    url = f"{server.url}/jobs/{job.json()['id']}"

    def ended() -> bool:
        state = httpx.get(url, timeout=60).json()
        assert state["state"] != "failed", state
        return bool(state["state"] == "done")

    servers.wait_for(ended)
    assert "no voice" not in json.dumps(httpx.get(url, timeout=60).json())


async def test_commands_that_ask_the_server_know_its_defaults(server: Server) -> None:
    async with HttpBackend.connect(server.url, None) as backend:
        theirs = await backend.defaults()
    assert theirs.voice() == theirs.voice("de") == ANNA
    voices = {"sv": "swedish/sf_eva", "fr": "ff_siwis", "en-US": "af_heart", "it": "af_heart"}
    assert {code: theirs.voice(code) for code in voices} == voices
    assert theirs.language is None


def test_the_command_takes_it_too(server: Server, tmp_path: Path) -> None:
    spoken = partial(servers.said, server, tmp_path / "said.wav", TEXT)
    assert spoken() == spoken("-v", ANNA) != spoken("-v", "af_heart", "-l", "en-US")


def test_a_default_language_that_only_a_model_has(models: Path, shared_g2p: str, tmp_path: Path) -> None:
    environ = {"MODELS_PATH": str(models), "DEFAULT_LANGUAGE": "de", "KOKORO_BACKEND": "torch", "KOKORO_DEVICE": "cpu"}
    with running(TINY, tmp_path / "log", **environ, G2P_SERVICE_URL=shared_g2p) as server:
        for fields, voice in (
            ({}, ANNA),
            ({"language": "de"}, ANNA),
            ({"voice": "am_adam"}, "am_adam"),  # which cannot speak German
            ({"voice": "swedish/sf_eva"}, "swedish/sf_eva"),
            ({"language": "en-US"}, "af_heart"),
        ):
            answer = say(server, "Nana.", **fields)
            assert answer.status_code == 200, answer.text
            assert answer.headers["x-voice-used"] == voice
        english = say(server, "Nana.", voice="am_adam", language="en-US").content
        assert say(server, "Nana.", voice="am_adam").content == english
        assert httpx.get(f"{server.url}/voices", timeout=60).json()["default"] == ANNA


@pytest.mark.parametrize("with_models", [True, False])
def test_a_default_language_that_no_model_has(models: Path, with_models: bool) -> None:
    environ = {"DEFAULT_LANGUAGE": "pl"} | ({"MODELS_PATH": str(models)} if with_models else {})
    with pytest.raises(ConfigError, match=r"DEFAULT_LANGUAGE: no model here speaks Polish; .* ja, zh") as told:
        check_defaults(Settings.load(environ, dotenv=None))
    assert ("de, sv" in told.value.message) is with_models


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("german/df_nobody", "the model german has no voice 'german/df_nobody', but df_anna, dm_bert"),
        ("nobody/df_anna", "there is no voice 'nobody/df_anna'"),
        ("broken/df_anna", "the model broken cannot be used: "),
        ("german/df_anna+af_heart", "the model german has no voice"),
        ("fr=german/df_anna", "unknown language 'fr-FR'; use one of de"),
        ("de=af_heart", "unknown language 'de'; use one of en-US"),
    ],
)
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_wrong_one_ends_the_start_with_one_line(
    tmp_path: Path, models: Path, value: str, message: str, processes: str
) -> None:
    environ = {"DEFAULT_VOICE": value, "MODELS_PATH": str(models), "SERVER_PROCESSES": processes}
    process = spawn(REAL, tmp_path / "log", **environ, KOKORO_CACHE_DIR=os.environ.get("KOKORO_CACHE_DIR", ""))
    status = process.wait(timeout=120)
    text = (tmp_path / "log").read_text()
    assert status == 1, (status, text)  # less than 0: something else has ended it
    (line,) = (line for line in text.splitlines() if "DEFAULT_VOICE" in line)
    assert f"DEFAULT_VOICE: {message}" in line
    assert "Traceback" not in text
