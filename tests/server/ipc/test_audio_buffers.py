from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kokoro_server.batching import FireReason, Outcome
from kokoro_server.engine.protocol import Audio, Pcm16, Result
from kokoro_server.server.ipc import audio_buffers, wire
from kokoro_server.server.ipc.audio_buffers import AudioBuffers, AudioBufferView
from kokoro_server.server.ipc.wire import OutcomeHead

MEGABYTE = 2**20


def result(samples: int, value: float = 1.0, *, pcm: bool = False) -> Result:
    audio: Audio = np.full(samples, value, np.float32)
    ready = Pcm16(np.full(samples, int(value), np.int16), value) if pcm else None
    return Result(audio, np.array([samples]), ready)


def head(made: Result, offset: int | None) -> OutcomeHead:
    message = wire.outcome(1, Outcome(made, 0.0, 0.0, 1, FireReason.FULL), offset)
    return OutcomeHead.decode(message[wire.HEADER.size :])


@pytest.mark.parametrize("pcm", [False, True])
@pytest.mark.parametrize("samples", [0, 1, 600, 100_000])
def test_another_process_sees_what_was_put(samples: int, pcm: bool) -> None:
    buffers = AudioBuffers(MEGABYTE)
    view = AudioBufferView(os.dup(buffers.fd))
    made = result(samples, 3.0, pcm=pcm)
    for offset in (buffers.put(made), None):  # in shared memory, and inside the message
        got = view.take(head(made, offset))
        assert np.array_equal(got.audio, made.audio)
        assert got.durations.tolist() == [samples]
        assert (got.pcm16 is not None) is pcm
        if got.pcm16 and made.pcm16:
            assert np.array_equal(got.pcm16.samples, made.pcm16.samples)
            assert got.pcm16.peak == 3.0
    view.close()
    buffers.close()


def test_what_is_taken_out_stays_when_its_place_is_used_again() -> None:
    buffers = AudioBuffers(MEGABYTE)
    view = AudioBufferView(os.dup(buffers.fd))
    first = buffers.put(result(600, 1.0))
    got = view.take(head(result(600, 1.0), first))
    assert first is not None
    buffers.free(first)
    assert buffers.put(result(600, 2.0)) == first
    assert got.audio.tolist() == [1.0] * 600
    view.close()
    buffers.close()


def test_a_row_of_a_batch_can_be_a_part_of_its_memory() -> None:
    buffers = AudioBuffers(MEGABYTE)
    view = AudioBufferView(os.dup(buffers.fd))
    batch = np.arange(1200, dtype=np.float32).reshape(600, 2)
    made = Result(batch[:, 1], np.array([1]))
    assert np.array_equal(view.take(head(made, buffers.put(made))).audio, batch[:, 1])
    view.close()
    buffers.close()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20_000)), max_size=60))
def test_no_two_blocks_overlap_and_all_comes_back(steps: list[tuple[bool, int]]) -> None:
    buffers = AudioBuffers(MEGABYTE)
    taken: dict[int, int] = {}
    for frees, number in steps:
        if frees and taken:
            offset = sorted(taken)[number % len(taken)]
            del taken[offset]
            buffers.free(offset)
            buffers.free(offset)  # twice does no harm
        elif (offset := buffers.put(result(number))) is not None:
            taken[offset] = number
        spans = sorted((offset, offset + 6 * samples) for offset, samples in taken.items())
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    for offset in taken:
        buffers.free(offset)
    assert buffers.used == 0
    assert buffers.put(result(MEGABYTE // 6)) == 0
    buffers.close()


def test_when_it_is_full_it_says_so() -> None:
    buffers = AudioBuffers(MEGABYTE)
    first = buffers.put(result(100_000))
    assert first is not None
    assert buffers.put(result(100_000)) is None
    buffers.free(first)
    assert buffers.put(result(100_000)) == 0
    buffers.close()


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="memory is given back on Linux alone")
def test_memory_of_a_burst_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio_buffers, "KEPT", MEGABYTE)
    buffers = AudioBuffers(16 * MEGABYTE)
    blocks = [buffers.put(result(400_000)) for _ in range(6)]
    assert os.fstat(buffers.fd).st_blocks * 512 > 8 * MEGABYTE
    for block in blocks:
        assert block is not None
        buffers.free(block)
    assert os.fstat(buffers.fd).st_blocks * 512 <= MEGABYTE
    buffers.close()
