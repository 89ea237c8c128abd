"""Deepgram's SDK, and the plugins of pipecat and LiveKit that speak its protocol, against a real server."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest

from tests.clients import agents
from tests.servers import Server

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    deepgram = pytest.importorskip("deepgram")
    livekit = pytest.importorskip("livekit.plugins.deepgram")
    pipecat = pytest.importorskip("pipecat.services.deepgram.tts")
    from deepgram.core.api_error import ApiError
    from deepgram.environment import DeepgramClientEnvironment
    from deepgram.errors import BadRequestError
    from deepgram.speak.v1.types import SpeakV1Text
    from livekit.agents import APIStatusError

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("default")]


def environment(server: Server, prefix: str = "/deepgram") -> Any:
    base, socket = server.url + prefix, server.url.replace("http", "ws", 1) + prefix
    return DeepgramClientEnvironment(base=base, production=socket, agent=socket, agent_rest=base)


@pytest.mark.parametrize("prefix", ["", "/deepgram"])
def test_sdk_by_http(real_server: Server, prefix: str) -> None:
    client = deepgram.DeepgramClient(api_key="none", environment=environment(real_server, prefix))
    generate = client.speak.v1.audio.generate
    parts = generate(text=agents.TEXT, model="af_heart", encoding="linear16", container="none", sample_rate=24000)
    agents.assert_lasts(real_server, b"".join(parts))
    with pytest.raises(BadRequestError) as refusal:
        list(generate(text=agents.TEXT, model="aura-2-viktoria-de"))
    assert "aura-2-viktoria-de" in refusal.value.body["err_msg"]


def test_sdk_by_websocket(real_server: Server) -> None:
    speak = deepgram.DeepgramClient(api_key="none", environment=environment(real_server)).speak.v1
    with speak.connect(model="aura-2-thalia-en", encoding="linear16", sample_rate=24000) as socket:
        assert socket.recv().model_name == "af_heart"

        def turn(text: str) -> bytes:
            socket.send_text(SpeakV1Text(text=text))
            socket.send_flush()
            heard = b""
            while isinstance(message := socket.recv(), bytes):
                heard += message
            assert message.type == "Flushed"
            return heard

        agents.assert_lasts(real_server, turn(agents.TEXT))
        socket.send_text(SpeakV1Text(text=agents.LONG))
        socket.send_clear()
        while isinstance(message := socket.recv(), bytes):
            pass
        assert message.type == "Cleared"
        agents.assert_queue_is_empty(real_server)
        agents.assert_lasts(real_server, turn(agents.TEXT))
        socket.send_close()
        assert list(socket) == []


async def test_sdk_is_refused(real_server: Server) -> None:
    speak = deepgram.AsyncDeepgramClient(api_key="none", environment=environment(real_server)).speak.v1
    with pytest.raises(ApiError) as refusal:
        async with speak.connect(model="nobody"):
            pass
    assert refusal.value.status_code == 400


async def test_livekit(real_server: Server) -> None:
    async with agents.http_session() as session:
        tts = livekit.TTS(
            base_url=f"{real_server.url}/deepgram/v1/speak", api_key="none", model="af_heart", http_session=session
        )
        agents.assert_lasts(real_server, await agents.livekit_stream(tts, agents.TEXT))
        agents.assert_lasts(real_server, await agents.livekit_chunks(tts, agents.TEXT))
        async with agents.dropping_work(real_server):
            await agents.livekit_interrupted(tts)
        tts.update_options(model="nobody")
        with pytest.raises(APIStatusError) as refusal:
            await agents.livekit_chunks(tts, "Hello.")
        assert refusal.value.status_code == 400
        await tts.aclose()


async def test_pipecat(tiny_server: Server) -> None:
    """The tiny model: pipecat gives up a turn of which nothing is heard in three seconds."""
    url = tiny_server.url.replace("http", "ws", 1) + "/deepgram"

    def service(voice: str) -> Any:
        settings = pipecat.DeepgramTTSService.Settings(voice=voice)
        return pipecat.DeepgramTTSService(api_key="none", base_url=url, sample_rate=24000, settings=settings)

    audio, _words, errors = await agents.pipecat_turn(service("af_heart"), agents.SENTENCES)
    agents.assert_lasts(tiny_server, audio)
    assert not errors
    async with agents.dropping_work(tiny_server):
        await agents.pipecat_interrupted(service("af_heart"))
    _audio, _words, errors = await agents.pipecat_turn(service("aura-2-viktoria-de"), ["Hello."])
    assert any("aura-2-viktoria-de" in error for error in errors)


async def test_sockets_do_not_pile_up(tiny_server: Server) -> None:
    await asyncio.to_thread(agents.assert_no_places_are_taken, tiny_server)
