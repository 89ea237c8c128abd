"""ElevenLabs' own Python package."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.audio_files import decode
from tests.clients.agent_turns import PATIENCE, TURN
from tests.servers import Server, say

elevenlabs = pytest.importorskip("elevenlabs")
pytestmark = [pytest.mark.clients, pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]


@pytest.fixture(params=["", "/elevenlabs"])
def client(request: pytest.FixtureRequest, tiny_server: Server) -> Iterator[Any]:
    base = tiny_server.url + request.param
    with httpx.Client(timeout=PATIENCE) as http:
        made = elevenlabs.ElevenLabs(base_url=base, api_key="none", httpx_client=http)
        made.text_to_speech._ws_base_url = base.replace("http", "ws")
        yield made


def test_speech_arrives(client: Any, tiny_server: Server) -> None:
    expected = say(tiny_server, TURN, format="pcm").content
    whole = client.text_to_speech.convert("af_heart", text=TURN, model_id="eleven_v3", output_format="pcm_24000")
    assert b"".join(whole) == expected
    settings = elevenlabs.VoiceSettings(
        stability=0.5, similarity_boost=0.8, style=0.0, use_speaker_boost=True, speed=1.0
    )
    streamed = client.text_to_speech.stream("af_heart", text=TURN, voice_settings=settings)
    assert decode(b"".join(streamed), "mp3").any()


def test_characters_have_times(client: Any) -> None:
    whole = client.text_to_speech.convert_with_timestamps("af_heart", text=TURN)
    assert "".join(whole.alignment.characters) == TURN
    assert decode(base64.b64decode(whole.audio_base_64), "mp3").any()
    parts = list(client.text_to_speech.stream_with_timestamps("af_heart", text=TURN))
    assert "".join(c for part in parts if part.alignment for c in part.alignment.characters) == TURN
    times = [t for part in parts if part.alignment for t in part.alignment.character_start_times_seconds]
    assert times == sorted(times)


def test_text_that_is_still_written_is_spoken(client: Any) -> None:
    words = iter([f"{word} " for word in TURN.split()])
    audio = b"".join(client.text_to_speech.convert_realtime("af_heart", text=words, output_format="pcm_24000"))
    assert decode(audio, "pcm").any()


def test_voices_models_and_the_account_are_told(client: Any) -> None:
    voices = {voice.voice_id for voice in client.voices.get_all().voices}
    first = client.voices.search(page_size=5)
    second = client.voices.search(page_size=100, next_page_token=first.next_page_token)
    assert {voice.voice_id for voice in first.voices + second.voices} == voices
    assert client.voices.get("af_heart").name == "Heart"
    assert client.models.list()[0].model_id == "kokoro"
    assert client.user.subscription.get().character_limit > 0
    assert client.user.get().subscription.character_limit > 0


def test_errors_are_their_own(client: Any) -> None:
    from elevenlabs.core.api_error import ApiError

    with pytest.raises(ApiError) as missing:
        b"".join(client.text_to_speech.convert("nobody", text=TURN))
    assert (missing.value.status_code, missing.value.body["detail"]["status"]) == (400, "voice_not_found")
    with pytest.raises(ApiError) as refused:
        b"".join(client.text_to_speech.convert_realtime("nobody", text=iter(["Hello. ", "There. "])))
    assert refused.value.status_code == 1008
