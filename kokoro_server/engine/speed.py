"""The speed of an engine on a CPU, measured so that other work on the machine changes it as little as possible.

    <cache>/speeds.json     the best real-time factor that each build has shown on each machine

Streams are cut by it as long as the server runs, so a start beside other work must not find a slow machine.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kokoro_server.assets import files
from kokoro_server.runtime.machine import available_cores, processor

log = logging.getLogger(__name__)

FILE = "speeds.json"
MAX_PASSES = 6
AGREEMENT = 1.05  # passes whose times differ by no more than this factor agree


def quickest(timed: Callable[[], tuple[float, int]]) -> tuple[float, int]:
    """The least of a few passes, each given as its seconds and its samples.

    Other work only makes a pass slower, and comes and goes. So passes follow until the two quickest agree.
    """
    passes = sorted(timed() for _ in range(2))
    while len(passes) < MAX_PASSES and passes[1][0] > AGREEMENT * passes[0][0]:
        passes = sorted([*passes, timed()])
    return passes[0]


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
