"""The speed of an engine on a CPU, measured so that other work on the machine changes it as little as possible.

    <cache>/speeds.json     the best real-time factor that each build has shown on each machine

Streams are cut by it as long as the server runs, so a start beside other work must not find a slow machine.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kokoro_server.assets import files
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.runtime.machine import available_cores, processor

log = logging.getLogger(__name__)

FILE = "speeds.json"
# A measured factor is rounded up to one of these. They are few and far apart, so that the same text is cut alike, and
# sounds alike, after a restart that measured a little more or less.
LEVELS = (0.05, 0.2, 0.35, 0.5, 0.8, 1.25)
EARLY_LEVEL = 0.35  # the slowest that makes a row while it is heard: see `SpeaksEarly`
PASSES = 2  # that are measured: the first one after the warm-up may still be slower
BUSY_THREADS = 1.9  # that a row keeps busy, where it has two or more


class TimedPass(NamedTuple):
    """What a forward pass took, and how many samples it made."""

    seconds: float
    computing: float  # seconds of processors, of all threads
    samples: int


def timed(speak: Callable[[], int]) -> TimedPass:
    """`speak` makes samples, and returns how many."""
    started, computing = time.perf_counter(), time.process_time()
    samples = speak()
    return TimedPass(time.perf_counter() - started, time.process_time() - computing, samples)


def real_time_factor(passes: Iterable[TimedPass], threads: int) -> float:
    """Seconds for a second of audio on a machine that does nothing else.

    Beside other work a pass waits for processors, but computes for hardly longer. Twelve busy programs on two cores
    made a row eight times as slow as on a quiet machine; its computing, by the threads that it keeps busy, stayed
    within a twentieth of that.
    """
    busy = min(threads, BUSY_THREADS)
    return min(min(each.seconds, each.computing / busy) * SAMPLE_RATE / each.samples for each in passes)


def present_factor(passes: Iterable[TimedPass]) -> float:
    """Seconds for a second of audio beside whatever else the machine does now."""
    measured = list(passes)
    return sum(each.seconds for each in measured) * SAMPLE_RATE / sum(each.samples for each in measured)


def level(real_time_factor: float) -> float:
    """The level of an engine that was measured. A machine slower than the last one stalls with any plan."""
    return next((level for level in LEVELS if real_time_factor <= level), LEVELS[-1])


@dataclass(frozen=True)
class BestSpeed:
    """The best real-time factor that a build has shown here, kept in a file for the next start and for other servers.

    A machine that was busy whenever it was measured is known as soon as one start finds it quiet.
    """

    path: Path
    name: str  # of the build on this machine

    @classmethod
    def of(cls, cache_dir: Path, build: str, engines: int) -> BestSpeed:
        """`build` names the engine, its weights and its versions. `engines` of them share the machine."""
        return cls(cache_dir / FILE, f"{build} engines={engines} cores={available_cores():g} processor={processor()}")

    def improved(self, measured: float) -> float:
        """The better one of `measured` and what is known, which is then known."""
        known = self._read()
        best = min(measured, known.get(self.name, measured))
        if best != known.get(self.name):
            self._write(known | {self.name: best})
        elif best < measured:
            log.info("the machine was quicker before measured=%.3f real_time_factor=%.3f", measured, best)
        return best

    def _read(self) -> dict[str, float]:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            return {str(name): float(factor) for name, factor in content.items() if float(factor) > 0}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            log.warning("measured speeds unreadable, ignored path=%s error=%r", self.path, error)
            return {}

    def _write(self, known: dict[str, float]) -> None:
        try:
            files.atomic_write(self.path, (json.dumps(known, indent=2) + "\n").encode())
        except OSError as error:  # a cache may be read-only
            log.info("the measured speed is not kept path=%s error=%s", self.path, error)
