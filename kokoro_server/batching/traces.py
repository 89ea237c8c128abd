"""The spans of rows and batches.

A row has one span from its arrival to its end, and within it one for its wait. A batch is the child of its first row,
and is linked with all its rows: the trace of a request leads to the requests that shared its batch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kokoro_server.batching.entry import Entry, Outcome
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.observability import tracing

if TYPE_CHECKING:
    from kokoro_server.observability.tracing.otel import Span


def row_arrived(entry: Entry, parent: Span) -> Span:
    return parent.child(
        "row",
        {
            "kokoro.voice": entry.voice,
            "kokoro.lane": entry.priority.name.lower(),
            "kokoro.phonemes": entry.tokens,
        },
    )


def row_ended(future: asyncio.Future[Outcome], span: Span) -> None:
    if future.cancelled():
        span.fail("cancelled")
    elif error := future.exception():
        span.fail(tracing.reason(error))
    else:
        outcome = future.result()
        span.set(
            {
                "kokoro.queue_ms": outcome.queue_ms,
                "kokoro.inference_ms": outcome.inference_ms,
                "kokoro.batch_size": outcome.batch_size,
                "kokoro.audio_seconds": len(outcome.result.audio) / SAMPLE_RATE,
            }
        )
    span.end()


def batch_started(entries: Sequence[Entry], now: float) -> Span | None:
    """`now` is on the queue's clock, as `Entry.arrival` is."""
    span = tracing.shared("batch", (entry.trace for entry in entries))
    if span is None:
        return None
    wall = time.time_ns()
    for entry in entries:
        if entry.trace is not None:
            entry.trace.child("queue", start=wall - int(1e9 * (now - entry.arrival))).end(wall)
            entry.trace.link(span)
    return span


def ids(entries: Sequence[Entry]) -> str:
    """The traces that a batch is part of, for its line in the log."""
    return " traces=" + ",".join(sorted({entry.trace.trace_id for entry in entries if entry.trace is not None}))
