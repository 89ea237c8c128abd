"""A segment that is kept has memory of its own."""

from __future__ import annotations

import numpy as np

from kokoro_server.batching.entry import FireReason, Outcome
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Pcm16, Result
from kokoro_server.synthesis import Segment

BUFFER = np.ones(10 * SAMPLES_PER_FRAME, np.float32)


def outcome(audio: np.ndarray) -> Outcome:
    ready = Pcm16(np.ones(len(audio), np.int16), 1.0)
    return Outcome(Result(audio, np.array([1, 1, 1]), ready), 1.0, 2.0, 3, FireReason.QUIET)


def test_what_shares_the_engines_memory_is_copied_once() -> None:
    audio = BUFFER[: 3 * SAMPLES_PER_FRAME]
    shared = Segment(audio, outcome(audio), last=True)
    assert shared.pcm16 is not None
    kept = shared.kept()
    assert kept.outcome is not None
    assert not np.shares_memory(kept.audio, BUFFER)
    assert not np.shares_memory(kept.outcome.result.audio, BUFFER)
    assert np.array_equal(kept.audio, shared.audio)
    assert (kept.pcm16, kept.last, kept.outcome.batch_size) == (None, True, 3)
    assert kept.kept() is kept


def test_silence_is_kept_as_it_is() -> None:
    silence = Segment(np.zeros(5, np.float32), None, last=False)
    assert silence.kept() is silence
    assert silence.pcm16 is None
