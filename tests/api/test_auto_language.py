"""`language` `auto` over HTTP: the language of the text, and a voice that speaks it."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import httpx
import pytest

from tests.servers import Server

SPANISH = "La luz de la cocina está encendida."
ENGLISH = "The kitchen light is on."


def post(server: Server, path: str, **body: Any) -> httpx.Response:
    answer = httpx.post(server.url + path, json=body, timeout=300)
    assert answer.status_code == 200, answer.text
    return answer


def used(server: Server, path: str = "/tts", **body: Any) -> str:
    return post(server, path, **body).headers["x-voice-used"]


@pytest.mark.parametrize("path", ["/tts", "/tts/stream"])
def test_the_answer_names_the_voice_that_was_chosen(tiny_server: Server, path: str) -> None:
    found = post(tiny_server, path, text=SPANISH, language="auto", format="pcm")
    assert found.headers["x-voice-used"] == "ef_dora"
    assert found.content == post(tiny_server, path, text=SPANISH, voice="ef_dora", format="pcm").content
    assert used(tiny_server, path, text=ENGLISH, language="auto") == "af_heart"
    assert used(tiny_server, path, text=ENGLISH, language="AUTO", voice="bf_emma") == "bf_emma"
    assert used(tiny_server, path, text=ENGLISH, language="auto", voice="ff_siwis") == "af_heart"


def test_without_auto_the_voice_reads_what_it_is_given(tiny_server: Server) -> None:
    assert used(tiny_server, text=SPANISH) == "af_heart"
    assert used(tiny_server, text=SPANISH, language="es") == "af_heart"


def test_a_language_without_a_voice_is_left_to_the_voice(tiny_server: Server) -> None:
    assert used(tiny_server, text="Buongiorno a tutti, come state oggi?", language="auto") == "af_heart"


def test_openais_endpoint(tiny_server: Server) -> None:
    for field in ("language", "lang_code"):
        body = {"model": "tts-1", "input": SPANISH, "voice": "af_heart", field: "auto"}
        assert used(tiny_server, "/v1/audio/speech", **body) == "ef_dora"


def test_a_clip_with_word_times(tiny_server: Server) -> None:
    assert post(tiny_server, "/tts/captioned", text=SPANISH, language="auto").json()["voice"] == "ef_dora"


def test_each_clip_of_a_batch(tiny_server: Server) -> None:
    clips = [{"text": SPANISH, "language": "auto"}, {"text": ENGLISH, "language": "auto"}, {"text": SPANISH}]
    with zipfile.ZipFile(io.BytesIO(post(tiny_server, "/tts/batch", requests=clips).content)) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    assert [clip["voice"] for clip in manifest] == ["ef_dora", "af_heart", "af_heart"]
    assert manifest[0]["file"] == "tts_001_ef_dora.wav"


def test_the_reading_is_in_the_language_of_the_text(tiny_server: Server) -> None:
    def reading(**body: Any) -> tuple[str, str]:
        answer = post(tiny_server, "/text/reading", **body).json()
        return answer["language"], answer["phonemes"]

    found = reading(text=f"{SPANISH} Son 12 euros.", language="auto")
    assert found[0] == "es"
    assert found == reading(text=f"{SPANISH} Son 12 euros.", voice="ef_dora")
    assert reading(text="The price is $12.", language="auto", voice="bf_emma")[0] == "en-GB"
    assert reading(turns=[{"text": SPANISH, "language": "auto"}], language="fr-FR")[0] == "es"


def test_a_quotation_is_read_in_its_own_language_by_the_same_voice(tiny_server: Server) -> None:
    quoted = "¿Dónde está la estación de tren?"
    text = f"She said: “{quoted}” Nobody answered the old man."
    found = post(tiny_server, "/text/reading", text=text, language="auto").json()
    spanish = post(tiny_server, "/text/reading", text=quoted, language="es").json()["phonemes"]
    assert found["language"] == "en-US"
    assert spanish.strip("¿?. ") in found["phonemes"]
    assert [text[each["start"] : each["end"]] for each in found["sentences"]] == [
        each["text"] for each in found["sentences"]
    ]
    assert spanish not in post(tiny_server, "/text/reading", text=text).json()["phonemes"]
    assert used(tiny_server, text=text, language="auto") == "af_heart"


@pytest.mark.parametrize("path", ["/tts", "/tts/stream"])
def test_voices_in_ssml_keep_their_text_and_are_named(tiny_server: Server, path: str) -> None:
    """What a named voice says is no sign of the language of the rest."""
    emma = f'<voice name="bf_emma">{SPANISH} {SPANISH}</voice>'
    for ssml, voice in (
        (f"<speak>{emma} {ENGLISH}</speak>", "af_heart"),
        (f"<speak>{SPANISH} <voice name='bf_emma'>{ENGLISH} {ENGLISH}</voice></speak>", "ef_dora"),
        (f"<speak>{emma}</speak>", "bf_emma"),
        (f"<speak>{SPANISH}</speak>", "ef_dora"),
    ):
        assert used(tiny_server, path, text=ssml, ssml=True, language="auto") == voice, ssml
    answer = httpx.post(
        tiny_server.url + path,
        json={"text": "<speak><voice name='af_nobody'>Hi</voice></speak>", "ssml": True, "language": "auto"},
        timeout=300,
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_ssml")


def test_an_unknown_voice_is_still_an_error(tiny_server: Server) -> None:
    for body, field in (
        ({"text": SPANISH, "voice": "af_nobody"}, "voice"),
        ({"turns": [{"text": SPANISH, "voice": "af_nobody"}]}, "turns.0.voice"),
    ):
        for path in ("/tts", "/tts/stream", "/text/reading"):
            answer = httpx.post(tiny_server.url + path, json={**body, "language": "auto"}, timeout=300)
            assert answer.status_code == 400
            assert answer.json()["error"]["code"] == "unknown_voice"
            assert answer.json()["error"]["field"] == field
