"""Loads the model that the settings ask for, ready to speak."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kokoro_server.assets import library
from kokoro_server.assets.library import Assets
from kokoro_server.config import Settings
from kokoro_server.degraded import Condition, Reason
from kokoro_server.engine import backends
from kokoro_server.engine.cpu import build_cache
from kokoro_server.engine.protocol import Engine, HasConditions, MeasuresSpeed
from kokoro_server.engine.voices import VoiceBook
from kokoro_server.machine import available_cores

log = logging.getLogger(__name__)

IMPROVE_EVERY_S = 3600.0  # between two attempts to fetch better weights: a start waits for them, and may come often
INT8_WEIGHTS = (
    "the weights come from an int8 file, a little below full quality: no source of full precision could be reached. "
    "A start tries again, at most once an hour; 'kokoro-server assets fetch' does so at once"
)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """Engines, one for each device, their voices, and where the weights came from.

    `precision` is that of the model file that the weights were made from, `compute` that of the arithmetic, `kernels`
    what multiplies.
    `conditions` are what may be worse than it should.
    """

    engines: tuple[Engine, ...]
    voices: VoiceBook
    precision: str
    source: str
    backend: str = "torch"
    compute: str = "fp32"
    kernels: str = "torch"
    conditions: tuple[Condition, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(engine.device for engine in self.engines)

    def measure(self) -> None:
        """Let the engines that may be slow measure their speed. Takes about a second of all cores."""
        for engine in self.engines:
            if isinstance(engine, MeasuresSpeed):
                engine.measure()


def load(settings: Settings) -> LoadedModel:
    """Fetch and build what is missing, load it and warm it up. Takes seconds, or minutes when files must be fetched."""
    backend = backends.choose(settings)
    folder = None
    if settings.model_path is None:
        library.improve(settings.cache_dir, settings.asset_source, every_s=IMPROVE_EVERY_S)
    if backend == "onnx":
        assets, folder = ensure_graphs(settings)
    else:
        assets = library.ensure(settings.cache_dir, settings.asset_source, settings.model_path)
    started = time.perf_counter()
    engines = _onnx_engines(settings, folder) if folder else _torch_engines(settings, assets)
    for engine in engines:
        engine.warmup()
    compute, kernels = str(getattr(engines[0], "precision", "fp32")), str(getattr(engines[0], "kernels", "torch"))
    log.info(
        "model ready backend=%s device=%s compute=%s kernels=%s weights=%s source=%s seconds=%.1f",
        backend,
        ",".join(engine.device for engine in engines),
        compute,
        kernels,
        assets.precision,
        assets.source,
        time.perf_counter() - started,
    )
    conditions = (_weights_condition(settings, assets), _gpu_condition(settings, backend), *_conditions(engines))
    voices = VoiceBook(assets.voices)
    return LoadedModel(tuple(engines), voices, assets.precision, assets.source, backend, compute, kernels, conditions)


def _weights_condition(settings: Settings, assets: Assets) -> Condition:
    condition = Condition(Reason.WEIGHTS)
    if assets.precision == "int8" and settings.asset_source == "auto" and settings.model_path is None:
        condition.set(INT8_WEIGHTS)
    return condition


def _gpu_condition(settings: Settings, backend: str) -> Condition:
    condition = Condition(Reason.GPU_UNUSED)
    if trouble := backends.unused_gpu(settings, backend):
        condition.set(trouble)
    return condition


def _conditions(engines: Sequence[Engine]) -> list[Condition]:
    return [condition for engine in engines if isinstance(engine, HasConditions) for condition in engine.conditions]


def _torch_engines(settings: Settings, assets: Assets) -> Sequence[Engine]:
    from kokoro_server.engine import devices  # torch takes a second to import

    setting, named = backends.named_devices(settings)
    options = devices.CudaOptions(
        settings.precision, settings.gpu_memory_fraction, settings.gpu_graphs, settings.pinned_memory_mb * 2**20
    )
    return devices.load_all(assets.weights, named, options, setting)


def ensure_graphs(settings: Settings) -> tuple[Assets, Path]:
    """The assets and the folder of graphs built from them. Once built, the weights are not read."""
    where = (settings.cache_dir, settings.asset_source, settings.model_path)
    if recorded := library.recorded(*where):
        folder = build_cache.find(settings.cache_dir, build_cache.key(recorded.digest, settings.cpu_precision))
        if folder:
            return recorded, folder
    assets = library.ensure(*where)
    key = build_cache.key(assets.digest, settings.cpu_precision)
    return assets, build_cache.ensure(settings.cache_dir, assets.weights, key)


def _onnx_engines(settings: Settings, folder: Path) -> Sequence[Engine]:
    from kokoro_server.engine.cpu.engine import OnnxEngine

    _, devices = backends.named_devices(settings)
    threads = max(1, int(available_cores() / len(devices))) if len(devices) > 1 else None
    return [OnnxEngine(folder, threads) for _ in devices]
