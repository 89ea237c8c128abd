"""States in which the server works, but worse than it should. `/health`, `/metrics` and the log show them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

log = logging.getLogger(__name__)


class Reason(StrEnum):
    """How a server can be degraded. `/health` and the metric show the names, which are part of the API."""

    WEIGHTS = "weights"  # int8 weights, because no better ones could be fetched
    GPU_UNUSED = "gpu_unused"  # there is a GPU, but the model runs on the CPU
    GPU_KERNELS = "gpu_kernels"  # torch runs the model without the fast kernels
    GPU_GRAPHS = "gpu_graphs"  # steps of the model run without a CUDA graph
    GPU_MEMORY = "gpu_memory"  # other processes have taken memory, so batches are smaller
    CPU_KERNELS = "cpu_kernels"  # onnxruntime runs what our own kernels would run faster
    MODEL = "model"  # it was unloaded while idle, and cannot be loaded again
    MODELS = "models"  # one of MODELS_PATH cannot be used, or not at its best
    ENGINE = "engine"  # the engine process is being restarted
    G2P = "g2p"  # text cannot be turned into phonemes
    LEXICON = "lexicon"  # the lexicon has been changed, but the new version cannot be used
    VOICES = "voices"  # VOICES_PATH has been changed, but the new version cannot be used; or not all of it can
    FORMATS = "formats"  # an audio format cannot be written
    JOBS = "jobs"  # jobs wait, as their folder cannot be read or written
    JOBS_LOST = "jobs_lost"  # jobs.sqlite was lost, replaced or damaged


@dataclass(frozen=True, slots=True)
class Degradation:
    reason: Reason
    message: str  # what is worse, why, and what to do
    since: float  # seconds since 1970


class Condition:
    """One way in which the server can be degraded, kept by the module that it concerns. Safe in several threads.

    A line is logged when it begins, when its message changes and when it ends. With a `message`, it has begun.
    """

    def __init__(self, reason: Reason, message: str | None = None) -> None:
        self.reason = reason
        self._lock = threading.Lock()
        self._current: Degradation | None = None
        if message:
            self.set(message)

    @property
    def current(self) -> Degradation | None:
        return self._current

    def set(self, message: str) -> None:
        with self._lock:
            before = self._current
            self._current = Degradation(self.reason, message, before.since if before else time.time())
        if before is None or before.message != message:
            log.warning("degraded reason=%s %s", self.reason, message)

    def clear(self) -> None:
        with self._lock:
            before, self._current = self._current, None
        if before is not None:
            log.info("no longer degraded reason=%s seconds=%.0f", self.reason, time.time() - before.since)


def current(conditions: Iterable[Condition]) -> list[Degradation]:
    """The present degradations, oldest first."""
    found = [now for condition in conditions if (now := condition.current)]
    return sorted(found, key=lambda degradation: degradation.since)
