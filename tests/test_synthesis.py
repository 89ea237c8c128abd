"""A detached segment has memory of its own."""

from __future__ import annotations

import numpy as np

from kokoro_server.batching.entry import FireReason, Outcome
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Pcm16, Result
from kokoro_server.synthesis import Segment

BUFFER = np.ones(10 * SAMPLES_PER_FRAME, np.float32)


def outcome(audio: np.ndarray) -> Outcome:
    pcm16 = Pcm16(np.ones(len(audio), np.int16), 1.0)
    return Outcome(Result(audio, np.array([1, 1, 1]), pcm16), 1.0, 2.0, 3, FireReason.QUIET)


def test_what_shares_the_engines_memory_is_copied_once() -> None:
    audio = BUFFER[: 3 * SAMPLES_PER_FRAME]
    shared = Segment(audio, outcome(audio), last=True)
    assert shared.pcm16 is not None
    detached = shared.detached()
    assert detached.outcome is not None
    assert not np.shares_memory(detached.audio, BUFFER)
    assert not np.shares_memory(detached.outcome.result.audio, BUFFER)
    assert np.array_equal(detached.audio, shared.audio)
    assert (detached.pcm16, detached.last, detached.outcome.batch_size) == (None, True, 3)
    assert detached.detached() is detached


def test_silence_needs_no_copy() -> None:
    silence = Segment(np.zeros(5, np.float32), None, last=False)
    assert silence.detached() is silence
    assert silence.pcm16 is None
