"""Service times of one machine with an H200, as `serve_cuda.json` and `engine_cuda.json` have measured them."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving import prose
from kokoro_server.text.pieces import FIRST_PIECE_PHONEMES

CLIP, STREAM = "/tts", "/tts/stream"
SENTENCES = 20_000  # whose lengths are those of the texts
DEFAULT_FRONTS = 0  # in the file: the server chose how many
ONE_ROW = 10.0  # seconds of audio: no sentence is longer
LOADED = (64, 128, 256)  # clients that keep the device busy


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
        self._serve = json.loads((results / "serve_cuda.json").read_text(encoding="utf-8"))
        self._engine = json.loads((results / "engine_cuda.json").read_text(encoding="utf-8"))
        lone = self.run(CLIP, 1)
        self.gpu: str = self._serve["device"]
        self.cores: int = self._serve["machine"]["cores"]
        self.fronts = sum("front" in each["role"] and each["cpu"] > 0 for each in lone["processes_cpu"])
        self.g2p_workers = sum(each["role"] == "g2p.service child" for each in lone["processes_cpu"])
        self.max_rows: int = self._engine["limits"]["rows_in_one_pass"]
        rows = self._engine["rows"]
        self._audio = np.array([0.0, *(each["packed"]["audio_s"] for each in rows)])
        milliseconds = [each["packed"]["ms"] for each in rows]
        self._seconds = np.array([milliseconds[0], *milliseconds]) / 1000
        # Above the smallest batches, time grows by the second of audio; what is left at none is the fixed cost.
        slope, fixed = np.polyfit(self._audio[-8:], self._seconds[-8:], 1)
        self.overhead_audio = float(fixed / slope)  # the fixed cost of a batch, as seconds of audio

    def runs(self) -> list[dict[str, Any]]:
        """The windows with as many fronts as the server chose."""
        return [run for run in self._serve["runs"] if run.get("processes") == DEFAULT_FRONTS]

    def run(self, endpoint: str, clients: int) -> dict[str, Any]:
        (found,) = (run for run in self.runs() if (run["endpoint"], run["clients"]) == (endpoint, clients))
        return found

    def batch_seconds(self, audio: float) -> float:
        """A batch on the device."""
        return self._device_seconds(audio) * (self.mixed_lengths if audio > ONE_ROW else 1.0)

    def _device_seconds(self, audio: float) -> float:
        return float(np.interp(audio, self._audio, self._seconds)) - self.host

    @cached_property
    def host(self) -> float:
        """What is not the device's of a call's time: by a clip alone, whose time on the device the server told."""
        run = self.run(CLIP, 1)
        call = float(np.interp(run["clip_seconds"], self._audio, self._seconds))
        return call - run["device_busy"] / run["requests_per_second"]

    @cached_property
    def mixed_lengths(self) -> float:
        """How much longer a server's batches took than the benchmark's, whose rows are closer in length."""
        found = []
        for clients in LOADED:
            run = self.run(CLIP, clients)
            batches = run["requests_per_second"] / run["batch_rows_mean"]
            audio = run["batch_rows_mean"] * run["clip_seconds"]
            found.append(run["device_busy"] / batches / self._device_seconds(audio))
        return statistics.mean(found)

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
