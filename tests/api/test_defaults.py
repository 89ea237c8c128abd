"""DEFAULT_VOICE, DEFAULT_LANGUAGE and DEFAULT_FORMAT of a running server, on every path that names none."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect
from wyoming.client import AsyncClient
from wyoming.info import Describe, Info
from wyoming.tts import Synthesize, SynthesizeVoice

from kokoro_server.config.settings import Settings
from kokoro_server.errors import ConfigError
from tests import servers
from tests.servers import PYTHON, REAL, ROOT, TINY, Server, free_port, running, say, spawn, wait_for

VOICES = "en=am_adam,fr=af_bella"
TEXT = "Hello there."


@pytest.fixture(scope="module")
def server(shared_g2p: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"DEFAULT_VOICE": VOICES, "DEFAULT_FORMAT": "flac", "WYOMING_PORT": str(free_port())}
    log = tmp_path_factory.mktemp("defaults") / "log"
    with running(TINY, log, G2P_SERVICE_URL=shared_g2p, **settings) as started:
        yield started


@pytest.fixture(scope="module")
def french(shared_g2p: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {"DEFAULT_VOICE": VOICES, "DEFAULT_LANGUAGE": "fr"}
    with running(TINY, tmp_path_factory.mktemp("french") / "log", G2P_SERVICE_URL=shared_g2p, **settings) as started:
        yield started


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tts", {"text": TEXT}),
        ("/tts/stream", {"text": TEXT}),
        ("/v1/audio/speech", {"input": TEXT, "stream": False}),
        ("/v1/audio/speech", {"input": TEXT}),
        ("/dev/dialogue", {"turns": [{"text": TEXT}]}),
        ("/v1/speak", {"text": TEXT}),
    ],
)
def test_voice_and_format(server: Server, path: str, body: dict[str, Any]) -> None:
    answer = httpx.post(server.url + path, json=body, timeout=300)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-voice-used"] == "am_adam"
    assert answer.headers["content-type"] == "audio/flac"
    assert answer.content[:4] == b"fLaC"


def test_named_fields_take_precedence(server: Server) -> None:
    answer = say(server, TEXT, voice="af_heart", format="wav")
    assert answer.headers["x-voice-used"] == "af_heart"
    assert answer.headers["content-type"] == "audio/wav"


def test_voice_of_the_language(server: Server) -> None:
    assert say(server, TEXT, language="fr").headers["x-voice-used"] == "af_bella"
    answer = httpx.post(f"{server.url}/v1/audio/speech", json={"input": TEXT, "lang_code": "f"}, timeout=300)
    assert answer.headers["x-voice-used"] == "af_bella"


def test_auto_takes_no_voice_of_another_language(server: Server) -> None:
    """An English voice would read French by English rules."""
    french = "Le petit chat est sur la table et il ne veut pas descendre."
    assert say(server, french, language="auto").headers["x-voice-used"] != "af_bella"


def test_the_default_is_not_removed(tmp_path: Path, shared_g2p: str) -> None:
    other = '"other": "af_bella+af_sky"'
    (tmp_path / "voices.json").write_text(f'{{"chat-noir": "af_bella(2)+am_adam", {other}}}')
    settings = {"DEFAULT_VOICE": "fr=chat-noir+af_bella", "VOICES_PATH": str(tmp_path)}
    settings |= {"WYOMING_PORT": str(free_port())}
    with running(TINY, tmp_path / "log", G2P_SERVICE_URL=shared_g2p, **settings) as started:
        answer = httpx.delete(f"{started.url}/voices/chat-noir", timeout=60)
        assert answer.status_code == 409
        assert "DEFAULT_VOICE" in answer.text
        # By hand it can be: only what needs it fails.
        (tmp_path / "voices.json").write_text(f"{{{other}}}")
        wait_for(lambda: "chat-noir" not in str(httpx.get(f"{started.url}/voices", timeout=60).json()["voices"]))
        assert say(started, TEXT).status_code == 200
        refused = say(started, TEXT, language="fr")
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "unknown_voice")
        assert httpx.delete(f"{started.url}/voices/other", timeout=60).status_code == 204
        assert wyoming_audio(started)
        assert "ff_siwis" in wyoming_voices(started)


def test_siblings(server: Server) -> None:
    captioned = httpx.post(f"{server.url}/tts/captioned", json={"text": TEXT}, timeout=300).json()
    assert (captioned["voice"], captioned["format"]) == ("am_adam", "flac")
    batch = httpx.post(f"{server.url}/tts/batch", json={"requests": [{"text": TEXT}]}, timeout=300)
    with zipfile.ZipFile(io.BytesIO(batch.content)) as archive:
        [entry] = json.loads(archive.read("manifest.json"))
    assert entry["voice"] == "am_adam"
    assert entry["file"].endswith(".flac")
    assert httpx.get(f"{server.url}/voices", timeout=60).json()["default"] == "am_adam"


def test_elevenlabs_format(server: Server) -> None:
    answer = httpx.post(f"{server.url}/v1/text-to-speech/af_heart", json={"text": TEXT}, timeout=300)
    assert answer.headers["content-type"] == "audio/flac"


def test_sockets_keep_samples(server: Server) -> None:
    with connect(f"{server.url.replace('http', 'ws')}/tts/ws") as socket:
        ready = json.loads(socket.recv())
    assert (ready["voice"], ready["format"]) == ("am_adam", "pcm")


def wyoming_audio(server: Server, voice: SynthesizeVoice | None = None) -> bytes:
    async def heard() -> bytes:
        async with AsyncClient.from_uri(server.wyoming) as client:
            await client.write_event(Synthesize(text=TEXT, voice=voice).event())
            audio = b""
            while (event := await client.read_event()) and event.type != "audio-stop":
                audio += event.payload or b""
            return audio

    return asyncio.run(heard())


def wyoming_voices(server: Server) -> list[str]:
    async def listed() -> list[str]:
        async with AsyncClient.from_uri(server.wyoming) as client:
            await client.write_event(Describe().event())
            event = await client.read_event()
            assert event is not None
            return [voice.name for program in Info.from_event(event).tts for voice in program.voices]

    return asyncio.run(listed())


def test_wyoming(server: Server) -> None:
    assert wyoming_audio(server) == wyoming_audio(server, SynthesizeVoice(name="am_adam"))


def test_wyoming_voice_of_a_language(server: Server) -> None:
    """DEFAULT_VOICE names an English voice for French."""
    heard = wyoming_audio(server, SynthesizeVoice(language="fr"))
    assert heard == say(server, TEXT, voice="af_bella", language="fr", format="pcm").content


@pytest.mark.parametrize("named", ["container=none", "bit_rate=48000"])
def test_deepgram_parameters_of_its_own_format(server: Server, named: str) -> None:
    answer = httpx.post(f"{server.url}/v1/speak?{named}", json={"text": TEXT}, timeout=300)
    assert answer.headers["content-type"] == "audio/mpeg"


def test_deepgram_names_have_a_language(french: Server) -> None:
    url = f"{french.url}/v1/speak?model=aura-2-helena-en&encoding=linear16&container=none"
    answer = httpx.post(url, json={"text": TEXT}, timeout=300)
    streamed = {"text": TEXT, "format": "pcm", "voice": "af_heart", "language": "en-US"}
    assert answer.content == httpx.post(f"{french.url}/tts/stream", json=streamed, timeout=300).content


def test_language(french: Server) -> None:
    assert say(french, TEXT).headers["x-voice-used"] == "af_bella"
    assert say(french, TEXT, language="en").headers["x-voice-used"] == "am_adam"
    # A named voice without a language reads French too.
    reading = httpx.post(f"{french.url}/text/reading", json={"text": TEXT, "voice": "af_heart"}, timeout=60).json()
    assert reading["language"] == "fr-FR"
    bodies = ({"voice": "af_heart"}, {"voice": "af_heart", "language": "fr"}, {"voice": "af_heart", "language": "en"})
    url = f"{french.url}/v1/audio/speech"
    none, same, other = (
        httpx.post(url, json={"input": TEXT, "response_format": "pcm", **body}, timeout=300).content for body in bodies
    )
    assert none == same != other


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("DEFAULT_VOICE", "xx=af_heart", "languages are en-US"),
        ("DEFAULT_VOICE", "en=af_heart,en-US=af_bella", "one for each language"),
        ("DEFAULT_VOICE", "en=", "one for each language"),
        ("DEFAULT_VOICE", "auto=af_heart", "one for each language"),
        ("DEFAULT_LANGUAGE", "klingon", "auto or one of en-US"),
        ("DEFAULT_FORMAT", "ogg", "wav"),
    ],
)
def test_wrong_values_are_one_line(name: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Settings.load({name: value}, dotenv=None)
    assert str(raised.value).startswith(f"{name}=")
    assert allowed in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("value", ["af_hart", "fr=af_bella,en=af_hart", "af_heart+nobody"])
def test_unknown_voice_is_an_error_at_the_start(tmp_path: Path, value: str) -> None:
    process = spawn(REAL, tmp_path / "log", DEFAULT_VOICE=value)
    assert process.wait(timeout=120) == 1  # less than 0: something else has ended it
    text = (tmp_path / "log").read_text()
    assert "DEFAULT_VOICE: there is no voice" in text
    assert "Traceback" not in text


def test_command_leaves_the_voice_to_the_server(server: Server, tmp_path: Path) -> None:
    spoken = partial(servers.said, server, tmp_path / "said.wav", TEXT)
    assert spoken() == spoken("-v", "am_adam") != spoken("-v", "af_heart")


def test_bulk_leaves_the_voice_to_the_server(server: Server, tmp_path: Path) -> None:
    source, out = tmp_path / "lines.jsonl", tmp_path / "out"
    fields: list[dict[str, str]] = [{}, {"language": "fr"}, {"voice": "af_heart"}]
    lines = ({"id": str(number), "text": TEXT} | each for number, each in enumerate(fields))
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [PYTHON, "-m", "kokoro_server", "bulk", str(source), str(out), "--url", server.url]
    environ = os.environ | {"DEFAULT_VOICE": "af_sky"}
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120, env=environ)
    made = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    assert [record["voice"] for record in made] == ["am_adam", "af_bella", "af_heart"]
