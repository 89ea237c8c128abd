"""CUDA graphs: a step of fixed shape, captured once and replayed without the cost of launching its kernels."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable

import torch

log = logging.getLogger(__name__)


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
    """Runs steps. A step seen for the second time is captured; the least recently used graphs are dropped.

    All graphs share one memory pool, so a step must leave its results in memory of the caller's, and only one may run
    at a time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._graphs: OrderedDict[Hashable, torch.cuda.CUDAGraph] = OrderedDict()
        self._seen: set[Hashable] = set()
        self._pool = torch.cuda.graph_pool_handle()
        self._can_capture = True

    def __contains__(self, key: Hashable) -> bool:
        return key in self._graphs

    def __len__(self) -> int:
        return len(self._graphs)

    def run(self, key: Hashable, step: Callable[[], None]) -> None:
        """Run `step` on the current stream. Equal keys must mean equal steps."""
        if key not in self._graphs and key in self._seen and self._can_capture:
            self._capture(key, step)
        graph = self._graphs.get(key)
        if graph is None:
            self._seen.add(key)
            step()
        else:
            self._graphs.move_to_end(key)
            graph.replay()

    def clear(self) -> None:
        """Drop all graphs and begin anew."""
        self._graphs.clear()
        self._seen.clear()
        self._can_capture = True
        self._pool = torch.cuda.graph_pool_handle()

    def _capture(self, key: Hashable, step: Callable[[], None]) -> None:
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            # Other threads go on using the device meanwhile.
            with torch.cuda.graph(graph, self._pool, stream, capture_error_mode="thread_local"):
                step()
        except torch.cuda.OutOfMemoryError:
            self._seen.discard(key)
            raise
        except RuntimeError as error:
            self._can_capture = False
            log.warning(
                "cannot record CUDA graphs, every step is launched kernel by kernel key=%s error=%s", key, error
            )
            return
        self._graphs[key] = graph
        log.debug("graph recorded key=%s of=%d", key, len(self._graphs))
        if len(self._graphs) > self._limit:
            self._graphs.popitem(last=False)
