"""LiveKit's plugin for ElevenLabs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.clients.agent_turns import LONG_TURN, TURN, check_words, rows_made, wait_until_idle
from tests.servers import Server

plugin = pytest.importorskip("livekit.plugins.elevenlabs")
aiohttp = pytest.importorskip("aiohttp")
agents = pytest.importorskip("livekit.agents")
pytestmark = [pytest.mark.clients, pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]

ONCE = agents.APIConnectOptions(max_retry=0, timeout=60)


@asynccontextmanager
async def speaking(server: Server, **options: Any) -> AsyncIterator[Any]:
    async with aiohttp.ClientSession() as http:
        options = {"voice_id": "af_heart", "base_url": f"{server.url}/v1", "api_key": "none"} | options
        tts = plugin.TTS(http_session=http, **options)
        yield tts
        await tts.aclose()


async def say_turn(tts: Any, text: str) -> tuple[float, list[tuple[str, float]]]:
    """The seconds of audio, and when each word is said."""
    from livekit.agents.types import USERDATA_TIMED_TRANSCRIPT

    seconds, words = 0.0, list[tuple[str, float]]()
    async with tts.stream(conn_options=ONCE) as stream:
        stream.push_text(text)
        stream.end_input()
        async for event in stream:
            seconds += event.frame.duration
            timed = event.frame.userdata.get(USERDATA_TIMED_TRANSCRIPT, [])
            words += [(str(word), word.start_time) for word in timed]
    return seconds, words


@pytest.mark.parametrize("encoding", ["pcm_24000", "mp3_22050_32"])
async def test_a_turn_is_spoken_with_times(tiny_server: Server, encoding: str) -> None:
    base = f"{tiny_server.url}/elevenlabs/v1"
    async with speaking(tiny_server, base_url=base, encoding=encoding) as tts:
        for _ in range(2):  # the second on the same socket
            seconds, words = await say_turn(tts, TURN)
            assert seconds > words[-1][1]
            await asyncio.to_thread(check_words, tiny_server, words)
        assert "af_heart" in {voice.id for voice in await tts.list_voices()}


async def test_a_text_is_spoken_as_a_whole(tiny_server: Server) -> None:
    async with speaking(tiny_server) as tts, tts.synthesize(TURN, conn_options=ONCE) as stream:
        assert sum([event.frame.duration async for event in stream]) > 1


async def test_an_interruption_stops_the_work(tiny_server: Server) -> None:
    before = rows_made(tiny_server)
    async with speaking(tiny_server, encoding="pcm_24000") as tts:
        stream = tts.stream(conn_options=ONCE)
        for sentence in LONG_TURN:
            stream.push_text(sentence)
        await anext(aiter(stream))
        await stream.aclose()
        seconds, _ = await say_turn(tts, "Yes?")
        assert seconds > 0
        await asyncio.to_thread(wait_until_idle, tiny_server)
        assert rows_made(tiny_server) - before < len(LONG_TURN) / 2


async def test_errors_are_their_own(tiny_server: Server) -> None:
    async with speaking(tiny_server, voice_id="nobody") as tts:
        with pytest.raises(agents.APIStatusError) as missing:
            async with tts.synthesize(TURN, conn_options=ONCE) as stream:
                await anext(aiter(stream))
        assert missing.value.status_code == 400
        with pytest.raises(agents.APIStatusError) as refused:
            await say_turn(tts, TURN)
        assert refused.value.status_code == 1008
