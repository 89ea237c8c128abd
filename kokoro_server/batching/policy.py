"""Batch formation: which entries go together, and when. Pure: it looks at the waiting entries and changes nothing.

Frames are the unit of lengths and of costs: 25 ms of audio.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

from kokoro_server.batching.entry import ALL, Entry, FireReason, Priority
from kokoro_server.batching.lanes import CANDIDATE_BATCHES, OVERTAKE_LIMIT, PriorityLanes
from kokoro_server.config.settings import Settings
from kokoro_server.engine.protocol import EngineLimits

NEARLY_FULL = 0.8  # of the rows or of the budget: not worth waiting for more
# How many times larger a batch for listeners may be than the one that gives them the least mean wait if no more came.
# More do come. `benchmarks/cluster_sim.py` with an H200's times, against batches that count first pieces alone: 64
# streams that ask again at once get 1.23 times the audio and 128 get 1.06 times, with a 95th percentile of first audio
# that is no worse; of 3,000 listeners it is half.
LISTENERS_BATCH_FACTOR = 1.6
# As a share of the leader's length: first pieces that differ by less count as equally long, and go by age. So do other
# entries, with a tolerance that is smaller the more padding costs. Simulated as above, the 95th percentile of a crowd
# is lower by a twentieth, as nobody waits long for a better fit, and the throughput by a hundredth.
LENGTH_TOLERANCE = 0.5
# While streams come and go, bulk fills a batch only up to this many times its fixed cost. Without that, a first piece
# waits for full batches of bulk. Simulated with an H200's times, 16 streams that ask again at once beside endless
# bulk have a 95th percentile of 50 ms instead of 98 (34 alone), and the device makes a tenth less.
BULK_BESIDE_STREAMS = 6.0
STREAM_MEMORY = 5.0  # seconds after the first piece of a stream in which another one is to be expected
LISTENED = (Priority.BYPASS, Priority.NEXT, Priority.NORMAL)  # lanes of entries that somebody waits for now
Grouping = Literal["mixed", "voice"]


@dataclass(frozen=True, slots=True)
class BatchingOptions:
    """How the queue behaves. None stands for the engine's own best value."""

    enabled: bool = True  # False: the same path with batches of one and no waiting
    max_batch_size: int | None = None  # rows; the engine's own limit, if that is less
    max_batch_text_length: int | None = None  # phonemes of a batch in all; None: no limit
    max_wait_ms: float = 50.0  # the longest waiting window of an idle device, from the oldest entry's arrival
    min_wait_ms: float = 10.0  # the shortest window while requests are expected
    quiet_ms: float = 2.0  # without an arrival, after which the window closes
    grouping: Grouping = "mixed"  # "voice": only rows of one voice share a batch
    max_queue_size: int = 1000  # entries waiting or expected
    max_queued_seconds: float = 0.0  # predicted audio of one caller that may wait; 0: no limit
    queue_timeout: float = 30.0  # seconds of predicted wait above which an interactive text is refused
    job_timeout: float = 600.0  # the same for bulk, and for the later sentences of a conversation
    engine_timeout: float = 60.0  # seconds that one forward pass may take
    idle_unload: float = 0.0  # seconds without work after which a model that can be reloaded is unloaded; 0: never

    @classmethod
    def of(cls, settings: Settings) -> BatchingOptions:
        return cls(
            enabled=settings.batching,
            max_batch_size=settings.max_rows_per_pass,
            max_batch_text_length=settings.max_tokens_per_pass,
            max_wait_ms=settings.max_wait_ms,
            min_wait_ms=settings.min_wait_ms,
            grouping=settings.grouping,
            max_queue_size=settings.max_queue_size,
            max_queued_seconds=settings.max_queued_seconds,
            queue_timeout=settings.queue_timeout,
            job_timeout=settings.bulk_queue_timeout,
            engine_timeout=settings.engine_timeout,
            idle_unload=settings.idle_unload,
        )

    def row_limit(self, limits: EngineLimits) -> int:
        if not self.enabled:
            return 1
        return min(self.max_batch_size or limits.max_rows, limits.max_rows)

    def parallel_limit(self, limits: EngineLimits) -> int:
        """Calls that an engine gets at once. Where each has one row, `max_batch_size` limits their number."""
        if not self.enabled:
            return 1
        return min(self.max_batch_size or limits.parallel_calls, limits.parallel_calls)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Entries to run together. The first is the leader, around which the batch was formed."""

    entries: list[Entry]
    cost: float  # predicted, in frames, as `EngineLimits.cost`
    fill: float  # share of the tightest limit that is used; 1 also when a waiting entry found no room


class Policy:
    """Forms batches under the limits of the options and the engine."""

    def __init__(self, options: BatchingOptions, limits: EngineLimits) -> None:
        self.max_rows = options.row_limit(limits)
        self._limits = limits
        self.max_padded_frames = limits.max_padded_frames
        self._max_tokens = options.max_batch_text_length or self.max_rows * limits.max_tokens
        self._by_voice = options.grouping == "voice"
        reduced = LENGTH_TOLERANCE * (1 - limits.padding_weight)
        self._tolerance = {p: LENGTH_TOLERANCE if p is Priority.BYPASS else reduced for p in Priority}
        self._quiet = options.quiet_ms / 1000
        self._min_wait = options.min_wait_ms / 1000
        self._max_wait = options.max_wait_ms / 1000

    def form_batch(
        self,
        waiting: PriorityLanes,
        *,
        cap: int,
        overhead: float,
        rows: int | None = None,
        of: Container[Priority] = ALL,
    ) -> Batch:
        """The best batch of the entries in these lanes: their leader, and the entries nearest to it in length.

        `cap`: the padded frames that are known to fit into the device's memory. `overhead`: the fixed cost of a batch,
        in frames; 0 while it is not known. `rows`: the most rows to take, if less than the policy's limit. `of`: the
        lanes to take from; without BYPASS it is a batch of bulk. The leader goes even where it breaks a limit alone.

        Where first pieces wait or may come, a batch is as large as serves the listeners best. The other rows may add at
        most `overhead` to the leader's cost. Where many entries wait, the batch may be LISTENERS_BATCH_FACTOR times the
        one with the least mean wait. (m rows of f frames in batches of n wait on average (m/n + 1)/2 batches of
        `overhead` + nf, which is least at nf = √(overhead·mf).) Rows that fill up a row bucket go along, as the engine
        computes the whole bucket anyway. While streams come, bulk rows join a batch only up to BULK_BESIDE_STREAMS
        times `overhead`.
        """
        leader = waiting.leader(of)
        max_rows = min(self.max_rows if Priority.BYPASS in of else self.bulk_rows(waiting), rows or self.max_rows)
        # Both in frames: what fits into memory, padding included, and the cost that the batch may have.
        max_padded = budget = float(min(self.max_padded_frames, cap))
        streams_come = Priority.BYPASS in of and _streams_come(waiting)
        if leader.priority is Priority.BYPASS or (overhead and streams_come and leader.priority in LISTENED):
            frames = sum(waiting.lane(lane).frames for lane in LISTENED)
            budget = min(budget, max(leader.frames + overhead, LISTENERS_BATCH_FACTOR * math.sqrt(overhead * frames)))
        bulk_budget = min(budget, BULK_BESIDE_STREAMS * overhead) if overhead and streams_come else budget
        limits = self._limits
        chosen, longest, frames, tokens = [leader], leader.frames, leader.frames, leader.tokens
        cost = limits.cost(1, longest, frames)
        overflow = False
        barriers: dict[Priority, int] = {}  # by lane: place of an entry that found no room and may not be overtaken
        for place, entry in self._ranked_candidates(leader, waiting, of):
            new_rows, new_longest, new_frames = len(chosen) + 1, max(longest, entry.frames), frames + entry.frames
            padded = new_rows * new_longest
            entry_budget = bulk_budget if entry.priority is Priority.BULK else budget
            if (
                new_rows <= max_rows
                and padded <= max_padded
                and tokens + entry.tokens <= self._max_tokens
                and place < barriers.get(entry.priority, place + 1)
                and (
                    limits.weighted_frames(padded, new_frames) <= entry_budget
                    or limits.cost(new_rows, new_longest, new_frames) == cost
                )
            ):
                chosen.append(entry)
                longest, frames, tokens = new_longest, new_frames, tokens + entry.tokens
                cost = limits.cost(new_rows, longest, frames)
            else:
                overflow = True
                if entry.overtaken >= OVERTAKE_LIMIT:
                    barriers.setdefault(entry.priority, place)
        best = self._best_row_count(chosen, overhead)
        if best < len(chosen):
            chosen, overflow = chosen[:best], True
            longest, frames = max(entry.frames for entry in chosen), sum(entry.frames for entry in chosen)
        used = max(len(chosen) / max_rows, longest * len(chosen) / max_padded, tokens / self._max_tokens)
        return Batch(chosen, limits.cost(len(chosen), longest, frames), 1.0 if overflow else used)

    def bulk_rows(self, waiting: PriorityLanes) -> int:
        """The rows of a batch of bulk alone: half while streams come, for which the device interrupts it.

        It does so between two kernels, which take half as long then. That costs less than 1/30 of the throughput.
        """
        return max(1, self.max_rows // 2) if _streams_come(waiting) else self.max_rows

    def _best_row_count(self, chosen: list[Entry], overhead: float) -> int:
        """The number of rows with the highest throughput: all that were chosen, or one of the row buckets."""
        if not overhead:
            return len(chosen)

        def throughput(rows: int) -> float:
            frames = [entry.frames for entry in chosen[:rows]]
            return sum(frames) / (overhead + self._limits.cost(rows, max(frames), sum(frames)))

        return max([len(chosen), *(rows for rows in self._limits.row_buckets if rows < len(chosen))], key=throughput)

    def _ranked_candidates(
        self, leader: Entry, waiting: PriorityLanes, of: Container[Priority]
    ) -> list[tuple[int, Entry]]:
        """Candidates to go with the leader, best first: by lane, the leader's own before the others; in a lane, those
        overtaken too often come first, by turn, and the rest by length.

        Entries of about the leader's length go by turn where their latency counts or padding costs little. Otherwise,
        at equal lengths, those of the leader's voice come first. Each comes with its place in the order of turns.
        """
        candidates = waiting.candidates(CANDIDATE_BATCHES * self.max_rows, leader, of)
        found = (candidate for candidate in enumerate(candidates) if candidate[1] is not leader)
        if self._by_voice:
            found = (candidate for candidate in found if candidate[1].voice == leader.voice)

        own_first = leader.priority in LISTENED  # its lane has a turn now
        tolerance = int(leader.frames * self._tolerance[leader.priority])

        def rank(candidate: tuple[int, Entry]) -> tuple[int, ...]:
            place, entry = candidate
            lane = -1 if own_first and entry.priority is leader.priority else entry.priority
            if entry.overtaken >= OVERTAKE_LIMIT:
                return lane, 0, place
            apart = abs(entry.frames - leader.frames)
            if tolerance:
                return lane, 1, apart // tolerance, place
            return lane, 1, apart, entry.voice != leader.voice, place

        return sorted(found, key=rank)

    def fire_or_wait(
        self, batch: Batch, waiting: PriorityLanes, *, now: float, backlog: bool, overhead: float = 0.0
    ) -> FireReason | float:
        """Why to run `batch` now, or when to look again. `backlog`: it gathered while the device was busy.

        `overhead` is the fixed cost of a batch in seconds, 0 where it is not known. Waiting longer than that for more
        entries cannot pay: it is all that they would save by sharing this batch.
        """
        if batch.entries[0].priority <= Priority.NEXT:
            return FireReason.BYPASS
        if batch.fill >= 1.0:
            return FireReason.FULL
        if batch.fill >= NEARLY_FULL:
            return FireReason.NEARLY_FULL
        if backlog:
            return FireReason.DEVICE_FREE
        oldest = waiting.oldest_arrival()
        quiet_at = waiting.last_activity + self._quiet
        if waiting.expected:
            quiet_at = max(quiet_at, oldest + self._min_wait)
        window_end = oldest + (min(self._max_wait, max(overhead, self._quiet)) if overhead else self._max_wait)
        if now >= window_end:
            return FireReason.MAX_WAIT
        if now >= quiet_at:
            return FireReason.QUIET
        return min(quiet_at, window_end)


def _streams_come(waiting: PriorityLanes) -> bool:
    """Whether the first piece of another stream is to be expected."""
    return waiting.last_activity - waiting.last_stream < STREAM_MEMORY
