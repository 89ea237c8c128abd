"""Where a batch lies while a GPU works on it; here the device is the CPU."""

from __future__ import annotations

import numpy as np
import torch

from kokoro_server.engine.cuda.static_io import DUMMY_SPEED, POSITIONS, StaticIO
from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM, Row

ROWS = 6


def row(seed: int, length: int) -> Row:
    style = np.random.default_rng(seed).normal(size=STYLE_DIM).astype(np.float32)
    return Row(tuple(range(1, length + 1)), style, speed=1.0 + seed / 10, seed=seed, pitch=-float(seed))


def test_rows_and_dummies_arrive() -> None:
    io = StaticIO(ROWS, torch.device("cpu"))
    io.stage([row(1, 20), row(2, MAX_TOKENS)] * 3, ROWS)
    io.stage([row(7, 3), row(8, MAX_TOKENS)], 3)
    assert io.tokens.shape == (ROWS, POSITIONS)
    assert io.tokens[0, :6].tolist() == [0, 1, 2, 3, 0, 0]
    assert io.tokens[1].tolist() == [0, *range(1, MAX_TOKENS + 1), 0]
    assert not io.tokens[2].any()
    assert io.counts[:3].tolist() == [5, POSITIONS, 1]
    assert np.allclose(io.speed[:3], [1.7, 1.8, DUMMY_SPEED])
    assert io.semitones[:2].tolist() == [-7, -8]
    assert io.seeds[:2].tolist() == [7, 8]
    assert np.array_equal(io.style[1], row(8, 1).style)


def test_any_seed_arrives() -> None:
    io = StaticIO(ROWS, torch.device("cpu"))
    io.stage([row(2**64 - 1, 1), row(2**64 + 3, 1)], 2)
    assert io.seeds[:2].tolist() == [-1, 3]


def test_what_was_found_comes_back() -> None:
    io = StaticIO(ROWS, torch.device("cpu"))
    io.frames[:2] = torch.tensor([9, 8])
    io.durations[1] = 4
    assert not io.host_frames.any()
    io.fetch()
    assert io.host_frames.tolist() == [9, 8, 0, 0, 0, 0]
    assert io.host_durations[1].tolist() == [4] * POSITIONS
    assert not io.host_durations[0].any()
