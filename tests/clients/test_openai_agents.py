"""The OpenAI services of voice-agent frameworks against a running server."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.servers import Server, say

aiohttp = pytest.importorskip("aiohttp")
livekit = pytest.importorskip("livekit.agents")
livekit_openai = pytest.importorskip("livekit.plugins.openai")
frames = pytest.importorskip("pipecat.frames.frames")
services = pytest.importorskip("pipecat.services.openai.tts")
pipeline = pytest.importorskip("pipecat.tests.utils")

pytestmark = pytest.mark.clients

TEXT = "It was late, and the lights were on. Nobody knew why."
TOLERANCE = 0.5  # seconds: a stream pauses a little longer between its pieces than a clip


def clip_seconds(server: Server, voice: str) -> float:
    return float(say(server, TEXT, voice=voice).headers["x-audio-duration"])


async def spoken_by(service: Any, text: str) -> tuple[list[Any], list[Any]]:
    """What comes out of a pipecat service, downstream and upstream."""
    found: tuple[list[Any], list[Any]] = await pipeline.run_test(
        service, frames_to_send=[frames.TTSSpeakFrame(text)], start_timeout=30
    )
    return found


def seconds(found: list[Any]) -> float:
    """Of the audio in frames."""
    audio = [frame for frame in found if isinstance(frame, frames.TTSAudioRawFrame)]
    return sum(len(frame.audio) / (2 * frame.num_channels * frame.sample_rate) for frame in audio)


async def test_pipecat_speaks(tiny_server: Server) -> None:
    # The tiny model: pipecat gives up after three seconds without audio, which a busy machine may take.
    service = services.OpenAITTSService(
        api_key="none", base_url=f"{tiny_server.url}/v1", settings=services.OpenAITTSService.Settings(voice="marin")
    )
    down, up = await spoken_by(service, TEXT)
    assert not [frame for frame in (*down, *up) if isinstance(frame, frames.ErrorFrame)]
    assert seconds(down) == pytest.approx(clip_seconds(tiny_server, "af_heart"), abs=TOLERANCE)


@pytest.mark.parametrize("model", ["tts-1", "gpt-4o-mini-tts"])
async def test_livekit_speaks(real_server: Server, model: str) -> None:
    tts = livekit_openai.TTS(model=model, voice="af_heart", base_url=f"{real_server.url}/v1", api_key="none")
    async with tts.synthesize(TEXT) as stream:
        frame = await stream.collect()
    await tts.aclose()
    assert frame.duration == pytest.approx(clip_seconds(real_server, "af_heart"), abs=TOLERANCE)


async def test_an_error_is_livekits_own(tiny_server: Server) -> None:
    tts = livekit_openai.TTS(voice="nobody", base_url=f"{tiny_server.url}/v1", api_key="none")
    with pytest.raises(livekit.APIStatusError) as raised:
        async with tts.synthesize(TEXT, conn_options=livekit.APIConnectOptions(max_retry=0)) as stream:
            await stream.collect()
    await tts.aclose()
    assert raised.value.status_code == 400
    assert "nobody" in str(raised.value.body)


async def test_pipecats_piper_service_speaks(real_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its module imports Piper itself, which is under the GPL and of no use here.
    monkeypatch.setitem(sys.modules, "piper", SimpleNamespace(PiperVoice=None))
    monkeypatch.setitem(sys.modules, "piper.download_voices", SimpleNamespace(download_voice=None))
    piper = importlib.import_module("pipecat.services.piper.tts")
    async with aiohttp.ClientSession() as session:
        service = piper.PiperHttpTTSService(
            base_url=f"{real_server.url}/tts",
            aiohttp_session=session,
            settings=piper.PiperHttpTTSService.Settings(voice="af_heart"),
        )
        down, _ = await spoken_by(service, TEXT)
    assert seconds(down) == pytest.approx(clip_seconds(real_server, "af_heart"), abs=TOLERANCE)
