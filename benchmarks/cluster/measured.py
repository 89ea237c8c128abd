"""Service times of one machine with an H200, as `serve_cuda_untrimmed.json` and `engine_cuda.json` have measured them.

The first is of a server that sent the silence around each clip, so that all audio it made was counted.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving import prose
from kokoro_server.batching.cost import FRAME_SECONDS
from kokoro_server.engine.protocol import MAX_TOKENS, EngineLimits
from kokoro_server.text.pieces import FIRST_PIECE_PHONEMES

CLIP, STREAM = "/tts", "/tts/stream"
SENTENCES = 20_000  # whose lengths are those of the texts
DEFAULT_FRONTS = 0  # in the file: the server chose how many
# As engine/cuda has them: shapes.ROWS, and of engine the padded frames and their weight.
ROW_BUCKETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
PADDED_FRAMES = 35_840
PADDING_WEIGHT = 0.27


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds that a request takes of each part, beside the device."""

    front: float  # of a front's event loop
    engine_loop: float  # of the engine process's event loop
    g2p: float  # of a G2P worker
    g2p_parent: float
    cores: float  # all CPU time of the server


class Machine:
    """What was measured, in seconds."""

    def __init__(self, results: Path) -> None:
        self._serve = json.loads((results / "serve_cuda_untrimmed.json").read_text(encoding="utf-8"))
        self._engine = json.loads((results / "engine_cuda.json").read_text(encoding="utf-8"))
        lone = self.run(CLIP, 1)
        self.gpu: str = self._serve["device"]
        self.cores: int = self._serve["machine"]["cores"]
        self.fronts = sum("front" in each["role"] and each["cpu"] > 0 for each in lone["processes_cpu"])
        self.g2p_workers = sum(each["role"] == "g2p.service child" for each in lone["processes_cpu"])
        self.max_rows: int = self._engine["limits"]["rows_in_one_pass"]
        self.limits = EngineLimits(MAX_TOKENS, self.max_rows, PADDED_FRAMES, ROW_BUCKETS, PADDING_WEIGHT)
        rows = [each for each in self._engine["rows"] if each["rows"] in ROW_BUCKETS]
        frames = [each["equal"]["audio_s"] / FRAME_SECONDS for each in rows]  # of rows alike: without padding
        seconds = [each["equal"]["ms"] / 1000 for each in rows]
        # Padding makes a full batch cost more than the largest of these: time goes on growing as between the last two.
        slope = (seconds[-1] - seconds[-2]) / (frames[-1] - frames[-2])
        self._frames = np.array([*frames, 2 * frames[-1]])
        self._seconds = np.array([*seconds, seconds[-1] + slope * frames[-1]])

    def runs(self) -> list[dict[str, Any]]:
        """The windows with as many fronts as the server chose."""
        return [run for run in self._serve["runs"] if run.get("processes") == DEFAULT_FRONTS]

    def run(self, endpoint: str, clients: int) -> dict[str, Any]:
        (found,) = (run for run in self.runs() if (run["endpoint"], run["clients"]) == (endpoint, clients))
        return found

    def batch_seconds(self, cost: float) -> float:
        """A batch on the device. `cost` as `EngineLimits.cost`."""
        return self._call_seconds(cost) - self.host

    def _call_seconds(self, cost: float) -> float:
        return float(np.interp(cost, self._frames, self._seconds))

    @cached_property
    def full_batch(self) -> tuple[float, float]:
        """Seconds of audio in a batch of as many rows of streams as it may have, all of about the same length, and its
        seconds on the device.
        """
        rows = sorted(round(seconds / FRAME_SECONDS) for pieces in self.stream_rows for seconds in pieces)
        batches = [rows[start : start + self.max_rows] for start in range(0, len(rows) - self.max_rows, self.max_rows)]
        seconds = [self.batch_seconds(self.limits.cost(len(batch), max(batch), sum(batch))) for batch in batches]
        return statistics.mean(map(sum, batches)) * FRAME_SECONDS, statistics.mean(seconds)

    @cached_property
    def host(self) -> float:
        """What is not the device's of a call's time: by a clip alone, whose time on the device the server told."""
        run = self.run(CLIP, 1)
        call = self._call_seconds(run["clip_seconds"] / FRAME_SECONDS)
        return call - run["device_busy"] / run["requests_per_second"]

    @cached_property
    def gap(self) -> float:
        """Idle time between two batches, where others wait: the device waits for the host."""
        run = self.run(CLIP, 16)
        return (1 - run["device_busy"]) * run["batch_rows_mean"] / run["requests_per_second"]

    def costs(self, endpoint: str, clients: int = 128) -> Costs:
        """By the CPU time of each process under load."""
        run = self.run(endpoint, clients)

        def of(role: str, part: str = "cpu") -> float:
            total = sum(each[part] for each in run["processes_cpu"] if each["role"].endswith(role))
            return float(total / run["requests_per_second"])

        return Costs(
            front=of(" front", "main_thread"),
            engine_loop=of(" engine", "main_thread"),
            g2p=of("g2p.service child"),
            g2p_parent=of("g2p.service"),
            cores=run["cpu_ms_per_request"] / 1000,
        )

    @cached_property
    def _sentences(self) -> list[str]:
        return [prose.sentence(number) for number in range(SENTENCES)]

    @cached_property
    def clip_seconds(self) -> float:
        return statistics.mean(run["clip_seconds"] for run in self.runs())

    @cached_property
    def clip_rows(self) -> list[tuple[float, ...]]:
        """The rows of each sentence, in seconds."""
        return self._rows(stream=False)

    @cached_property
    def stream_rows(self) -> list[tuple[float, ...]]:
        return self._rows(stream=True)

    def _rows(self, *, stream: bool) -> list[tuple[float, ...]]:
        rate = self.clip_seconds / statistics.mean(len(sentence) for sentence in self._sentences)
        cuts = [first_piece(sentence) if stream else len(sentence) for sentence in self._sentences]
        return [
            (cut * rate, (len(sentence) - cut) * rate) if cut < len(sentence) else (cut * rate,)
            for sentence, cut in zip(self._sentences, cuts, strict=True)
        ]


def first_piece(sentence: str) -> int:
    """The characters of a stream's first piece: it ends with a clause, if one ends early enough."""
    if len(sentence) <= FIRST_PIECE_PHONEMES:
        return len(sentence)
    return sentence.rfind(",", 0, FIRST_PIECE_PHONEMES) + 1 or len(sentence)
