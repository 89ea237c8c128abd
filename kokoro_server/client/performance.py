"""How long the last requests took."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from kokoro_server.client.values import Latency

WINDOW = 1000  # requests that are remembered


@dataclass(frozen=True, slots=True)
class Summary:
    """Milliseconds; all 0 where `count` is 0."""

    count: int = 0
    avg: float = 0.0
    min: float = 0.0
    max: float = 0.0
    p95: float = 0.0
    p99: float = 0.0


@dataclass(frozen=True, slots=True)
class PerformanceStats:
    """Statistics of the last thousand completed requests.

    `synthesis` is the time that the server reports, including the wait for a batch; `network` is the rest of the total:
    connection, transfer, text to phonemes. Streams have neither: their headers are sent before the times are known.
    """

    count: int
    first_byte: Summary
    total: Summary
    network: Summary
    synthesis: Summary


class Performance:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._samples: deque[tuple[Latency, float | None]] = deque(maxlen=WINDOW)
        self._lock = threading.Lock()

    def add(self, latency: Latency, synthesis: float | None) -> None:
        """`synthesis`: milliseconds that the server reports."""
        with self._lock:
            self._samples.append((latency, synthesis))

    def reset(self) -> None:
        with self._lock:
            self._samples.clear()

    def stats(self) -> PerformanceStats:
        with self._lock:
            samples = list(self._samples)
        reported = [(1000 * latency.total, synthesis) for latency, synthesis in samples if synthesis is not None]
        return PerformanceStats(
            count=len(samples),
            first_byte=summary([1000 * latency.first_byte for latency, _ in samples]),
            total=summary([1000 * latency.total for latency, _ in samples]),
            network=summary([max(0.0, total - synthesis) for total, synthesis in reported]),
            synthesis=summary([synthesis for _, synthesis in reported]),
        )


def summary(values: Sequence[float]) -> Summary:
    if not values:
        return Summary()
    ordered = sorted(values)

    def percentile(share: float) -> float:
        return ordered[math.ceil(share * len(ordered)) - 1]

    return Summary(
        count=len(ordered),
        avg=sum(ordered) / len(ordered),
        min=ordered[0],
        max=ordered[-1],
        p95=percentile(0.95),
        p99=percentile(0.99),
    )
