"""pipecat's services for ElevenLabs, over a WebSocket and over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.clients.agent_turns import LONG_TURN, SENTENCES, TURN, check_words, rows_made, wait_until_idle
from tests.servers import Server

services = pytest.importorskip("pipecat.services.elevenlabs.tts")
frames = pytest.importorskip("pipecat.frames.frames")
pipeline = pytest.importorskip("pipecat.tests.utils")
aiohttp = pytest.importorskip("aiohttp")
pytestmark = [pytest.mark.clients, pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]

TIME_TO_SPEAK = 10.0  # seconds: its pipelines are told when to end, not that speech has
RATE = 24_000


def agent(server: Server, voice: str = "af_heart") -> Any:
    kind = services.ElevenLabsTTSService
    url = server.url.replace("http", "ws")
    return kind(api_key="none", url=url, sample_rate=RATE, settings=kind.Settings(voice=voice, speed=1.0))


def turn(sentences: list[str]) -> list[Any]:
    texts = [frames.LLMTextFrame(f"{sentence} ") for sentence in sentences]
    return [frames.LLMFullResponseStartFrame(), *texts, frames.LLMFullResponseEndFrame()]


async def run(service: Any, *sent: Any) -> tuple[list[Any], list[Any]]:
    down, up = await pipeline.run_test(
        service, frames_to_send=[*sent, pipeline.SleepFrame(TIME_TO_SPEAK)], start_timeout=60
    )
    return list(down), list(up)


def seconds(down: list[Any]) -> float:
    return sum(len(frame.audio) / 2 / RATE for frame in down if isinstance(frame, frames.TTSAudioRawFrame))


def words(down: list[Any]) -> list[tuple[str, float]]:
    """Each with its time from the first one."""
    found = [(frame.text, frame.pts / 1e9) for frame in down if isinstance(frame, frames.TTSTextFrame)]
    return [(text, time - found[0][1]) for text, time in found]


async def test_a_turn_is_spoken_with_times(tiny_server: Server) -> None:
    down, up = await run(agent(tiny_server), *turn(SENTENCES))
    assert not [frame for frame in up if isinstance(frame, frames.ErrorFrame)]
    assert seconds(down) > words(down)[-1][1]
    await asyncio.to_thread(check_words, tiny_server, words(down))


async def test_a_text_is_spoken_over_http(tiny_server: Server) -> None:
    kind = services.ElevenLabsHttpTTSService
    async with aiohttp.ClientSession() as http:
        settings = kind.Settings(voice="af_heart")
        base = f"{tiny_server.url}/elevenlabs"
        service = kind(api_key="none", base_url=base, aiohttp_session=http, sample_rate=RATE, settings=settings)
        down, _ = await run(service, frames.TTSSpeakFrame(TURN))
        assert " ".join(word for word, _ in words(down)) == TURN
        assert seconds(down) > words(down)[-1][1] > 1
        settings = kind.Settings(voice="nobody")
        service = kind(api_key="none", base_url=base, aiohttp_session=http, sample_rate=RATE, settings=settings)
        _, up = await run(service, frames.TTSSpeakFrame(TURN))
        assert any("voice_not_found" in frame.error for frame in up if isinstance(frame, frames.ErrorFrame))


async def test_an_interruption_stops_the_work(tiny_server: Server) -> None:
    before = rows_made(tiny_server)
    long_turn = [frames.LLMFullResponseStartFrame(), *map(frames.LLMTextFrame, LONG_TURN)]
    down, _ = await run(
        agent(tiny_server), *long_turn, pipeline.SleepFrame(2), frames.InterruptionFrame(), *turn(["Yes?"])
    )
    assert words(down)[-1][0] == "Yes?"
    await asyncio.to_thread(wait_until_idle, tiny_server)
    assert rows_made(tiny_server) - before < len(LONG_TURN) / 2


async def test_errors_are_their_own(tiny_server: Server) -> None:
    _, up = await run(agent(tiny_server, "nobody"), frames.TTSSpeakFrame(TURN))
    assert [frame for frame in up if isinstance(frame, frames.ErrorFrame)]
