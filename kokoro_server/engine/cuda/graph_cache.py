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
    """The sizes that graphs are captured for. A size between two of them is padded up to the next."""

    def __init__(self, *ranges: tuple[int, int]) -> None:
        """Each range is (last size, distance between sizes), from small to large."""
        self.sizes: list[int] = []
        for last, step in ranges:
            self.sizes += range((self.sizes[-1] if self.sizes else 0) + step, last + 1, step)

    def round_up(self, size: int) -> int:
        """The bucket for a size; beyond the largest bucket, the size itself."""
        return next((bucket for bucket in self.sizes if bucket >= size), size)

    def candidates(self, size: int, most: float) -> list[int]:
        """The buckets that a size may use: the next two, and others up to `most`; beyond the largest, the size."""
        buckets = [bucket for bucket in self.sizes if bucket >= size] or [size]
        return buckets[:2] + [bucket for bucket in buckets[2:] if bucket <= most]

    def __contains__(self, size: int) -> bool:
        return size in self.sizes


class GraphPool:
    """Device memory that steps share, whether they are captured or not. Only one of them may run at a time.

    The allocator keeps a pool of its own for graphs. If steps that are not captured took their memory elsewhere, both
    would grow to the size of the largest step. Here a step that is about to be captured has its memory already.
    """

    def __init__(self) -> None:
        self.id = torch.cuda.graph_pool_handle()
        self._held_on: int | None = None  # the device, once it has been used

    @contextlib.contextmanager
    def allocating(self) -> Iterator[None]:
        """What this thread allocates on the current device comes from the pool."""
        device = torch.cuda.current_device()
        self._begin(device)
        try:
            yield
        finally:
            torch._C._cuda_endAllocateToPool(device, self.id)
            if self._held_on is not None:
                torch._C._cuda_releasePool(device, self.id)
            self._held_on = device  # until `close`: nothing can use a pool again that was unused for a moment

    def close(self) -> None:
        device, self._held_on = self._held_on, None
        if device is not None:
            torch._C._cuda_releasePool(device, self.id)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # torch itself may have gone before, at the end of the process
            self.close()

    def _begin(self, device: int) -> None:
        torch._C._cuda_beginAllocateCurrentThreadToPool(device, self.id)


class CudaGraphCache:
    """Runs steps. What a thread runs for the second time is captured; the least recently used graphs are dropped.

    The first time, the thread gets what its libraries need, such as a handle of cuBLAS, which a capture does not allow.

    All steps share one memory pool, so a step must leave its results in memory of the caller's, and only one may run
    at a time. `condition` is set while a step runs without a graph because its capture has failed.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.condition = Condition(Reason.GPU_GRAPHS)
        self.captures = 0
        self.evictions = 0
        self.pool_bytes = 0  # what the pool has taken of the device
        self.limit = limit
        self._clock = clock
        self._graphs: OrderedDict[Hashable, torch.cuda.CUDAGraph] = OrderedDict()
        self._seen: set[tuple[int, Hashable]] = set()  # by thread
        self._pool = GraphPool()
        self._failures: dict[Hashable, tuple[int, float]] = {}  # how many there were, and when to try again

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
        """Drop all graphs and begin anew."""
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
        """Do what torch leaves out when the end of a capture fails: stop allocating in the pool.

        Until then it would put off freeing what other streams have used. It also takes no other capture into that pool.
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
            "CUDA graphs could not be recorded, so steps are launched kernel by kernel, several times slower; "
            f"it is tried again. Please report it if that does not help: {str(error).partition(chr(10))[0]}"
        )


def capture(graph: Any, pool: Any, step: Callable[[], None]) -> None:
    """Capture `step` on the current stream. Other threads go on using the device meanwhile.

    `torch.cuda.graph` would first wait for the whole device and give all cached memory back, which takes longer than
    the capture.
    """
    graph.capture_begin(pool, capture_error_mode="thread_local")
    try:
        step()
    finally:
        graph.capture_end()
