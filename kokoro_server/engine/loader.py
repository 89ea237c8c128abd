"""From settings to a model that is ready to speak."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kokoro_server.config import Settings
from kokoro_server.engine import assets, backends, built
from kokoro_server.engine.assets import Assets
from kokoro_server.engine.protocol import Engine, Measuring
from kokoro_server.engine.voices import VoiceBook
from kokoro_server.text.pace import Pace

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Model:
    """Engines, one for each device, their voices, and where the weights came from.

    `precision` is that of the model file the weights were made from, `compute` that of the arithmetic.
    """

    engines: tuple[Engine, ...]
    voices: VoiceBook
    precision: str
    source: str
    backend: str = "torch"
    compute: str = "fp32"

    def measure(self) -> None:
        """Let engines that want to know how fast they are find out. Takes about a second, of all cores."""
        for engine in self.engines:
            if isinstance(engine, Measuring):
                engine.measure()

    @property
    def pace(self) -> Pace | None:
        """The speed of an engine that has measured it, and so may be slower than listeners like."""
        measuring = [engine for engine in self.engines if isinstance(engine, Measuring)]
        factors = [engine.real_time_factor for engine in measuring if engine.real_time_factor]
        return Pace.measured(max(factors)) if factors else None


def load(settings: Settings) -> Model:
    """Fetch and build what is missing, load it and warm it up. Takes seconds, or minutes when files must be fetched."""
    backend = backends.choose(settings)
    folder = None
    if backend == "onnx":
        found, folder = graphs(settings)
    else:
        found = assets.ensure(settings.cache_dir, settings.asset_source, settings.model_path)
    started = time.perf_counter()
    engines = _onnx(settings, folder) if folder else _torch(settings, found)
    for engine in engines:
        engine.warmup()
    compute = str(getattr(engines[0], "precision", "fp32"))
    log.info(
        "model ready backend=%s device=%s compute=%s weights=%s source=%s seconds=%.1f",
        backend,
        ",".join(engine.device for engine in engines),
        compute,
        found.precision,
        found.source,
        time.perf_counter() - started,
    )
    return Model(tuple(engines), VoiceBook(found.voices), found.precision, found.source, backend, compute)


def _torch(settings: Settings, found: Assets) -> Sequence[Engine]:
    from kokoro_server.engine.torch_engine import TorchEngine  # torch takes a second to import

    setting, devices = backends.named_devices(settings)
    return TorchEngine.load_all(found.weights, devices, settings.precision, settings.gpu_memory_fraction, setting)


def graphs(settings: Settings) -> tuple[Assets, Path]:
    """The assets and the folder of graphs built from them. Once built, the weights are not looked at."""
    where = (settings.cache_dir, settings.asset_source, settings.model_path)
    if known := assets.recorded(*where):
        folder = built.find(settings.cache_dir, built.key(known.digest, settings.cpu_precision))
        if folder:
            return known, folder
    found = assets.ensure(*where)
    key = built.key(found.digest, settings.cpu_precision)
    return found, built.ensure(settings.cache_dir, found.weights, key)


def _onnx(settings: Settings, folder: Path) -> Sequence[Engine]:
    from kokoro_server.engine.onnx import OnnxEngine

    _, devices = backends.named_devices(settings)
    threads = max(1, (os.cpu_count() or 1) // len(devices)) if len(devices) > 1 else None
    return [OnnxEngine.load(folder, threads) for _ in devices]
