"""The ends of a passage: no more silence than speech needs around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kokoro_server.audio.join import faded_in, faded_out, speech_bounds
from kokoro_server.engine.protocol import SAMPLE_RATE, Audio
from kokoro_server.synthesis.captions import Timing

LEAD = round(0.040 * SAMPLE_RATE)  # samples kept before speech: a chapter's mark is no further from its first word
TAIL = round(0.050 * SAMPLE_RATE)  # and after it
MARGINS = (LEAD + TAIL) / SAMPLE_RATE  # seconds, which a gap between two passages has already


def trimmed(pcm: bytes, words: Sequence[Timing]) -> tuple[bytes, list[Timing]]:
    """16-bit samples without the silence at their ends, and their words."""
    samples: Audio = np.frombuffer(pcm, "<i2").astype(np.float32)
    begin, end = speech_bounds(samples)
    first, last = max(0, begin - LEAD), min(len(samples), end + TAIL)
    kept = faded_out(faded_in(samples[first:last]))
    shift, length = first / SAMPLE_RATE, len(kept) / SAMPLE_RATE
    moved = [
        replace(word, start=min(max(word.start - shift, 0.0), length), end=min(max(word.end - shift, 0.0), length))
        for word in words
    ]
    if moved:  # its time is known to a frame or two; where the sound begins is known better
        moved[0] = replace(moved[0], start=min((begin - first) / SAMPLE_RATE, moved[0].end))
    return np.rint(kept).astype("<i2").tobytes(), moved
