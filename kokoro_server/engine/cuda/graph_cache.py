"""CUDA graphs: a step of fixed shape, captured once and replayed without the cost of launching its kernels."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import torch

from kokoro_server.engine.sticky import sticky_error
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.runtime.backoff import Backoff

log = logging.getLogger(__name__)

# After a capture has failed, the step runs without a graph until the next attempt, which takes several times as long as
# the step.
BACKOFF = Backoff(10.0, longest=600.0, growth=4)


class Buckets:
    """The sizes that graphs are captured for. A size between two buckets is padded to the larger one."""

    def __init__(self, *ranges: tuple[int, int]) -> None:
        """Each range is (last size, distance between sizes), from small to large."""
        self.sizes: list[int] = []
        for last, step in ranges:
            self.sizes += range((self.sizes[-1] if self.sizes else 0) + step, last + 1, step)

    def round_up(self, size: int) -> int:
        """The bucket for a size; beyond the largest bucket, the size itself."""
        return next((bucket for bucket in self.sizes if bucket >= size), size)

    def candidates(self, size: int, most: float) -> list[int]:
        """The buckets that a size may use: the next two, and more up to `most`; beyond the largest, the size."""
        buckets = [bucket for bucket in self.sizes if bucket >= size] or [size]
        return buckets[:2] + [bucket for bucket in buckets[2:] if bucket <= most]

    def __contains__(self, size: int) -> bool:
        return size in self.sizes


class GraphPool:
    """Device memory that all steps share, captured or not. Only one step may run at a time.

    The allocator has a separate pool for graphs. If other steps took their memory elsewhere, both pools would grow to
    the size of the largest step. Here a step has its memory already when it is captured.
    """

    def __init__(self) -> None:
        self.id = torch.cuda.graph_pool_handle()
        self._held_on: int | None = None  # the device, after the first use

    @contextlib.contextmanager
    def allocating(self) -> Iterator[None]:
        """Allocations of this thread on the current device come from the pool."""
        device = torch.cuda.current_device()
        self._begin(device)
        try:
            yield
        finally:
            torch._C._cuda_endAllocateToPool(device, self.id)
            if self._held_on is not None:
                torch._C._cuda_releasePool(device, self.id)
            self._held_on = device  # until `close`: torch does not reuse a pool that was unused for a moment

    def close(self) -> None:
        device, self._held_on = self._held_on, None
        if device is not None:
            torch._C._cuda_releasePool(device, self.id)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the process torch may be gone
            self.close()

    def _begin(self, device: int) -> None:
        torch._C._cuda_beginAllocateCurrentThreadToPool(device, self.id)


class CudaGraphCache:
    """Runs steps, and captures a step when a thread runs it for the second time. Drops the least recently used graphs.

    In the first run, libraries set up the thread, for instance with a cuBLAS handle, which a capture does not allow.

    All steps share one memory pool, so a step must leave its results in the caller's memory, and only one may run at a
    time. `condition` is set while a step runs without a graph because its capture has failed.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.condition = Condition(Reason.GPU_GRAPHS)
        self.captures = 0
        self.evictions = 0
        self.pool_bytes = 0  # device memory that the pool has taken
        self.limit = limit
        self._clock = clock
        self._graphs: OrderedDict[Hashable, torch.cuda.CUDAGraph] = OrderedDict()
        self._seen: set[tuple[int, Hashable]] = set()  # by thread
        self._pool = GraphPool()
        self._failures: dict[Hashable, tuple[int, float]] = {}  # their number, and when to try again

    def __contains__(self, key: Hashable) -> bool:
        return key in self._graphs

    def __len__(self) -> int:
        return len(self._graphs)

    def run(self, key: Hashable, step: Callable[[], None]) -> None:
        """Run `step` on the current stream. Equal keys must mean equal steps."""
        graph = self._graphs.get(key)
        if graph is None:
            graph = self._first_runs(key, step)
        if graph is not None:
            self._graphs.move_to_end(key)
            graph.replay()

    def run_eagerly(self, step: Callable[[], None]) -> None:
        """Run a step that is never captured."""
        with self._counting(), self._pool.allocating():
            step()

    def is_due(self, key: Hashable) -> bool:
        """Whether the capture of this step has failed and may be tried again."""
        return key in self._failures and self._clock() >= self._failures[key][1]

    def clear(self) -> None:
        """Drop all graphs and forget all failures."""
        self._graphs.clear()
        self._seen.clear()
        self._failures.clear()
        self.condition.clear()
        self._pool.close()
        self._pool, self.pool_bytes = GraphPool(), 0

    def _first_runs(self, key: Hashable, step: Callable[[], None]) -> torch.cuda.CUDAGraph | None:
        """Run a step that has no graph, or capture it. Returns the graph, which has not run yet."""
        seen = threading.get_ident(), key
        if seen in self._seen and (key not in self._failures or self.is_due(key)):
            with self._counting():
                self._capture(key, step)
            if key in self._graphs:
                return self._graphs[key]
        self._seen.add(seen)
        self.run_eagerly(step)
        return None

    @contextlib.contextmanager
    def _counting(self) -> Iterator[None]:
        before = torch.cuda.memory_reserved()
        try:
            yield
        finally:
            self.pool_bytes += torch.cuda.memory_reserved() - before

    def _capture(self, key: Hashable, step: Callable[[], None]) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            capture(graph, self._pool.id, step)
        except torch.cuda.OutOfMemoryError:
            self._seen.discard((threading.get_ident(), key))
            raise
        except RuntimeError as error:
            if sticky := sticky_error(error):
                raise sticky from None
            self._give_up_pool()
            self._note_failure(key, error)
            return
        self._graphs[key] = graph
        self.captures += 1
        if self._failures.pop(key, None) and not self._failures:
            self.condition.clear()
        log.debug("graph recorded key=%s of=%d", key, len(self._graphs))
        if len(self._graphs) > self.limit:
            self._graphs.popitem(last=False)
            self.evictions += 1

    def _give_up_pool(self) -> None:
        """Stop allocating in the pool, which torch omits when the end of a capture fails.

        Otherwise torch would delay freeing the memory of other streams. It also allows no other capture in that pool.
        """
        with contextlib.suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), self._pool.id)
        with contextlib.suppress(RuntimeError):
            self._pool.close()
        self._pool = GraphPool()

    def _note_failure(self, key: Hashable, error: RuntimeError) -> None:
        failures = self._failures.get(key, (0, 0.0))[0] + 1
        wait = BACKOFF.wait(failures)
        self._failures[key] = failures, self._clock() + wait
        log.debug("graph not recorded key=%s failures=%d retry_s=%.0f error=%s", key, failures, wait, error)
        self.condition.set(
            "CUDA graphs could not be recorded, so steps are launched kernel by kernel, several times slower. "
            f"The server tries again; please report it if that does not help: {str(error).partition(chr(10))[0]}"
        )


def capture(graph: Any, pool: Any, step: Callable[[], None]) -> None:
    """Capture `step` on the current stream while other threads go on using the device.

    `torch.cuda.graph` would first wait for the whole device and free all cached memory, which takes longer than the
    capture.
    """
    graph.capture_begin(pool, capture_error_mode="thread_local")
    try:
        step()
    finally:
        graph.capture_end()
