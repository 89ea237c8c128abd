"""How many processes turn texts into phonemes."""

from __future__ import annotations

import sys

from kokoro_server.runtime.machine import available_cores

CORES_PER_WORKER = 4  # one for the worker, three for synthesis
CORES_PER_WORKER_BESIDE_GPU = 2  # the other for HTTP: a GPU speaks as much as three workers or four can read
MAX_WORKERS = 8


def default_worker_count(*, beside_gpu: bool = False) -> int:
    """How many workers suit this machine. Only one where it is not Linux, as a fork is not safe there."""
    if sys.platform != "linux":
        return 1
    cores_per_worker = CORES_PER_WORKER_BESIDE_GPU if beside_gpu else CORES_PER_WORKER
    return max(1, min(MAX_WORKERS, int(available_cores() / cores_per_worker)))
