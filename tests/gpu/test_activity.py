"""The work of the device as the engine reports it, against a clock."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
pytest.importorskip("triton")

from kokoro_server.engine.cuda.engine import CudaEngine  # noqa: E402
from kokoro_server.engine.protocol import ReportsActivity  # noqa: E402
from tests.gpu.test_cuda_engine import DEVICE, row  # noqa: E402

PAUSE = 0.05  # seconds


def test_pauses_between_calls_are_not_counted_as_work(model: Any) -> None:
    engine = CudaEngine(model, DEVICE)
    assert isinstance(engine, ReportsActivity)
    rows = [row(seed, 60) for seed in range(16)]
    for _ in range(3):  # the graphs are captured
        engine.synthesize(rows)
    engine.take_gaps()
    busy, calls = engine.busy_seconds(), 0.0
    for _ in range(10):
        time.sleep(PAUSE)
        started = time.perf_counter()
        engine.synthesize(rows)
        calls += time.perf_counter() - started
    worked = engine.busy_seconds() - busy
    assert 0.3 * calls < worked < calls
    gaps = engine.take_gaps()
    assert len(gaps) == 10
    assert all(gap.seconds >= PAUSE for gap in gaps)
    assert all(started.since < ended.since for started, ended in pairwise(gaps))
