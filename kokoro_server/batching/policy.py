"""Which entries go together, and when. Pure: it looks at the waiting entries and changes nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from kokoro_server.batching.entry import Entry, FireReason, Priority
from kokoro_server.batching.waiting import ENTRY_PATIENCE, WINDOW_BATCHES, Waiting
from kokoro_server.engine.protocol import Limits

NEARLY_FULL = 0.8  # of the rows or of the budget: not worth waiting for more
# Frames in a batch of a crowd's, by those that would let it wait least if nobody else came. Others do come: simulated
# with an H200's times, this lowers the 95th percentile of the wait of 32 or 64 streams by a tenth, and raises the
# throughput of 128 and more by as much.
CROWDED = 1.75
# Of the leader's length: first pieces that differ by less count as alike, and go by age; others too, the less so the
# more padding costs. Simulated as above, a crowd's 95th percentile is lower by a twentieth, as nobody waits long for a
# better fit, and the throughput by a hundredth.
ALIKE = 0.5
Grouping = Literal["mixed", "voice"]


@dataclass(frozen=True, slots=True)
class BatchingOptions:
    """How the queue behaves. None stands for what the engine does best."""

    enabled: bool = True  # False: the same path with batches of one and no waiting
    max_batch_size: int | None = None  # rows
    max_padded_frames: int | None = None  # rows × longest row, predicted
    max_batch_text_length: int | None = None  # phonemes of a batch in all; None: no cap
    max_wait_ms: float = 50.0  # no idle device waits longer, counted from the oldest entry
    min_wait_ms: float = 10.0  # the least window while others are known to be on their way
    quiet_ms: float = 2.0  # without an arrival: go
    grouping: Grouping = "mixed"  # "voice": only rows of one voice share a batch
    max_queue_size: int = 1000  # waiting or on their way
    queue_timeout: float = 30.0  # seconds that an interactive entry may wait
    job_timeout: float = 600.0  # the same for bulk entries and the later pieces of a long text
    engine_timeout: float = 60.0  # seconds that one forward pass may take

    def rows(self, limits: Limits) -> int:
        if not self.enabled:
            return 1
        return self.max_batch_size or limits.max_rows

    def padded_frames(self, limits: Limits) -> int:
        return min(self.max_padded_frames or limits.max_padded_frames, limits.max_padded_frames)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Entries to run together; the first is the one the others were picked to go with."""

    entries: list[Entry]
    cost: float  # of the engine's time, as predicted
    fill: float  # share of the tightest limit that is used; 1 also when something that waits found no room


class Policy:
    """Forms batches under the limits of the options and the engine."""

    def __init__(self, options: BatchingOptions, limits: Limits) -> None:
        self.rows = options.rows(limits)
        self._limits = limits
        self.padded_frames = options.padded_frames(limits)
        self._text = options.max_batch_text_length or self.rows * limits.max_tokens
        self._by_voice = options.grouping == "voice"
        self._alike = {p: ALIKE if p is Priority.BYPASS else ALIKE * (1 - limits.padding) for p in Priority}
        self._quiet = options.quiet_ms / 1000
        self._min_wait = options.min_wait_ms / 1000
        self._max_wait = options.max_wait_ms / 1000

    def choose(self, waiting: Waiting, *, cap: int, overhead: float, rows: int | None = None) -> Batch:
        """The best batch of what waits now: its leader, and those nearest to it in length.

        `cap` is the padded frames that are known to fit; `overhead` the fixed cost of a batch in frames; `rows`, where
        it is given, the most to take. The leader goes even where it breaks a limit alone. Rows join a bypass leader
        only as far as they at most double the fixed cost, for it is there for its latency; where many such wait, some
        way beyond what lets them wait least in all. (m of f frames in batches of n: on average (m/n + 1)/2 batches of
        `overhead` + nf, which is least at nf = √(overhead·mf).) Rows for which the engine computes anyway go along.
        """
        leader = waiting.leader()
        seats = min(self.rows, rows or self.rows)
        room = budget = float(min(self.padded_frames, cap))
        if leader.priority is Priority.BYPASS:
            crowd = waiting.lane(Priority.BYPASS).frames
            budget = max(leader.frames + overhead, CROWDED * math.sqrt(overhead * crowd))
        limits = self._limits
        chosen, longest, frames, text = [leader], leader.frames, leader.frames, leader.tokens
        cost = limits.cost(1, longest, frames)
        crowded = False
        closed: dict[Priority, int] = {}  # by lane: one that may not be overtaken again found no room
        for entry in self._companions(leader, waiting):
            count, grown, total = len(chosen) + 1, max(longest, entry.frames), frames + entry.frames
            if (
                count <= seats
                and grown * count <= room
                and text + entry.tokens <= self._text
                and entry.number < closed.get(entry.priority, entry.number + 1)
                and (limits.share(grown * count, total) <= budget or limits.cost(count, grown, total) == cost)
            ):
                chosen.append(entry)
                longest, frames, text = grown, total, text + entry.tokens
                cost = limits.cost(count, longest, frames)
            else:
                crowded = True
                if entry.skips >= ENTRY_PATIENCE:
                    closed.setdefault(entry.priority, entry.number)
        worth = self._worth(chosen, overhead)
        if worth < len(chosen):
            chosen, crowded = chosen[:worth], True
            longest, frames = max(entry.frames for entry in chosen), sum(entry.frames for entry in chosen)
        used = max(len(chosen) / seats, longest * len(chosen) / room, text / self._text)
        return Batch(chosen, limits.cost(len(chosen), longest, frames), 1.0 if crowded else used)

    def _worth(self, chosen: list[Entry], overhead: float) -> int:
        """How many of the first to take, for the most frames in the time: all, or no more than one of the steps."""
        if not overhead:
            return len(chosen)

        def speed(rows: int) -> float:
            frames = [entry.frames for entry in chosen[:rows]]
            return sum(frames) / (overhead + self._limits.cost(rows, max(frames), sum(frames)))

        return max([len(chosen), *(rows for rows in self._limits.row_buckets if rows < len(chosen))], key=speed)

    def _companions(self, leader: Entry, waiting: Waiting) -> list[Entry]:
        """Who may go with the leader: by lane, there those overtaken too often in order, then by length, voice, age.

        Among those of about the same length the oldest come first, where their latency counts or padding costs little.
        """
        window = waiting.window(WINDOW_BATCHES * self.rows)
        others = (entry for entry in window if entry is not leader)
        if self._by_voice:
            others = (entry for entry in others if entry.voice == leader.voice)

        overdue = leader.priority is Priority.NEXT  # and so are probably others of its lane
        alike = int(leader.frames * self._alike[leader.priority])

        def fitness(entry: Entry) -> tuple[int, ...]:
            lane = -1 if overdue and entry.priority is Priority.NEXT else entry.priority
            if entry.skips >= ENTRY_PATIENCE:
                return lane, 0, entry.number
            apart = abs(entry.frames - leader.frames)
            if alike:
                return lane, 1, apart // alike, entry.number
            return lane, 1, apart, entry.voice != leader.voice, entry.number

        return sorted(others, key=fitness)

    def verdict(
        self, batch: Batch, waiting: Waiting, *, now: float, backlog: bool, overhead: float = 0.0
    ) -> FireReason | float:
        """Why to run `batch` now, or when to look again. `backlog`: it gathered while the device was busy.

        `overhead` is the fixed cost of a batch in seconds, 0 where it is not known. To wait longer than that for others
        cannot pay: it is all that they would spare by coming along.
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
        quiet_at = waiting.last_news + self._quiet
        if waiting.expected:
            quiet_at = max(quiet_at, oldest + self._min_wait)
        closing = oldest + (min(self._max_wait, max(overhead, self._quiet)) if overhead else self._max_wait)
        if now >= closing:
            return FireReason.MAX_WAIT
        if now >= quiet_at:
            return FireReason.QUIET
        return min(quiet_at, closing)
