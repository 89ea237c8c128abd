"""What the tests of voice agents' packages share: the text, and how pipecat and LiveKit are driven."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.servers import Server, say

SENTENCES = ["Hello there, my friend.", "It was late, and the lights were on."]
TEXT = " ".join(SENTENCES)
LONG_SENTENCES = 200
LONG = "It was late, and the lights were on; nobody knew why. " * LONG_SENTENCES
RATE = 24_000
PATIENCE = 300  # seconds

Word = tuple[str, float]


def assert_lasts(server: Server, audio: bytes) -> None:
    """16-bit samples that last as long as the text as a clip, or as a stream; or as its sentences, one by one."""
    whole, *alone = (float(say(server, text).headers["x-audio-duration"]) for text in (TEXT, *SENTENCES))
    streamed = sum(len(base64.b64decode(event["audio"])) for event in _as_a_stream(server)) / 2 / RATE
    seconds = len(audio) / 2 / RATE
    assert any(seconds == pytest.approx(expected, abs=0.1) for expected in (whole, streamed, sum(alone)))


def _as_a_stream(server: Server) -> list[dict[str, Any]]:
    """The parts of the text's audio, with their words."""
    body, accept = {"text": TEXT, "format": "pcm"}, {"Accept": "application/x-ndjson"}
    answer = httpx.post(f"{server.url}/tts/captioned", json=body, headers=accept, timeout=PATIENCE)
    return [event for event in map(json.loads, answer.text.splitlines()) if "audio" in event]


def assert_queue_is_empty(server: Server) -> None:
    """All but what is on the device: no more than one batch is still made."""
    status = httpx.get(f"{server.url}/health/batching").json()["queue_status"]
    assert (status["current_size"], status["preparing"]) == (0, 0)


def assert_no_places_are_taken(server: Server) -> None:
    deadline = time.monotonic() + PATIENCE
    while taken := httpx.get(f"{server.url}/health/streaming").json()["stream_slots"]["used"]:
        assert time.monotonic() < deadline, taken
        time.sleep(0.1)


def assert_timed(server: Server, words: Sequence[Word]) -> None:
    """Words with their starts, which are those of the text as a stream."""
    expected = [word["start"] for event in _as_a_stream(server) for word in event["words"]]
    starts = [start for _, start in words]
    assert starts == sorted(starts)
    assert starts == pytest.approx(expected, abs=0.1)
    assert [word.strip() for word, _ in words] == TEXT.split()


def http_session() -> Any:
    import aiohttp

    return aiohttp.ClientSession()


async def livekit_stream(tts: Any, text: str, words: list[Word] | None = None) -> bytes:
    stream, audio = tts.stream(), b""
    for word in text.split(" "):
        stream.push_text(word + " ")
    stream.end_input()
    async with asyncio.timeout(PATIENCE), stream:
        async for event in stream:
            audio += bytes(event.frame.data)
            if words is not None:
                words += [(each, each.start_time) for each in event.frame.userdata.get("lk.timed_transcripts", ())]
    return audio


async def livekit_chunks(tts: Any, text: str) -> bytes:
    from livekit.agents import APIConnectOptions

    async with asyncio.timeout(PATIENCE), tts.synthesize(text, conn_options=APIConnectOptions(max_retry=0)) as stream:
        return b"".join([bytes(event.frame.data) async for event in stream])


async def livekit_interrupted(tts: Any) -> None:
    """The stream is closed when the first audio comes."""
    stream = tts.stream()
    stream.push_text(LONG)
    stream.end_input()
    async with asyncio.timeout(PATIENCE):
        await anext(aiter(stream))
        await stream.aclose()


@asynccontextmanager
async def dropping_work(server: Server) -> AsyncIterator[None]:
    """Most of LONG, which is begun here, must never be made."""
    async with asyncio.timeout(PATIENCE), httpx.AsyncClient(base_url=server.url) as client:

        async def status() -> Any:
            return (await client.get("/health/batching")).json()

        before = (await status())["performance"]["total_requests"]
        yield
        now = await status()
        while now["queue_status"]["current_size"] or now["queue_status"]["preparing"]:
            await asyncio.sleep(0.1)
            now = await status()
        assert now["performance"]["total_requests"] - before < LONG_SENTENCES / 2


async def pipecat_turn(service: Any, sentences: Sequence[str]) -> tuple[bytes, list[str], list[str]]:
    """The audio, the words and the errors of an answer that comes sentence by sentence."""
    from pipecat.frames.frames import (
        ErrorFrame,
        LLMFullResponseEndFrame,
        LLMFullResponseStartFrame,
        LLMTextFrame,
        TTSAudioRawFrame,
        TTSTextFrame,
    )
    from pipecat.tests.utils import SleepFrame, run_test

    texts = [LLMTextFrame(f"{sentence} ") for sentence in sentences]
    frames = [LLMFullResponseStartFrame(), *texts, LLMFullResponseEndFrame(), SleepFrame(10)]
    down, up = await run_test(service, frames_to_send=frames, start_timeout=PATIENCE)
    audio = b"".join(frame.audio for frame in down if isinstance(frame, TTSAudioRawFrame))
    words = [frame.text for frame in down if isinstance(frame, TTSTextFrame)]
    return audio, words, [frame.error for frame in up if isinstance(frame, ErrorFrame)]


async def pipecat_interrupted(service: Any) -> None:
    from pipecat.frames.frames import (
        InterruptionFrame,
        LLMFullResponseEndFrame,
        LLMFullResponseStartFrame,
        LLMTextFrame,
    )
    from pipecat.tests.utils import SleepFrame, run_test

    answer = [LLMFullResponseStartFrame(), LLMTextFrame(LONG), LLMFullResponseEndFrame()]
    frames = [*answer, SleepFrame(0.5), InterruptionFrame(), SleepFrame(1)]
    await run_test(service, frames_to_send=frames, start_timeout=PATIENCE)
