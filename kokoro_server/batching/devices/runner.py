"""Runs one batch on the device thread. A batch that fails is retried in halves, down to the row at fault."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kokoro_server.batching.clock import Clock
from kokoro_server.batching.cost import ForwardPass
from kokoro_server.batching.devices.activity import CallActivity
from kokoro_server.batching.entry import Entry, FireReason, Outcome
from kokoro_server.batching.faults import Fault, audio_faults, classify, row_error
from kokoro_server.engine.protocol import Engine, Pcm16, ReportsActivity, Result, SpeaksEarly
from kokoro_server.errors import BadAudio, KokoroError

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class BatchReport:
    """Unless the device is lost, every entry of the batch is in `results`, in `failures`, or was already done."""

    results: list[tuple[Entry, Result, ForwardPass]] = field(default_factory=list)
    failures: list[tuple[Entry, KokoroError]] = field(default_factory=list)
    forwards: list[ForwardPass] = field(default_factory=list)
    retries: int = 0
    tried_again: list[Entry] = field(default_factory=list)  # alone, after memory ran out for the entry alone
    oom_frames: int | None = None  # fewest predicted padded frames for which memory ran out
    device_lost: str | None = None
    gaps: list[float] = field(default_factory=list)  # seconds that the device idled before it, while a row waited


class Runner:
    """Calls the engine and blocks: for the device thread. `forward_started` may be read from any thread."""

    def __init__(self, engine: Engine, clock: Clock, calls: CallActivity) -> None:
        self._engine = engine
        self._clock = clock
        self._calls = calls
        self._activity: ReportsActivity = engine if isinstance(engine, ReportsActivity) else calls
        self.forward_started: float | None = None

    def run(self, entries: Sequence[Entry]) -> BatchReport:
        report = BatchReport()
        groups = [list(entries)]
        while groups and report.device_lost is None:
            group = [entry for entry in groups.pop() if not entry.done]
            if group:
                groups.extend(reversed(self._attempt(group, report)))
        waiting_since = min(entry.arrival for entry in entries)
        report.gaps = [gap.seconds for gap in self._activity.take_gaps() if waiting_since < gap.since]
        return report

    def _attempt(self, group: list[Entry], report: BatchReport) -> list[list[Entry]]:
        """Run one forward pass. If it fails, returns the smaller groups to try in its place."""
        fault: Fault | None = None
        started = self.forward_started = self._clock.now()
        try:
            with self._calls.calling():
                results = self._results(group, started)
        except Exception as error:
            fault = classify(error)
            smaller = self._failed(error, fault, group, report)
        else:
            seconds = self._calls.service_seconds(started, self._clock.now())
            smaller = self._returned(results, group, seconds, report)
        finally:
            self.forward_started = None
        if fault is Fault.MEMORY:
            self._free_memory()  # not in the except block, where the error's frames still hold the tensors
        report.retries += bool(smaller)
        return smaller

    def _results(self, group: list[Entry], started: float) -> list[Result]:
        entry, engine = group[0], self._engine
        if len(group) == 1 and entry.early is not None and isinstance(engine, SpeaksEarly):
            return [engine.synthesize_early(entry.row, partial(self._give_beginning, entry, started))]
        return engine.synthesize([entry.row for entry in group])

    def _give_beginning(self, entry: Entry, started: float, beginning: Result) -> None:
        """What has a fault is not given: the whole result will have it too."""
        if entry.early is not None and np.isfinite(beginning.audio).all():
            waited, ran = started - entry.arrival, self._clock.now() - started
            entry.early.give(Outcome(beginning, 1000 * waited, 1000 * ran, 1, FireReason.BYPASS))

    def _failed(self, error: Exception, fault: Fault, group: list[Entry], report: BatchReport) -> list[list[Entry]]:
        logger.warning("forward failed rows=%d fault=%s", len(group), fault.name.lower(), exc_info=error)
        if fault is Fault.DEVICE:
            report.device_lost = f"{type(error).__name__}: {error}"
            return []
        if fault is Fault.MEMORY:
            padded = len(group) * max(entry.frames for entry in group)
            report.oom_frames = min(padded, report.oom_frames or padded)
        if len(group) > 1:
            return halves(group)
        if fault is Fault.MEMORY and group[0] not in report.tried_again:
            report.tried_again.append(group[0])  # when all memory that can be freed has been
            return [group]
        report.failures.append((group[0], row_error(error, group[0].row)))
        return []

    def _returned(
        self, results: list[Result], group: list[Entry], seconds: float, report: BatchReport
    ) -> list[list[Entry]]:
        if len(results) != len(group):
            logger.error("forward returned rows=%d of=%d", len(results), len(group))
            if len(group) > 1:
                return [[entry] for entry in group]
            report.failures.append((group[0], BadAudio(f"the engine returned {len(results)} results for one text")))
            return []
        lengths = [int(result.durations.sum()) for result in results]
        limits, frames, longest = self._engine.limits, sum(lengths), max(lengths)
        padded, cost = limits.bucketed_rows(len(group)) * longest, limits.cost(len(group), longest, frames)
        forward = ForwardPass(len(group), frames, padded, cost, seconds)
        report.forwards.append(forward)
        faults = audio_faults([entry.row for entry in group], results)
        bad = []
        for entry, result, fault in zip(group, results, faults, strict=True):
            if fault is None:
                report.results.append((entry, detached(result) if entry.detached else result, forward))
            else:
                bad.append(entry)
        if not bad:
            return []
        why = sorted({fault for fault in faults if fault})
        logger.error(
            "forward returned bad audio rows=%d of=%d padded=%d faults=%s", len(bad), forward.rows, forward.padded, why
        )
        if len(group) == 1:
            report.failures.append((bad[0], BadAudio(f"the engine made no usable audio for this text: {why[0]}")))
            return []
        return halves(bad) if len(bad) == len(group) else [bad]

    def _free_memory(self) -> None:
        """Release cached memory: engines that keep freed memory offer `free_memory()`."""
        free = getattr(self._engine, "free_memory", None)
        if free is not None:
            free()


def detached(result: Result) -> Result:
    """A copy of the result, if its audio is a view of a whole batch.

    The samples are copied through memoryviews, which keep the interpreter lock: to get it back would take longer.
    """
    if result.audio.base is None:
        return result
    pcm16 = result.pcm16 and Pcm16(_copied(result.pcm16.samples), result.pcm16.peak)
    return Result(_copied(result.audio), result.durations, pcm16)


def _copied(samples: NDArray[Any]) -> NDArray[Any]:
    copy = np.empty_like(samples)
    copy.data[:] = samples.data
    return copy


def halves(group: list[Entry]) -> list[list[Entry]]:
    middle = (len(group) + 1) // 2
    return [group[:middle], group[middle:]]
