"""Segments: one that is detached has memory of its own, and none is very long. Speeds: what is heard, and when."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import numpy as np
import pytest

from kokoro_server.audio.join import LEAD, TAIL
from kokoro_server.audio.sound import Sound
from kokoro_server.audio.stretch import Warp, stretched
from kokoro_server.batching.entry import FireReason, Outcome, Priority
from kokoro_server.config.settings import Settings
from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME, Audio, Pcm16, Result
from kokoro_server.runtime.fair_slots import FairSlots
from kokoro_server.server.app import create_app
from kokoro_server.synthesis.clip import Clip
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.synthesizer import Synthesizer
from kokoro_server.synthesis.utterance import Segment
from kokoro_server.text.pieces import Cutting
from tests import tiny

BUFFER = np.ones(10 * SAMPLES_PER_FRAME, np.float32)


def outcome(audio: np.ndarray) -> Outcome:
    return Outcome(Result(audio, np.array([1, 1, 1])), 1.0, 2.0, 3, FireReason.QUIET)


def test_what_shares_the_engines_memory_is_copied_once() -> None:
    audio = BUFFER[: 3 * SAMPLES_PER_FRAME]
    buffer16 = np.ones(len(BUFFER), np.int16)
    shared = Segment(Sound(audio, Pcm16(buffer16[: len(audio)], 1.0)), outcome(audio), last=True)
    detached = shared.detached()
    assert detached.outcome is not None
    assert detached.pcm16 is not None
    assert not np.shares_memory(detached.pcm16.samples, buffer16)
    assert np.array_equal(detached.pcm16.samples, buffer16[: len(audio)])
    assert not np.shares_memory(detached.audio, BUFFER)
    assert not np.shares_memory(detached.outcome.result.audio, BUFFER)
    assert np.array_equal(detached.audio, shared.audio)
    assert (detached.pcm16.peak, detached.last, detached.outcome.batch_size) == (1.0, True, 3)
    assert detached.detached() is detached


def test_silence_needs_no_copy() -> None:
    silence = Segment(Sound.silence(5), None, last=False)
    assert silence.detached() is silence


async def test_long_silence_comes_in_bounded_segments_and_is_as_long_as_was_asked_for(tmp_path: Path) -> None:
    app = create_app(
        Settings.load({"G2P_SERVICE_URL": "http://localhost:9"}, dotenv=None),
        load=lambda _settings: tiny.load(tmp_path),
    )
    pauses = "[pause:30s]" * 3 + "[pause:10s]" * 9
    speech = Speech(voice="af_heart", phonemes=f"wˈʌn. {pauses} tˈu. {pauses}")
    short = Speech(voice="af_heart", phonemes="wˈʌn. [pause:0s] tˈu. [pause:0s]")
    async with app.router.lifespan_context(app):
        synthesizer: Synthesizer = app.state.services.synthesizer
        segments = [segment async for segment in synthesizer.segments(speech)]
        clip, without = await synthesizer.speak(speech), await synthesizer.speak(short)
    assert max(len(segment.audio) for segment in segments) <= 60 * SAMPLE_RATE
    assert [segment.last for segment in segments] == [False] * (len(segments) - 1) + [True]
    assert np.array_equal(np.concatenate([segment.audio for segment in segments]), clip.audio)
    assert len(clip.audio) == len(without.audio) + 2 * 180 * SAMPLE_RATE


async def test_a_later_clip_of_a_request_waits_for_memory_too(tmp_path: Path) -> None:
    """The first deadline of a long bulk request has passed when its later clips begin."""
    app = create_app(
        Settings.load({"G2P_SERVICE_URL": "http://localhost:9"}, dotenv=None),
        load=lambda _settings: tiny.load(tmp_path),
    )
    speech = Speech(voice="af_heart", phonemes="wˈʌn. [pause:30s] tˈu. [pause:10s]")
    async with app.router.lifespan_context(app):
        services = app.state.services
        services.synthesizer._memory.seconds = FairSlots(60)
        ticket = services.queue.ticket(priority=Priority.BULK, deadline=services.queue.now() + 0.5)
        await services.synthesizer.speak(Speech(voice="af_heart", phonemes="wˈʌn."), ticket)
        await asyncio.sleep(0.5)
        clips = await asyncio.gather(*(services.synthesizer.speak(speech, ticket) for _ in range(3)))
    assert [clip.seconds > 40 for clip in clips] == [True] * 3


async def spoken(tmp_path: Path, *speeches: Speech) -> list[Clip]:
    app = create_app(
        Settings.load({"G2P_SERVICE_URL": "http://localhost:9"}, dotenv=None),
        load=lambda _settings: tiny.load(tmp_path),
    )
    async with app.router.lifespan_context(app):
        return [await app.state.services.synthesizer.speak(speech) for speech in speeches]


PHONEMES = "wˈʌn tˈu θɹˈi. fˈɔɹ fˈIv sˈɪks."


async def test_a_clip_at_any_speed_is_as_long_as_its_speed_says_and_so_are_its_words(tmp_path: Path) -> None:
    speeds = (0.25, 0.5, 1.6, 2.0, 4.0)
    plain, *clips = await spoken(
        tmp_path, *(Speech(voice="af_heart", phonemes=PHONEMES, speed=speed, trim=False) for speed in (1.0, *speeds))
    )
    for speed, clip in zip(speeds, clips, strict=True):
        assert clip.samples == pytest.approx(plain.samples / speed, abs=1)
        assert clip.pcm16 is None
        times = [time for word in clip.words for time in (word.start, word.end)]
        assert times == sorted(times)
        assert times[-1] <= clip.seconds
        if speed < 1:  # all of it is slower alike
            wanted = [time / speed for word in plain.words for time in (word.start, word.end)]
            assert times == pytest.approx(wanted, abs=0.001)


async def test_the_rate_asked_for_is_heard_in_clips_and_in_streams_with_their_pauses(tmp_path: Path) -> None:
    """Pieces are joined with pauses. What is before the first sound and after the last is the same at any speed."""
    app = create_app(
        Settings.load({"G2P_SERVICE_URL": "http://localhost:9"}, dotenv=None),
        load=lambda _settings: tiny.load(tmp_path),
    )
    phonemes = " ".join(["ðˌɪs ɪz sˈɛntᵊns nˈʌmbəɹ wˈʌn, ænd ɪt ɪz nˌɑt ðə lˈæst wˈʌn."] * 5)
    async with app.router.lifespan_context(app):

        async def heard(cutting: Cutting, speed: float) -> tuple[int, float]:
            """The joined pieces, and the seconds from the first sound to the last."""
            speech = Speech(voice="af_heart", phonemes=phonemes, speed=speed)
            found = [each async for each in app.state.services.synthesizer.segments(speech, cutting=cutting)]
            return len(found), sum(len(each.audio) for each in found) / SAMPLE_RATE - LEAD - TAIL

        for cutting in ("clip", "stream"):
            pieces, plain = await heard(cutting, 1.0)
            assert pieces > 1
            for speed in (0.25, 0.5, 1.6, 2.0, 4.0):
                assert (await heard(cutting, speed))[1] * speed == pytest.approx(plain, rel=0.02)


async def test_speeds_near_the_voices_own_are_the_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("kokoro_server.synthesis.utterance.stretched")
    speeds = (0.7, 0.9, 1.0, 1.2, 1.4)
    lengths = [
        clip.samples
        for clip in await spoken(
            tmp_path, *(Speech(voice="af_heart", phonemes=PHONEMES, speed=speed, trim=False) for speed in speeds)
        )
    ]
    assert lengths == sorted(lengths, reverse=True)
    assert all(length % SAMPLES_PER_FRAME == 0 for length in lengths)


async def test_audio_is_stretched_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def noted(audio: Audio, factor: float) -> tuple[Audio, Warp]:
        threads.append(threading.current_thread())
        return stretched(audio, factor)

    monkeypatch.setattr("kokoro_server.synthesis.utterance.stretched", noted)
    await spoken(tmp_path, Speech(voice="af_heart", phonemes=PHONEMES, speed=3.0))
    assert threads
    assert threading.main_thread() not in threads
