"""Voices of one's own over HTTP, with the tiny model and without G2P: they speak phonemes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from kokoro_server.api.captioned import subtitle_cues
from kokoro_server.config.settings import Settings
from kokoro_server.errors import ConfigError
from kokoro_server.server.app import create_app
from kokoro_server.synthesis.speech import Speech
from kokoro_server.voices.levels import estimated_gain
from tests import tiny
from tests.voices.custom.test_custom_voices import make_pack

PHONEMES = "hˈIlO, wˈɜɹld."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "own"
    made.mkdir()
    return made


@pytest.fixture
def built_in(tmp_path: Path) -> Path:
    made = tmp_path / "built_in"
    made.mkdir()
    return made


def make_app(built_in: Path, folder: Path | None, **environ: str) -> FastAPI:
    own = {"VOICES_PATH": str(folder)} if folder else {}
    settings = Settings.load({"G2P_SERVICE_URL": "http://localhost:9", **own, **environ}, dotenv=None)
    return create_app(settings, load=lambda _settings: tiny.load(built_in))


@asynccontextmanager
async def client(built_in: Path, folder: Path | None, **environ: str) -> AsyncIterator[httpx.AsyncClient]:
    app = make_app(built_in, folder, **environ)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        client.app = app  # type: ignore[attr-defined]
        yield client


async def say(client: httpx.AsyncClient, voice: str, path: str = "/tts", **fields: Any) -> httpx.Response:
    body = {"phonemes": PHONEMES, "voice": voice, "format": "pcm", "sample_format": "pcm_f32le", **fields}
    return await client.post(path, json=body)


async def test_they_are_listed_everywhere_and_speak_everywhere(built_in: Path, folder: Path) -> None:
    (folder / "granny.bin").write_bytes(make_pack().tobytes())
    entries = {"narrator": "bf_emma(2)+af_sky(1)", "coral": "granny", "aura-2-helena-en": {"voice": "af_heart"}}
    (folder / "voices.json").write_text(json.dumps(entries))
    async with client(built_in, folder) as server:
        listed = {voice["name"]: voice for voice in (await server.get("/voices")).json()["voices"]}
        assert {"granny", *entries} <= set(listed)
        assert listed["narrator"] == {
            "name": "narrator",
            "title": "Narrator",
            "language": "en-GB",
            "gender": "female",
            "grade": None,
            "blend": "bf_emma(2)+af_sky(1)",
            "installed": True,
        }
        objects = (await server.get("/v1/audio/voices")).json()["voices"]
        names = (await server.get("/v1/audio/voices?legacy=true")).json()["voices"]
        assert [each["id"] for each in objects] == names
        assert len(set(names)) == len(names)
        by_id = {each["id"]: each for each in objects}
        assert by_id["coral"]["voice"] == "coral"
        assert (by_id["marin"]["name"], by_id["marin"]["title"], by_id["marin"]["voice"]) == (
            "marin",
            "Marin",
            "af_heart",
        )
        assert (await server.get("/health")).json()["voices"] == len(listed)

        plain = (await say(server, "bf_emma(2)+af_sky(1)")).content
        for path in ("/tts", "/tts/stream"):
            answer = await say(server, "narrator", path)
            assert (answer.status_code, answer.headers["x-voice-used"]) == (200, "narrator")
            assert answer.content == plain
        mixed = await say(server, "narrator(3)+granny")
        assert mixed.headers["x-voice-used"] == "narrator(3)+granny(1)"
        openai = {"input": "x", "voice": "aura-2-helena-en"}
        assert (await server.post("/v1/audio/speech", json=openai)).json()["error"]["code"] == "g2p_unavailable"
        dev = await server.post("/dev/generate_from_phonemes", json={"phonemes": PHONEMES, "voice": "coral"})
        assert dev.headers["x-voice-used"] == "coral"
        assert (await server.post("/v1/audio/voices/combine", json="granny+af_sky")).status_code == 200
        assert "did you mean narrator" in (await say(server, "narator")).json()["error"]["message"]


async def test_a_pack_is_brought_to_the_level_of_all(built_in: Path, folder: Path) -> None:
    (folder / "granny.bin").write_bytes(make_pack().tobytes())
    gain = estimated_gain(make_pack()[:, 0])
    assert abs(gain) > 0.1
    async with client(built_in, folder) as server:
        for path in ("/tts", "/tts/stream"):
            own, even = [
                np.frombuffer((await say(server, "granny", path, volume=-12, level=level)).content, "<f4")
                for level in ("own", "even")
            ]
            np.testing.assert_allclose(even, own * 10 ** (gain / 20), rtol=1e-4, atol=1e-6)


def test_a_websocket_takes_them_and_their_language(built_in: Path, folder: Path) -> None:
    (folder / "voices.json").write_text('{"narrator": "ef_dora"}')
    with TestClient(make_app(built_in, folder), base_url="http://localhost") as http:
        with http.websocket_connect("/tts/ws") as socket:
            assert socket.receive_json()["voice"] == "af_heart"
            (folder / "voices.json").write_text('{"narrator": "ef_dora", "made_just_now": "narrator"}')
            socket.send_json({"type": "start", "voice": "made_just_now"})
            assert socket.receive_json()["voice"] == "made_just_now"
        reading = http.post("/text/reading", json={"text": "x", "voice": "narrator"})
        assert reading.json()["error"]["code"] == "g2p_unavailable"


def test_clients_of_other_servers_ask_for_them_by_their_names(built_in: Path, folder: Path) -> None:
    """One may have the name of a voice of theirs, and another process may have made it just now."""
    entries = {"aura-2-helena-en": "bf_emma", "aura-my-own": "bf_emma"}
    raw = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}
    with TestClient(make_app(built_in, folder), base_url="http://localhost") as http:
        (folder / "voices.json").write_text(json.dumps(entries))
        for name in reversed(entries):
            with http.websocket_connect(f"/v1/speak?model={name}") as socket:
                assert socket.receive_json()["model_name"] == name
        for n, path in enumerate(("/cartesia/voices", "/v2/voices", "/cartesia/voices/new-2", "/v1/voices/new-3")):
            (folder / "voices.json").write_text(json.dumps(entries | {f"new-{n}": "bf_emma"}))
            assert f"new-{n}" in http.get(path, params={"page_size": 100, "limit": 100}).text
        assert http.get("/cartesia/voices/nobody").status_code == 404
        (folder / "voices.json").write_text(json.dumps(entries | {"made-just-now": "bf_emma"}))
        body = {"transcript": "x", "voice": "made-just-now", "output_format": raw}
        assert http.post("/tts/bytes", json=body).json()["error_code"] == "g2p_unavailable"


async def test_a_blend_is_defined_used_redefined_and_removed(built_in: Path, folder: Path) -> None:
    async with client(built_in, folder) as server:
        assert (await say(server, "narrator")).status_code == 400
        made = await server.post("/voices", json={"name": "narrator", "voice": "af_sky:0.5,bf_emma:0.5"})
        assert made.status_code == 201
        assert (made.json()["blend"], made.json()["language"]) == ("af_sky+bf_emma", "en-US")
        first = await say(server, "narrator")
        assert first.content == (await say(server, "af_sky+bf_emma")).content
        fields = {"name": "narrator", "voice": "am_adam", "language": "en-GB", "title": "The narrator"}
        again = (await server.post("/voices", json=fields)).json()
        assert (again["language"], again["gender"], again["title"]) == ("en-GB", "male", "The narrator")
        assert (await say(server, "narrator")).content == (await say(server, "am_adam")).content != first.content
        assert json.loads((folder / "voices.json").read_text()) == {
            "narrator": {"voice": "am_adam", "language": "en-GB", "title": "The narrator", "owner": "@127.0.0.1"}
        }
        assert (await server.delete("/voices/narrator")).status_code == 204
        assert (await server.delete("/voices/narrator")).status_code == 404
        assert (await say(server, "narrator")).json()["error"]["code"] == "unknown_voice"
        assert "narrator" not in (await server.get("/voices")).text


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({}, 422, "name"),
    ({"name": "a"}, 422, "voice"),
    ({"name": "a+b", "voice": "af_sky"}, 422, "name"),
    ({"name": "a\n", "voice": "af_sky"}, 422, "name"),
    ({"name": "../a", "voice": "af_sky"}, 422, "name"),
    ({"name": "af_bella", "voice": "af_sky"}, 422, "name"),
    ({"name": "af_bella-af_sky", "voice": "af_sky"}, 422, "name"),
    ({"name": "a", "voice": "nobody"}, 400, "voice"),
    ({"name": "a", "voice": "a"}, 422, "voice"),
    ({"name": "a", "voice": "af_sky(x)"}, 422, "voice"),
    ({"name": "a", "voice": " "}, 422, "voice"),
    ({"name": "a", "voice": "af_sky", "language": "xx"}, 400, "language"),
    ({"name": "a", "voice": "af_sky", "gender": "robot"}, 422, "gender"),
    ({"name": "a", "voice": "af_sky", "title": "x\0y"}, 422, "title"),
    ({"name": "a", "voice": "af_sky", "pitch": 2}, 422, "pitch"),
]


async def test_what_is_no_voice_is_refused(built_in: Path, folder: Path) -> None:
    async with client(built_in, folder) as server:
        for body, status, field in REFUSED:
            answer = await server.post("/voices", json=body)
            assert (answer.status_code, answer.json()["error"]["field"]) == (status, field), body
    assert not (folder / "voices.json").exists()


async def test_a_server_that_keeps_no_voices_says_so(built_in: Path) -> None:
    async with client(built_in, None) as server:
        for answer in (
            await server.post("/voices", json={"name": "a", "voice": "af_sky"}),
            await server.delete("/voices/a"),
        ):
            assert answer.status_code == 403
            assert "VOICES_PATH" in answer.json()["error"]["message"]


async def test_they_need_a_key_as_everything(built_in: Path, folder: Path) -> None:
    async with client(built_in, folder, API_KEYS="alice=hunter2-one") as server:
        assert (await server.post("/voices", json={"name": "a", "voice": "af_sky"})).status_code == 401
        assert (await server.delete("/voices/a")).status_code == 401


async def test_a_voice_that_is_removed_or_changed_meanwhile_speaks_to_the_end(built_in: Path, folder: Path) -> None:
    (folder / "voices.json").write_text('{"narrator": "bf_emma"}')
    long = " ".join([PHONEMES] * 40)
    async with client(built_in, folder) as server:
        synthesizer = server.app.state.services.synthesizer  # type: ignore[attr-defined]

        async def spoken(voice: str, *, removed: bool) -> np.ndarray[Any, Any]:
            segments = [segment async for segment in _with_change(voice, removed=removed)]
            assert len(segments) > 2
            return np.concatenate([segment.audio for segment in segments])

        async def _with_change(voice: str, *, removed: bool) -> AsyncIterator[Any]:
            number = 0
            async for segment in synthesizer.segments(Speech(voice, phonemes=long)):
                yield segment
                if removed and number == 0:
                    assert (await server.delete("/voices/narrator")).status_code == 204
                number += 1

        expected = await spoken("bf_emma", removed=False)
        np.testing.assert_allclose(await spoken("narrator", removed=True), expected, atol=1e-4)
        assert (await say(server, "narrator")).status_code == 400


async def test_a_voice_that_is_removed_meanwhile_has_subtitles(built_in: Path, folder: Path) -> None:
    (folder / "voices.json").write_text('{"narrator": "af_sky"}')
    async with client(built_in, folder) as server:
        synthesizer = server.app.state.services.synthesizer  # type: ignore[attr-defined]
        speech = Speech("narrator", phonemes=PHONEMES)
        clip = await synthesizer.speak(speech)
        assert (await server.delete("/voices/narrator")).status_code == 204
        assert [cue.text for cue in subtitle_cues(speech, clip)] == [PHONEMES]


async def test_what_is_broken_is_shown_until_it_is_mended(built_in: Path, folder: Path) -> None:
    async def shown(server: httpx.AsyncClient) -> dict[str, str]:
        await server.get("/voices")  # sees what has changed
        found = (await server.get("/health")).json()["degraded"]
        return {each["name"]: each["message"] for each in found}

    async with client(built_in, folder) as server:
        assert "voices" not in await shown(server)
        (folder / "damaged.pt").write_bytes(b"PK")
        assert "damaged.pt" in (await shown(server))["voices"]
        assert 'tts_degraded{reason="voices"} 1.0' in (await server.get("/metrics")).text
        (folder / "damaged.pt").unlink()
        assert "voices" not in await shown(server)


async def test_a_broken_file_stops_the_start_before_the_model_is_loaded(folder: Path) -> None:
    (folder / "voices.json").write_text('{"a": "nobody"}')
    settings = Settings.load({"G2P_SERVICE_URL": "http://localhost:9", "VOICES_PATH": str(folder)}, dotenv=None)
    app = create_app(settings, load=lambda _settings: pytest.fail("the model was loaded"))
    with pytest.raises(ConfigError, match=r"VOICES_PATH=.*there is no voice 'nobody'"):
        async with app.router.lifespan_context(app):
            pass
