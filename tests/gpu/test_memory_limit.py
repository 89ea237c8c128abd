"""An engine that may use only a part of the device's memory. No other engine may hold any meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
pytest.importorskip("triton")

from kokoro_server.engine.cuda.engine import CudaEngine  # noqa: E402
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME  # noqa: E402
from tests.gpu.test_cuda_engine import DEVICE, row  # noqa: E402


@pytest.mark.parametrize("gigabytes", [12, 80])
def test_audio_that_is_longer_than_predicted_takes_no_more_memory(gigabytes: int, model: Any) -> None:
    share = min(0.9, gigabytes * 10**9 / torch.cuda.get_device_properties(DEVICE).total_memory)
    engine = CudaEngine(model, DEVICE, memory_fraction=share)
    engine.warmup()
    alone = [engine.synthesize([row(seed, 20)])[0] for seed in range(4)]
    padded = 64 * max(len(result.audio) for result in alone) / SAMPLES_PER_FRAME
    reserved = engine.resources()["device_reserved_bytes"]
    for too_long in (1.0, 1.05, 1.2, 1.6, 2.5):
        speed = padded / (too_long * engine.limits.max_padded_frames)
        results = engine.synthesize([row(seed, 20, min(4.0, max(0.25, speed))) for seed in range(64)])
        assert all(np.isfinite(result.audio).all() for result in results)
    for before, after in zip(alone, engine.synthesize([row(seed, 20) for seed in range(64)]), strict=False):
        assert np.array_equal(before.durations, after.durations)
    assert engine.resources()["device_reserved_bytes"] < 1.05 * reserved
