"""Counts rows, batches and failures of the queue: totals since the start, and over the recent past."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from kokoro_server.batching.devices.activity import percentiles
from kokoro_server.batching.devices.device import RunningBatch
from kokoro_server.batching.devices.runner import BatchReport
from kokoro_server.batching.entry import FireReason, Priority
from kokoro_server.engine.protocol import SAMPLE_RATE, SAMPLES_PER_FRAME
from kokoro_server.observability.metrics import Metrics

RECENT_BATCHES = 256
RECENT_ENTRIES = 2048


@dataclass(frozen=True, slots=True)
class BatchRecord:
    rows: int
    reason: FireReason
    device: str
    frames: int  # real, over all its forward passes
    padded: int
    seconds: float

    @property
    def padding(self) -> float:
        return self.padded / self.frames if self.frames else 1.0

    @property
    def attributes(self) -> dict[str, str | int | float]:
        return {
            "kokoro.rows": self.rows,
            "kokoro.padding": self.padding,
            "kokoro.device": self.device,
            "kokoro.fire_reason": self.reason.value,
            "kokoro.audio_seconds": self.frames * SAMPLES_PER_FRAME / SAMPLE_RATE,
        }


class Stats:
    """Counts for the health page and, where given, for Prometheus."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics
        self._batches = 0
        self._rows: Counter[int] = Counter()
        self._reasons: Counter[FireReason] = Counter()
        self._recent: deque[BatchRecord] = deque(maxlen=RECENT_BATCHES)
        self._waits: deque[float] = deque(maxlen=RECENT_ENTRIES)
        self.bypassed = self.batched = 0
        self.cancelled = self.expired = self.rejected = 0
        self.failed = self.retried = self.isolated = 0

    def record(self, batch: RunningBatch, report: BatchReport, *, device: str, seconds: float) -> BatchRecord:
        entries = batch.entries
        frames = sum(forward.frames for forward in report.forwards)
        padded = sum(forward.padded for forward in report.forwards)
        record = BatchRecord(len(entries), batch.reason, device, frames, padded, seconds)
        bypassed = sum(entry.priority <= Priority.NEXT for entry in entries)
        self.bypassed += bypassed
        self.batched += len(entries) - bypassed
        self.failed += len(report.failures)
        self.retried += report.retries
        self.isolated += len(report.failures) if len(entries) > 1 else 0
        self._batches += 1
        self._rows[record.rows] += 1
        self._reasons[batch.reason] += 1
        self._recent.append(record)
        waits = [batch.started - entry.arrival for entry in entries]
        self._waits.extend(waits)
        if self._metrics is not None:
            self._observe(self._metrics, record, waits, report.gaps)
        return record

    @staticmethod
    def _observe(metrics: Metrics, record: BatchRecord, waits: list[float], gaps: list[float]) -> None:
        metrics.batches.labels(record.reason.value).inc()
        metrics.device_batches.labels(record.device).inc()
        metrics.device_rows.labels(record.device).inc(record.rows)
        for gap in gaps:
            metrics.device_gap.labels(record.device).observe(gap)
        metrics.batch_rows.observe(record.rows)
        metrics.batch_padding.observe(record.padding)
        metrics.inference_time.observe(record.seconds)
        metrics.audio_seconds.inc(record.frames * SAMPLES_PER_FRAME / SAMPLE_RATE)
        for wait in waits:
            metrics.queue_time.observe(wait)

    def performance(self) -> dict[str, Any]:
        total = self.bypassed + self.batched
        return {
            "total_batches": self._batches,
            "total_requests": total,
            "avg_batch_size": round(total / self._batches, 3) if self._batches else 0.0,
            "batched": self.batched,
            "bypassed": self.bypassed,
            "cancelled": self.cancelled,
            "expired": self.expired,
            "rejected": self.rejected,
            "failed": self.failed,
            "retried_batches": self.retried,
            "isolated_rows": self.isolated,
            "batch_sizes": _sizes(self._rows),
            "fire_reasons": _reasons(self._reasons),
            "recent": self._recent_performance(),
        }

    def _recent_performance(self) -> dict[str, Any]:
        recent = list(self._recent)
        frames = sum(record.frames for record in recent)
        rows = sum(record.rows for record in recent)
        return {
            "batches": len(recent),
            "avg_batch_size": round(rows / len(recent), 3) if recent else 0.0,
            "batch_sizes": _sizes(Counter(record.rows for record in recent)),
            "fire_reasons": _reasons(Counter(record.reason for record in recent)),
            "padding_ratio": round(sum(record.padded for record in recent) / frames, 3) if frames else 1.0,
            "queue_wait_ms": percentiles([1000 * wait for wait in self._waits]),
            "run_ms": percentiles([1000 * record.seconds for record in recent]),
        }


def _sizes(rows: Counter[int]) -> dict[str, int]:
    return {str(size): rows[size] for size in sorted(rows)}


def _reasons(reasons: Counter[FireReason]) -> dict[str, int]:
    return {reason.value: reasons[reason] for reason in FireReason}
