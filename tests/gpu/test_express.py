"""The engine for what cannot wait, beside the one that is at work on full batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
pytest.importorskip("triton")

from kokoro_server.engine.cuda import express as express_engine  # noqa: E402
from kokoro_server.engine.cuda.engine import CudaEngine  # noqa: E402
from kokoro_server.engine.cuda.express import ExpressEngine  # noqa: E402
from tests.gpu.test_cuda_engine import DEVICE, row, snr  # noqa: E402

BULK = [row(seed, 10 + seed % 30) for seed in range(64)]
SHORT = [[row(100 * size + seed, 5 + 7 * seed) for seed in range(size)] for size in (1, 2, 3, 5, 8)]


@pytest.fixture(scope="module")
def engine(model: Any) -> CudaEngine:
    engine = CudaEngine(model, DEVICE)
    engine.warmup()
    while engine.background_step():
        pass
    return engine


@pytest.fixture(scope="module")
def express(engine: CudaEngine) -> ExpressEngine:
    assert engine.express
    while engine.express.background_step():
        pass
    return engine.express


@contextmanager
def at_bulk(engine: CudaEngine) -> Iterator[list[Any]]:
    """Full batches, two in flight; the results of the last."""
    stop, last = threading.Event(), [engine.synthesize(BULK)]

    def work() -> None:
        while not stop.is_set():
            last[0] = engine.synthesize(BULK)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield last
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_both_say_the_same_alone_and_beside_each_other(engine: CudaEngine, express: ExpressEngine) -> None:
    expected = [engine.synthesize(batch) for batch in SHORT]
    bulk = engine.synthesize(BULK)
    alone = [express.synthesize(batch) for batch in SHORT]
    with at_bulk(engine) as last:
        beside = [[express.synthesize(batch) for batch in SHORT] for _ in range(10)]
    for round_ in [alone, *beside]:
        for want, got in zip(expected, round_, strict=True):
            for a, b in zip(want, got, strict=True):
                assert np.array_equal(a.durations, b.durations)
                assert snr(a.audio, b.audio) > 20  # not in the same shapes
    for a, b in zip(bulk, last[0], strict=True):
        assert np.array_equal(a.durations, b.durations)
        assert snr(a.audio, b.audio) > 60


def test_full_batches_wait_while_it_works(engine: CudaEngine, express: ExpressEngine) -> None:
    looks = engine._gate._closed[1:]
    engine.synthesize(BULK)
    seen = []
    with at_bulk(engine):
        for _ in range(20):
            express._budget._left = 1.0
            express.synthesize(SHORT[0])
            seen.append(int(looks.item()))
    assert max(seen) > 0


def test_a_gate_that_is_never_opened_stops_nobody_for_good(engine: CudaEngine) -> None:
    expected = engine.synthesize(BULK)
    engine._gate.close()
    try:
        for a, b in zip(expected, engine.synthesize(BULK), strict=True):
            assert snr(a.audio, b.audio) > 60
    finally:
        engine._gate.open()


def test_two_engines_on_a_gpu_have_none(model: Any) -> None:
    assert CudaEngine(model, DEVICE, engines_on_device=2).express is None


def test_it_can_be_done_without(model: Any) -> None:
    engine = CudaEngine(model, DEVICE, with_express=False)
    assert engine.express is None
    assert len(engine.synthesize(BULK)) == len(BULK)


def test_a_card_with_little_memory_has_none(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(express_engine, "PADDED_FRAMES", 20_000)
    assert CudaEngine(model, DEVICE).express is None
