"""The OpenAI services of voice-agent frameworks against a running server."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace

import aiohttp
import pytest
from livekit.agents import APIConnectOptions, APIStatusError
from livekit.plugins import openai as livekit_openai
from pipecat.frames.frames import ErrorFrame
from pipecat.services.openai.tts import OpenAITTSService

from tests.clients import pipecat_pipeline
from tests.servers import Server, say

pytestmark = pytest.mark.clients

TEXT = "It was late, and the lights were on. Nobody knew why."
TOLERANCE = 0.5  # seconds: a stream pauses a little longer between its pieces than a clip


def clip_seconds(server: Server, voice: str) -> float:
    return float(say(server, TEXT, voice=voice).headers["x-audio-duration"])


async def test_pipecat_speaks(tiny_server: Server) -> None:
    # The tiny model: pipecat gives up after three seconds without audio, which a busy machine may take.
    service = OpenAITTSService(
        api_key="none", base_url=f"{tiny_server.url}/v1", settings=OpenAITTSService.Settings(voice="marin")
    )
    down, up = await pipecat_pipeline.frames_of(service, TEXT)
    assert not [frame for frame in (*down, *up) if isinstance(frame, ErrorFrame)]
    assert pipecat_pipeline.seconds(down) == pytest.approx(clip_seconds(tiny_server, "af_heart"), abs=TOLERANCE)


@pytest.mark.parametrize("model", ["tts-1", "gpt-4o-mini-tts"])
async def test_livekit_speaks(real_server: Server, model: str) -> None:
    tts = livekit_openai.TTS(model=model, voice="af_heart", base_url=f"{real_server.url}/v1", api_key="none")
    async with tts.synthesize(TEXT) as stream:
        frame = await stream.collect()
    await tts.aclose()
    assert frame.duration == pytest.approx(clip_seconds(real_server, "af_heart"), abs=TOLERANCE)


async def test_an_error_is_livekits_own(tiny_server: Server) -> None:
    tts = livekit_openai.TTS(voice="nobody", base_url=f"{tiny_server.url}/v1", api_key="none")
    with pytest.raises(APIStatusError) as raised:
        async with tts.synthesize(TEXT, conn_options=APIConnectOptions(max_retry=0)) as stream:
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
        down, _ = await pipecat_pipeline.frames_of(service, TEXT)
    assert pipecat_pipeline.seconds(down) == pytest.approx(clip_seconds(real_server, "af_heart"), abs=TOLERANCE)
