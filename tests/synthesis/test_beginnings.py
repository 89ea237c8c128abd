"""The beginning of a stream's first piece comes before its rest is made, and nothing else changes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Engine, OnBeginning, Result, Row
from kokoro_server.server.app import create_app
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.synthesizer import Synthesizer
from kokoro_server.synthesis.utterance import Segment
from tests import tiny

PATIENCE = 60.0
TWO_PIECES = "wˈʌn tˈu θɹˈi fˈɔɹ fˈIv. sˈɪks sˈɛvᵊn ˈAt nˈIn tˈɛn."


class EarlyEngine:
    """Gives the first quarter of a row early, then the next one, and the rest when `gate` is open.

    `fails`: it fails after that once.
    """

    speaks_early = True

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.device, self.warmup = engine.device, engine.warmup
        self.limits = replace(engine.limits, max_rows=1)
        self.real_time_factor: float | None = 0.3
        self.present_factor: float | None = 0.3
        self.gate = threading.Event()
        self.gate.set()
        self.early = 0
        self.fails = False

    def measure(self) -> None: ...

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        return self._engine.synthesize(rows)

    def synthesize_early(self, row: Row, on_beginning: OnBeginning) -> Result:
        [result] = self._engine.synthesize([row])
        cut = int(result.durations.sum()) // 4 * SAMPLES_PER_FRAME
        self.early += 1
        on_beginning(Result(result.audio[:cut], result.durations))
        on_beginning(Result(result.audio[: 2 * cut], result.durations))
        if not self.gate.wait(PATIENCE):
            raise TimeoutError("the test left the gate shut")
        if self.fails:
            self.fails = False
            raise MemoryError
        return result


class EarlyServer:
    def __init__(self, folder: Path) -> None:
        loaded = tiny.load(folder)
        self.engine = EarlyEngine(loaded.engines[0])
        settings = Settings.load({"G2P_SERVICE_URL": "http://localhost:9"}, dotenv=None)
        self._app = create_app(settings, load=lambda _: replace(loaded, engines=(self.engine,)))
        self._running = self._app.router.lifespan_context(self._app)

    async def __aenter__(self) -> EarlyServer:
        await self._running.__aenter__()
        self.synthesizer: Synthesizer = self._app.state.services.synthesizer
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._running.__aexit__(None, None, None)

    async def stream(self, speech: Speech) -> list[Segment]:
        return [segment async for segment in self.synthesizer.segments(speech)]


def joined(segments: Sequence[Segment]) -> np.ndarray:
    return np.concatenate([segment.audio for segment in segments])


@pytest.mark.parametrize("phonemes", ["wˈʌn tˈu θɹˈi.", TWO_PIECES])
async def test_a_stream_with_a_beginning_has_the_samples_and_words_of_one_without(
    phonemes: str, tmp_path: Path
) -> None:
    speech = Speech(voice="af_heart", phonemes=phonemes)
    async with EarlyServer(tmp_path) as server:
        with_beginning = await server.stream(speech)
        assert server.engine.early == 1
        clip = await server.synthesizer.speak(speech, cutting="stream")
        assert server.engine.early == 1  # who waits for the whole clip gains nothing
    assert np.array_equal(joined(with_beginning), clip.audio)
    words = [word for segment in with_beginning for word in segment.words]
    assert words == list(clip.words)
    assert [segment.last for segment in with_beginning] == [False] * (len(with_beginning) - 1) + [True]
    assert sum(len(segment.outcome.result.durations) for segment in with_beginning if segment.outcome) == sum(
        len(segment.outcome.result.durations) for segment in clip.segments if segment.outcome
    )


async def test_the_beginning_is_heard_while_the_rest_is_made(tmp_path: Path) -> None:
    async with EarlyServer(tmp_path) as server:
        server.engine.gate.clear()
        stream = server.synthesizer.segments(Speech(voice="af_heart", phonemes="wˈʌn tˈu θɹˈi."))
        first = await asyncio.wait_for(anext(stream), PATIENCE)
        assert len(first.audio)
        assert first.words
        assert not first.last
        server.engine.gate.set()
        rest = [segment async for segment in stream]
    assert [segment.last for segment in rest] == [False, True]


async def test_a_listener_who_leaves_after_the_beginning_leaves_nothing_behind(tmp_path: Path) -> None:
    async with EarlyServer(tmp_path) as server:
        server.engine.gate.clear()
        stream = server.synthesizer.segments(Speech(voice="af_heart", phonemes=TWO_PIECES))
        await asyncio.wait_for(anext(stream), PATIENCE)
        await stream.aclose()
        server.engine.gate.set()
        assert await server.stream(Speech(voice="af_heart", phonemes="wˈʌn."))


async def test_a_pass_that_fails_after_its_beginning_is_tried_again_and_goes_on_where_it_was(tmp_path: Path) -> None:
    speech = Speech(voice="af_heart", phonemes="wˈʌn tˈu θɹˈi.")
    async with EarlyServer(tmp_path) as server:
        wanted = joined(await server.stream(speech))
        server.engine.fails = True
        assert np.array_equal(joined(await server.stream(speech)), wanted)


@pytest.mark.parametrize("how", [{"speed": 2.0}, {"trim": False}, {"level": "even"}])
async def test_audio_that_is_changed_as_a_whole_has_no_beginning(how: dict[str, Any], tmp_path: Path) -> None:
    async with EarlyServer(tmp_path) as server:
        await server.stream(Speech(voice="af_heart", phonemes="wˈʌn tˈu θɹˈi.", **how))
        assert server.engine.early == 0
