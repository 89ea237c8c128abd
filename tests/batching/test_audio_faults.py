"""Bad rows are found alike, whether each has an array of its own or all are views of one buffer."""

from __future__ import annotations

import numpy as np
import pytest

from kokoro_server.batching.faults import audio_faults
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, STYLE_DIM, Pcm16, Result, Row

FRAMES = (4, 7, 3, 6, 5)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 1, 0)])
def test_each_fault_is_its_own_rows(shared: bool, order: tuple[int, ...]) -> None:
    buffer = np.full((len(FRAMES), max(FRAMES) * SAMPLES_PER_FRAME), np.nan, np.float32)  # the padding is no one's
    for line, frames in zip(buffer, FRAMES, strict=True):
        line[: frames * SAMPLES_PER_FRAME] = 0.1
    buffer[1, 7] = np.inf
    buffer[2, : 3 * SAMPLES_PER_FRAME] = 0.0
    buffer[4, 5 * SAMPLES_PER_FRAME - 1] = np.nan
    rows, results = [], []
    for number in order:
        audio = buffer[number, : FRAMES[number] * SAMPLES_PER_FRAME]
        rows.append(Row((1,), np.zeros(STYLE_DIM, np.float32)))
        results.append(Result(audio if shared else audio.copy(), np.array([1, FRAMES[number] - 2, 1])))
    wanted = {1: "samples that are not finite", 2: "silence", 4: "samples that are not finite"}
    assert audio_faults(rows, results) == [wanted.get(number) for number in order]
    assert audio_faults([], []) == []


def test_a_peak_that_the_engine_has_found_is_believed() -> None:
    audio, durations = np.full(3 * SAMPLES_PER_FRAME, 0.1, np.float32), np.array([1, 1, 1])
    row = Row((1,), np.zeros(STYLE_DIM, np.float32))
    results = [
        Result(audio, durations, Pcm16(np.zeros(len(audio), np.int16), peak))
        for peak in (0.1, 0.0, float("nan"), float("inf"))
    ]
    found = audio_faults([row] * len(results), results)
    assert found == [None, "silence", "samples that are not finite", "samples that are not finite"]
