"""How long the listener of a session waits for the first sound, as the metrics count it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kokoro_server.api.agents.session import AgentSession, SessionListener, SessionSentence
from kokoro_server.api.agents.text import DeliveryOptions
from kokoro_server.api.async_render import Renderers
from kokoro_server.audio.sound import Sound
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.observability.metrics import Metrics
from kokoro_server.synthesis.utterance import Segment

PATIENCE = 60  # seconds
QUIET = 0.25  # seconds at the start of each sentence
AUDIO = np.concatenate([np.zeros(round(QUIET * SAMPLE_RATE)), np.ones(SAMPLE_RATE)]).astype(np.float32)


class Clock:
    seconds = 100.0

    def now(self) -> float:
        return self.seconds


class Listener(SessionListener):
    """Listens to something else for `held` seconds before each sentence."""

    kind = "test"

    def __init__(self, clock: Clock, held: float) -> None:
        self.clock, self.held, self.flushed = clock, held, asyncio.Event()

    async def on_start(self, _sentence: SessionSentence) -> None:
        self.clock.seconds += self.held

    async def on_flushed(self) -> None:
        self.flushed.set()


@pytest.mark.parametrize("held", [0.0, 10.0])
async def test_only_sentences_that_are_awaited_in_silence_count_and_only_the_servers_time(held: float) -> None:
    clock, metrics = Clock(), Metrics()
    listener = Listener(clock, held)

    async def segments(*_: Any) -> AsyncIterator[Segment]:
        clock.seconds += 0.5  # that the engine takes
        yield Segment(Sound(AUDIO), None, last=True)

    queue = SimpleNamespace(now=clock.now, ticket=lambda **_: None)
    services: Any = SimpleNamespace(
        queue=queue, synthesizer=SimpleNamespace(segments=segments), metrics=metrics, bypass=2, urgent=1
    )
    session = AgentSession(listener, services, Renderers(1, 1.0))
    delivery = DeliveryOptions(optimize_for_latency=True)
    try:
        for quiet in (100, 100, 0):  # seconds: the last sentence follows while the one before it is played
            clock.seconds += quiet
            listener.flushed.clear()
            session.say(delivery, "Hello.", "af_heart")
            session.flush()
            await asyncio.wait_for(listener.flushed.wait(), PATIENCE)
    finally:
        await session.stop()
    value = metrics.registry.get_sample_value
    assert value("tts_time_to_first_audio_seconds_count") == 2
    assert value("tts_time_to_first_audio_seconds_sum") == pytest.approx(2 * 0.5)
    assert value("tts_time_to_first_audible_seconds_sum", {"kind": "test"}) == pytest.approx(2 * (0.5 + QUIET))
