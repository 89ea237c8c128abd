"""The interface of an engine to the rest of the service: rows in, results out, in order. Imports no torch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kokoro_server.observability.conditions import Condition

SAMPLE_RATE = 24_000  # Hz
SAMPLES_PER_FRAME = 600  # a duration frame: 25 ms
MAX_TOKENS = 510  # phonemes in one model call: 512 positions less a pad at either end
STYLE_DIM = 256  # half for the decoder, half for the predictor

COUNTED_RESOURCES = ("graph_captures", "graph_evictions")  # of `ReportsResources.resources`, these only grow

Audio = NDArray[np.float32]
Style = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A piece of text as an engine takes it. `tokens` are vocabulary ids without the pads at the ends."""

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

    @property
    def whole(self) -> bool:
        """False for a beginning: see `SpeaksEarly`."""
        return len(self.audio) == int(self.durations.sum()) * SAMPLES_PER_FRAME


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The limits of one `synthesize` call."""

    max_tokens: int  # per row
    max_rows: int  # per call: more gain nothing or do not fit
    max_padded_frames: int  # rows × longest row, predicted frames
    row_buckets: tuple[int, ...] = ()  # row counts it computes with, ascending; a batch is padded to the next
    padding_weight: float = 1.0  # share of its time that grows with padded frames; the rest grows with real ones
    max_in_flight: int = 1  # concurrent calls; the device begins the second as soon as it ends the first
    parallel_calls: int = 1  # calls that run faster side by side; read it after `MeasuresSpeed.measure`

    def bucketed_rows(self, rows: int) -> int:
        """The row count that a batch of `rows` is computed with: the next bucket."""
        bucket = bisect_left(self.row_buckets, rows)
        return self.row_buckets[bucket] if bucket < len(self.row_buckets) else rows

    def cost(self, rows: int, longest: int, frames: int) -> float:
        """The part of a batch's time that grows with its size, in frames of a batch without padding."""
        return self.weighted_frames(self.bucketed_rows(rows) * longest, frames)

    def weighted_frames(self, padded: int, frames: int) -> float:
        """The cost of `padded` frames, of which `frames` are no padding."""
        return self.padding_weight * padded + (1 - self.padding_weight) * frames


@dataclass(frozen=True, slots=True)
class Gap:
    """Idle time of a device before it began a batch."""

    since: float  # by time.monotonic()
    seconds: float


class Engine(Protocol):
    """Calls block. At most `max_in_flight`, or `parallel_calls`, run at a time. A row is spoken as if alone."""

    @property
    def device(self) -> str: ...

    @property
    def limits(self) -> EngineLimits: ...

    def warmup(self) -> None: ...

    def synthesize(self, rows: Sequence[Row]) -> list[Result]: ...


@runtime_checkable
class MeasuresSpeed(Protocol):
    """An engine that may be slower than real time, and can measure its speed."""

    # Seconds of computing for a second of audio, once `measure` has been called: on a machine that does nothing else,
    # and as it was measured, beside whatever else the machine did.
    real_time_factor: float | None
    present_factor: float | None

    def measure(self) -> None: ...


OnBeginning = Callable[[Result], None]


@runtime_checkable
class SpeaksEarly(Protocol):
    """An engine that can give the beginning of a row's audio before the rest of it is made, if `speaks_early`."""

    speaks_early: bool

    def synthesize_early(self, row: Row, on_beginning: OnBeginning) -> Result:
        """Speak one row. `on_beginning` gets its first samples and all durations, on this thread: those that are made,
        each time more, and maybe never any. The result begins with them.
        """


@runtime_checkable
class HasConditions(Protocol):
    """An engine that reports when it works worse than it should."""

    conditions: Sequence[Condition]


@runtime_checkable
class Closable(Protocol):
    """An engine whose memory is not free before it is closed."""

    def close(self) -> None:
        """Free its memory. No other call may run or follow."""


@runtime_checkable
class HasExpress(Protocol):
    """An engine that may have a second one on its device, for urgent rows while it works on a large batch.

    Both may be called at the same time.
    """

    express: Engine | None


@runtime_checkable
class HasBackgroundWork(Protocol):
    """An engine that can prepare later calls while it is idle."""

    def background_step(self) -> bool:
        """Work for some tens of milliseconds. Returns False if nothing is left to do until the next call.

        Called on a thread that also calls `synthesize`; a new call waits for its end.
        """


@runtime_checkable
class ReportsActivity(Protocol):
    """An engine that measures the work of its device: a call also waits for the host and for other calls."""

    def busy_seconds(self) -> float:
        """The total time that the device has worked. Callable from any thread."""

    def take_gaps(self) -> list[Gap]:
        """The gaps before the calling thread's batches that have ended since its last call."""


@runtime_checkable
class ReportsResources(Protocol):
    """An engine that reports its graphs, device memory and pinned host memory."""

    def resources(self) -> dict[str, float]:
        """`graphs`, `graphs_pending`, `graph_captures`, `graph_evictions`; and in bytes `graph_bytes`, `device_bytes`,
        `device_reserved_bytes`, `pinned_bytes`. Cheap, and callable from any thread.
        """


class Reloadable(Protocol):
    """A model whose engines can be dropped and loaded again. Both calls block."""

    def unload(self) -> None:
        """Free the memory of the engines. Nobody else may refer to them."""

    def load(self) -> Sequence[Engine]:
        """Engines for the same devices, ready to speak. Takes seconds."""
