"""When steps are captured, with a double of CUDA's graphs."""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kokoro_server.batching.faults import Fault, classify
from kokoro_server.engine.cuda import graph_cache
from kokoro_server.engine.cuda.graph_cache import BACKOFF, CudaGraphCache


class Gpu:
    """Captures a step by remembering it. `error` is raised at the end of a capture, as CUDA does."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.captures = 0
        self.now = 0.0
        self.pools = count()
        self.holders: dict[int, int] = {}

    def capture(self, _graph: Any, _pool: Any, step: Callable[[], None]) -> None:
        self.captures += 1
        step()
        if self.error:
            raise self.error

    def begin(self, _device: int, pool: int) -> None:
        """As torch does, refuse a pool that nothing has held for a moment."""
        assert self.holders.get(pool, 1) > 0
        self.holders[pool] = self.holders.get(pool, 0) + 1

    def release(self, _device: int, pool: int) -> None:
        self.holders[pool] -= 1


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    gc.collect()  # otherwise graphs of earlier tests would be freed during this one
    gpu = Gpu()
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: next(gpu.pools))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=lambda: None))
    monkeypatch.setattr(graph_cache, "capture", gpu.capture)
    monkeypatch.setattr(torch._C, "_cuda_beginAllocateCurrentThreadToPool", gpu.begin, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", lambda *_: None, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_releasePool", gpu.release, raising=False)
    return gpu


@pytest.fixture
def cache(gpu: Gpu) -> CudaGraphCache:
    return CudaGraphCache(8, clock=lambda: gpu.now)


def run(cache: CudaGraphCache, key: str, times: int = 1) -> None:
    for _ in range(times):
        cache.run(key, lambda: None)


def test_a_step_is_captured_when_it_is_seen_again(gpu: Gpu, cache: CudaGraphCache) -> None:
    run(cache, "a", 5)
    assert gpu.captures == 1
    assert "a" in cache
    assert cache.condition.current is None


def test_a_thread_captures_only_what_it_has_run_before(gpu: Gpu, cache: CudaGraphCache) -> None:
    """Its first use of a library creates what the library needs, which a capture does not allow."""
    run(cache, "a")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(run, cache, "a").result()
        assert gpu.captures == 0
        pool.submit(run, cache, "a").result()
    assert "a" in cache


def test_a_failed_capture_is_tried_again_after_a_while(gpu: Gpu, cache: CudaGraphCache) -> None:
    gpu.error = RuntimeError("operation not permitted when stream is capturing\nmore")
    run(cache, "a", 10)
    assert gpu.captures == 1
    assert cache.condition.current
    assert "operation not permitted when stream is capturing" in cache.condition.current.message
    assert not cache.is_due("a")

    gpu.error, gpu.now = None, BACKOFF.first
    assert cache.is_due("a")
    run(cache, "a", 3)
    assert gpu.captures == 2
    assert "a" in cache
    assert cache.condition.current is None


def test_one_step_that_fails_does_not_keep_others_from_their_graphs(gpu: Gpu, cache: CudaGraphCache) -> None:
    gpu.error = RuntimeError("no")
    run(cache, "a", 2)
    gpu.error = None
    run(cache, "b", 2)
    assert "b" in cache
    assert cache.condition.current  # "a" is still slow
    gpu.now = BACKOFF.first
    run(cache, "a")
    assert cache.condition.current is None


def test_attempts_become_rare(gpu: Gpu, cache: CudaGraphCache) -> None:
    gpu.error = RuntimeError("no")
    run(cache, "a", 2)
    attempts = []
    for second in range(4000):
        gpu.now, before = float(second), gpu.captures
        run(cache, "a")
        if gpu.captures > before:
            attempts.append(second)
    waits = [b - a for a, b in pairwise(attempts)]
    assert waits == sorted(waits)
    assert waits[-1] == BACKOFF.longest


def test_the_log_says_it_once(gpu: Gpu, cache: CudaGraphCache, caplog: pytest.LogCaptureFixture) -> None:
    gpu.error = RuntimeError("no")
    for key in "abcdef":
        run(cache, key, 3)
    assert len([record for record in caplog.records if "CUDA graphs could not be recorded" in record.message]) == 1


def test_freeing_memory_begins_anew(gpu: Gpu, cache: CudaGraphCache) -> None:
    gpu.error = RuntimeError("no")
    run(cache, "a", 2)
    gpu.error = None
    cache.clear()
    assert cache.condition.current is None
    run(cache, "a", 2)
    assert "a" in cache


def test_a_poisoned_device_is_no_reason_to_go_on_without_graphs(gpu: Gpu, cache: CudaGraphCache) -> None:
    """The end of a capture raises an error of its own, which hides the one that matters."""
    poison = RuntimeError("CUDA error: an illegal memory access was encountered")
    gpu.error = RuntimeError("operation failed due to a previous error during capture")
    gpu.error.__context__ = poison
    run(cache, "a")
    with pytest.raises(RuntimeError, match="illegal memory access") as raised:
        run(cache, "a")
    assert classify(raised.value) is Fault.DEVICE
    assert cache.condition.current is None


def test_memory_that_runs_out_is_for_the_queue_to_handle(gpu: Gpu, cache: CudaGraphCache) -> None:
    gpu.error = torch.cuda.OutOfMemoryError("full")
    run(cache, "a")
    with pytest.raises(torch.cuda.OutOfMemoryError):
        run(cache, "a")
    assert cache.condition.current is None


def test_the_pool_is_held_until_it_is_given_up(gpu: Gpu, cache: CudaGraphCache) -> None:
    for key in "aab":
        run(cache, key)
    assert gpu.holders == {0: 1}
    cache.clear()
    assert gpu.holders == {0: 0}
    run(cache, "a")
    assert gpu.holders == {0: 0, 1: 1}
    gpu.error = RuntimeError("no")
    run(cache, "a")  # its capture fails, so it runs in another pool
    assert gpu.holders == {0: 0, 1: 0, 2: 1}


def test_what_was_used_least_recently_goes_first(gpu: Gpu) -> None:
    cache = CudaGraphCache(2, clock=lambda: gpu.now)
    for key in "aabba":
        run(cache, key)
    run(cache, "c", 2)
    assert ["a" in cache, "b" in cache, "c" in cache] == [True, False, True]
    assert (cache.captures, cache.evictions) == (3, 1)
