"""CUDA graphs: a step of fixed shape, captured once and replayed without the cost of launching its kernels."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

import torch

from kokoro_server.degraded import Condition, Reason
from kokoro_server.engine.sticky import sticky_error

log = logging.getLogger(__name__)

# After a capture has failed, the step is run without a graph for so many seconds before another attempt, which takes
# several times as long as the step: RETRY_S the first time, four times as long each time, MAX_RETRY_S at most.
RETRY_S = 10.0
RETRY_GROWTH = 4
MAX_RETRY_S = 600.0


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


class CudaGraphCache:
    """Runs steps. What a thread runs for the second time is captured; the least recently used graphs are dropped.

    The first time, the thread gets what its libraries need, such as a handle of cuBLAS, which a capture does not allow.

    All graphs share one memory pool, so a step must leave its results in memory of the caller's, and only one may run
    at a time. `condition` is set while a step runs without a graph because its capture has failed.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.condition = Condition(Reason.GPU_GRAPHS)
        self._limit = limit
        self._clock = clock
        self._graphs: OrderedDict[Hashable, torch.cuda.CUDAGraph] = OrderedDict()
        self._seen: set[tuple[int, Hashable]] = set()  # by thread
        self._pool = torch.cuda.graph_pool_handle()
        self._failures: dict[Hashable, tuple[int, float]] = {}  # how many there were, and when to try again

    def __contains__(self, key: Hashable) -> bool:
        return key in self._graphs

    def __len__(self) -> int:
        return len(self._graphs)

    def run(self, key: Hashable, step: Callable[[], None]) -> None:
        """Run `step` on the current stream. Equal keys must mean equal steps."""
        seen = threading.get_ident(), key
        if key not in self._graphs and seen in self._seen and (key not in self._failures or self.is_due(key)):
            self._capture(key, step)
        graph = self._graphs.get(key)
        if graph is None:
            self._seen.add(seen)
            step()
        else:
            self._graphs.move_to_end(key)
            graph.replay()

    def is_due(self, key: Hashable) -> bool:
        """Whether the capture of this step has failed and may be tried again."""
        return key in self._failures and self._clock() >= self._failures[key][1]

    def clear(self) -> None:
        """Drop all graphs and begin anew."""
        self._graphs.clear()
        self._seen.clear()
        self._failures.clear()
        self.condition.clear()
        self._pool = torch.cuda.graph_pool_handle()

    def _capture(self, key: Hashable, step: Callable[[], None]) -> None:
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            # Other threads go on using the device meanwhile.
            with torch.cuda.graph(graph, self._pool, stream, capture_error_mode="thread_local"):
                step()
        except torch.cuda.OutOfMemoryError:
            self._seen.discard((threading.get_ident(), key))
            raise
        except RuntimeError as error:
            if sticky := sticky_error(error):
                raise sticky from None
            self._end_capture(stream.device_index)
            self._note_failure(key, error)
            return
        self._graphs[key] = graph
        if self._failures.pop(key, None) and not self._failures:
            self.condition.clear()
        log.debug("graph recorded key=%s of=%d", key, len(self._graphs))
        if len(self._graphs) > self._limit:
            self._graphs.popitem(last=False)

    def _end_capture(self, device: int) -> None:
        """Do what torch leaves out when the end of a capture fails: stop allocating in the pool.

        Until then it would put off freeing what other streams have used. It also takes no other capture into that pool.
        """
        with contextlib.suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(device, self._pool)
        self._pool = torch.cuda.graph_pool_handle()

    def _note_failure(self, key: Hashable, error: RuntimeError) -> None:
        failures = self._failures.get(key, (0, 0.0))[0] + 1
        wait = min(MAX_RETRY_S, RETRY_S * RETRY_GROWTH ** (failures - 1))
        self._failures[key] = failures, self._clock() + wait
        log.debug("graph not recorded key=%s failures=%d retry_s=%.0f error=%s", key, failures, wait, error)
        self.condition.set(
            "CUDA graphs could not be recorded, so steps are launched kernel by kernel, several times slower; "
            f"it is tried again. Please report it if that does not help: {str(error).partition(chr(10))[0]}"
        )
