"""CUDA graphs: a step of fixed shape, recorded once and played back without the cost of launching its kernels."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable

import torch

log = logging.getLogger(__name__)


class Ladder:
    """Sizes that graphs exist for. A size between two rungs goes up to the next."""

    def __init__(self, *stretches: tuple[int, int]) -> None:
        """Each stretch is (last rung, distance between rungs), from small to large."""
        self.rungs: list[int] = []
        for last, step in stretches:
            self.rungs += range((self.rungs[-1] if self.rungs else 0) + step, last + 1, step)

    def up(self, size: int) -> int:
        """The rung for a size; beyond the ladder, the size itself."""
        return next((rung for rung in self.rungs if rung >= size), size)

    def near(self, size: int, most: float) -> list[int]:
        """The rungs that a size may go up to: the next two, and others up to `most`; beyond the ladder, the size."""
        rungs = [rung for rung in self.rungs if rung >= size] or [size]
        return rungs[:2] + [rung for rung in rungs[2:] if rung <= most]

    def __contains__(self, size: int) -> bool:
        return size in self.rungs


class Graphs:
    """Runs steps. A step seen for the second time is recorded; the least recently used recordings are dropped.

    All recordings share one memory pool, so a step must leave its results in memory of the caller's, and only one may
    run at a time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._recorded: OrderedDict[Hashable, torch.cuda.CUDAGraph] = OrderedDict()
        self._seen: set[Hashable] = set()
        self._pool = torch.cuda.graph_pool_handle()
        self._works = True

    def __contains__(self, key: Hashable) -> bool:
        return key in self._recorded

    def __len__(self) -> int:
        return len(self._recorded)

    def run(self, key: Hashable, step: Callable[[], None]) -> None:
        """Do `step`, which always does the same for the same key, on the current stream."""
        if key not in self._recorded and key in self._seen and self._works:
            self._record(key, step)
        recorded = self._recorded.get(key)
        if recorded is None:
            self._seen.add(key)
            step()
        else:
            self._recorded.move_to_end(key)
            recorded.replay()

    def clear(self) -> None:
        """Drop all recordings and begin anew."""
        self._recorded.clear()
        self._seen.clear()
        self._works = True
        self._pool = torch.cuda.graph_pool_handle()

    def _record(self, key: Hashable, step: Callable[[], None]) -> None:
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            # Other threads go on using the device meanwhile.
            with torch.cuda.graph(graph, self._pool, stream, capture_error_mode="thread_local"):
                step()
        except torch.cuda.OutOfMemoryError:
            self._seen.discard(key)
            raise
        except RuntimeError as error:
            self._works = False
            log.warning(
                "cannot record CUDA graphs, every step is launched kernel by kernel key=%s error=%s", key, error
            )
            return
        self._recorded[key] = graph
        log.debug("graph recorded key=%s of=%d", key, len(self._recorded))
        if len(self._recorded) > self._limit:
            self._recorded.popitem(last=False)
