"""A pipecat pipeline of one speech service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipecat.frames.frames import Frame, TTSAudioRawFrame, TTSSpeakFrame
from pipecat.tests.utils import run_test

START_TIMEOUT = 30.0  # seconds


async def frames_of(service: Any, *texts: str) -> tuple[Sequence[Frame], Sequence[Frame]]:
    """What comes out of the service, downstream and upstream, when it is to speak the texts."""
    return await run_test(service, frames_to_send=[TTSSpeakFrame(text) for text in texts], start_timeout=START_TIMEOUT)


def seconds(frames: Sequence[Frame]) -> float:
    """Of the audio in them."""
    audio = [frame for frame in frames if isinstance(frame, TTSAudioRawFrame)]
    return sum(len(frame.audio) / (2 * frame.num_channels * frame.sample_rate) for frame in audio)
