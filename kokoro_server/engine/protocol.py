"""The interface of an engine to the rest of the service: rows in, results out, in order. Imports no torch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kokoro_server.observability.conditions import Condition

SAMPLE_RATE = 24_000  # Hz
SAMPLES_PER_FRAME = 600  # a duration frame: 25 ms
MAX_TOKENS = 510  # phonemes in one model call: 512 positions less a pad at either end
STYLE_DIM = 256  # half for the decoder, half for the predictor

COUNTED_RESOURCES = ("graph_captures", "graph_evictions")  # of those that `ReportsResources` tells, these only grow

Audio = NDArray[np.float32]
Style = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One utterance of a batch. `tokens` are vocabulary ids without the pads at the ends."""

    tokens: tuple[int, ...]
    style: Style  # (STYLE_DIM,)
    speed: float = 1.0
    pitch: float = 0.0  # semitones
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Pcm16:
    """A row's audio in 16-bit samples, which is what most clients want."""

    samples: NDArray[np.int16]  # as `audio.wav.pcm16` makes them
    peak: float  # the largest absolute value of the audio; NaN if a sample is


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """`durations[i]` is the length in frames of token i-1; the first and last are the pads."""

    audio: Audio  # (sum(durations) * SAMPLES_PER_FRAME,), 24 kHz
    durations: NDArray[np.int64]  # (len(tokens) + 2,)
    pcm16: Pcm16 | None = None  # from an engine that makes it at no cost


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What one `synthesize` call may be asked for."""

    max_tokens: int  # per row
    max_rows: int  # per call: beyond this it gains nothing or does not fit
    max_padded_frames: int  # rows × longest row, predicted frames
    row_buckets: tuple[int, ...] = ()  # row counts it computes with, ascending: a batch is padded to the next
    padding_weight: float = 1.0  # share of its time that grows with padded frames; the rest grows with real ones
    max_in_flight: int = 1  # concurrent calls: the device begins the second as soon as it ends the first
    parallel_calls: int = 1  # that it truly computes side by side, because that is faster; read once it has measured

    def bucketed_rows(self, rows: int) -> int:
        """The row count that a batch of `rows` is computed with: the next bucket."""
        bucket = bisect_left(self.row_buckets, rows)
        return self.row_buckets[bucket] if bucket < len(self.row_buckets) else rows

    def cost(self, rows: int, longest: int, frames: int) -> float:
        """The part of a batch's time that grows with its size, in frames of rows without padding."""
        return self.weighted_frames(self.bucketed_rows(rows) * longest, frames)

    def weighted_frames(self, padded: int, frames: int) -> float:
        """The cost of `padded` frames with padding, of which `frames` are no padding."""
        return self.padding_weight * padded + (1 - self.padding_weight) * frames


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which a device had nothing to do, before it began a batch."""

    since: float  # as time.monotonic() tells it
    seconds: float


class Engine(Protocol):
    """Its calls block, and at most `max_in_flight` run at a time, or `parallel_calls`. Every row comes out as alone."""

    @property
    def device(self) -> str: ...

    @property
    def limits(self) -> EngineLimits: ...

    def warmup(self) -> None: ...

    def synthesize(self, rows: Sequence[Row]) -> list[Result]: ...


@runtime_checkable
class MeasuresSpeed(Protocol):
    """An engine that may be slower than real time, and can find out how fast it is."""

    real_time_factor: float | None  # seconds of computing for a second of audio, once `measure` has been called

    def measure(self) -> None: ...


@runtime_checkable
class HasConditions(Protocol):
    """An engine that may work worse than it should, and says so."""

    conditions: Sequence[Condition]


@runtime_checkable
class Closable(Protocol):
    """An engine that has more to do than to be forgotten before its memory is free."""

    def close(self) -> None:
        """Free what it holds. No other call may follow, or be under way."""
        ...


@runtime_checkable
class HasExpress(Protocol):
    """An engine that may have another one on its device, for what cannot wait while it is at work on a large batch.

    Both may be called at the same time.
    """

    express: Engine | None


@runtime_checkable
class HasBackgroundWork(Protocol):
    """An engine that can do something for later calls while there are none."""

    def background_step(self) -> bool:
        """Do a small part of it, in some tens of milliseconds. False: nothing is left to do until a call has been made.

        Called on a thread that also calls `synthesize`; a call that arrives meanwhile waits for its end.
        """
        ...


@runtime_checkable
class ReportsActivity(Protocol):
    """An engine that measures on the device itself when that works. A call also waits for the host, and for others."""

    def busy_seconds(self) -> float:
        """The time that the device has worked, in all. Any thread may ask."""
        ...

    def take_gaps(self) -> list[Gap]:
        """The gaps before the batches of the calling thread that have ended since it last asked."""
        ...


@runtime_checkable
class ReportsResources(Protocol):
    """An engine that says what it holds of its device and of pinned host memory."""

    def resources(self) -> dict[str, float]:
        """`graphs`, `graphs_pending`, `graph_captures`, `graph_evictions`; and in bytes `graph_bytes`, `device_bytes`,
        `device_reserved_bytes`, `pinned_bytes`. Cheap, and may be called from any thread.
        """
        ...


class Reloadable(Protocol):
    """A model whose engines can be given up and made anew. Both calls block."""

    def unload(self) -> None:
        """Free the memory of the engines, which nobody else may refer to any more."""
        ...

    def load(self) -> Sequence[Engine]:
        """Engines for the same devices, ready to speak. Takes seconds."""
        ...
