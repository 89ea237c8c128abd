"""Loads the model that the settings ask for, ready to speak."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kokoro_server.assets import library
from kokoro_server.assets.library import Assets
from kokoro_server.assets.models.folder import scan
from kokoro_server.config.settings import Settings
from kokoro_server.engine import backends
from kokoro_server.engine.cpu import build_cache
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.protocol import Closable, Engine, HasConditions, MeasuresSpeed
from kokoro_server.engine.speed import BestSpeed
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.runtime import files
from kokoro_server.runtime.event_loop import collect_all, freeze_again, trim
from kokoro_server.runtime.machine import available_cores

log = logging.getLogger(__name__)

IMPROVE_EVERY_S = 3600.0  # between attempts to fetch better weights: a start waits for them, and starts may be frequent
# Models of MODELS_PATH in memory at once: each takes about as much as Kokoro v1.0. Another one takes the place of the
# one that has been idle longest.
MAX_FOLDER_MODELS = 4
INT8_WEIGHTS = (
    "the weights come from an int8 file, a little below full quality: no source of full precision could be reached. "
    "A start tries again, at most once an hour; 'kokoro-server assets fetch' does so at once"
)


@dataclass(slots=True)
class LoadedModel:
    """Engines, one for each device, and the facts about them. `protocol.Reloadable` if it has `make_engines`.

    `conditions` say what works worse than it should. A `load` replaces those of the engines. `best_speed` keeps the
    speed of the engines that measure theirs.
    """

    engines: tuple[Engine, ...]
    facts: ModelFacts
    conditions: tuple[Condition, ...] = ()
    make_engines: Callable[[], Sequence[Engine]] | None = None
    best_speed: BestSpeed | None = None
    _own_conditions: tuple[Condition, ...] = field(init=False)
    _not_loaded: Condition = field(init=False)

    def __post_init__(self) -> None:
        self.facts = replace(self.facts, devices=tuple(engine.device for engine in self.engines))
        of_engines = conditions_of(self.engines)
        self._not_loaded = Condition(Reason.MODEL)
        self._own_conditions = (*(each for each in self.conditions if each not in of_engines), self._not_loaded)
        self.conditions = (*self.conditions, self._not_loaded)

    @property
    def reloadable(self) -> LoadedModel | None:
        return self if self.make_engines else None

    def unload(self) -> None:
        _close(self.engines)
        self.engines = ()
        collect_all()
        if self.facts.backend == "torch":
            from kokoro_server.engine import devices

            devices.free_memory(self.facts.devices)
        trim()

    def load(self) -> Sequence[Engine]:
        """While loading fails, `conditions` show why."""
        assert self.make_engines is not None
        try:
            self.engines = tuple(self.make_engines())
        except Exception as error:
            why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            self._not_loaded.set(
                f"the model was unloaded while idle and cannot be loaded again ({why}); each request tries again, "
                "and is answered with 503 if that fails"
            )
            raise
        self._not_loaded.clear()
        self.conditions = (*self._own_conditions, *conditions_of(self.engines))
        freeze_again()
        return self.engines

    def measure(self) -> None:
        """Measure the speed of the engines that may be slow. Takes all cores for about a second."""
        for engine in self.engines:
            if isinstance(engine, MeasuresSpeed):
                engine.measure()
                if self.best_speed and engine.real_time_factor:
                    engine.real_time_factor = self.best_speed.improved(engine.real_time_factor)


LoadModel = Callable[[Settings], LoadedModel]


def import_modules(settings: Settings) -> None:
    """Import what `load` needs. With torch that takes seconds, in which the weights come from the disk."""
    if backends.choose(settings) == "onnx":
        import kokoro_server.engine.cpu.engine
    else:
        if assets := library.recorded(settings.cache_dir, settings.asset_source, settings.model_path):
            files.read_ahead(assets.weights)
        keep_kernels(settings.cache_dir)

        import kokoro_server.engine.devices

        with suppress(ImportError):  # torch for Windows comes without Triton
            import kokoro_server.engine.cuda.engine  # noqa: F401


def load(settings: Settings) -> LoadedModel:
    """Fetch and build missing files, load the model and warm it up. Takes seconds, or minutes with downloads."""
    backend = backends.choose(settings)
    folder = None
    if settings.model_path is None:
        library.improve(settings.cache_dir, settings.asset_source, every_s=IMPROVE_EVERY_S)
    if backend == "onnx":
        assets, folder = ensure_graphs(settings)
    else:
        assets = library.ensure(settings.cache_dir, settings.asset_source, settings.model_path)
    started = time.perf_counter()
    engines = _engines(settings, assets, folder)
    compute, kernels = str(getattr(engines[0], "precision", "fp32")), str(getattr(engines[0], "kernels", "torch"))
    names, seconds = ",".join(engine.device for engine in engines), time.perf_counter() - started
    log.info(
        "model ready backend=%s device=%s compute=%s kernels=%s weights=%s source=%s seconds=%.1f",
        backend, names, compute, kernels, assets.precision, assets.source, seconds,
    )  # fmt: skip
    from_int8 = assets.precision == "int8" and settings.asset_source == "auto" and settings.model_path is None
    weights = Condition(Reason.WEIGHTS, INT8_WEIGHTS if from_int8 else None)
    gpu = Condition(Reason.GPU_UNUSED, backends.unused_gpu(settings, backend))
    facts = ModelFacts(assets.voices, assets.precision, assets.source, backend, compute, kernels)
    conditions = (weights, gpu, *conditions_of(engines))
    build = folder.name if folder else f"torch{version('torch')}-{assets.digest[:8]}"
    best_speed = BestSpeed.of(settings.cache_dir, f"{build} kernels={kernels}", len(engines))
    again = partial(_engines_again, settings, assets, folder)
    return LoadedModel(tuple(engines), facts, conditions, again, best_speed)


def _engines(settings: Settings, assets: Assets, folder: Path | None) -> Sequence[Engine]:
    """Engines ready to speak, from the graphs in `folder` or, without a folder, from the weights."""
    engines = onnx_engines(settings, folder) if folder else torch_engines(settings, assets.weights)
    for engine in engines:
        engine.warmup()
    return engines


def _engines_again(settings: Settings, assets: Assets, folder: Path | None) -> Sequence[Engine]:
    """`_engines` from the same files, which are fetched and built again if they are gone."""
    if folder is not None:
        intact = build_cache.find(settings.cache_dir, build_cache.key(assets.digest, settings.cpu_precision))
        folder = intact or ensure_graphs(settings)[1]
    elif not assets.weights.is_file():
        assets = library.ensure(settings.cache_dir, settings.asset_source, settings.model_path)
    return _engines(settings, assets, folder)


def _close(engines: Sequence[Engine]) -> None:
    """A function of its own, so that no variable refers to an engine when its memory is collected."""
    for engine in engines:
        if isinstance(engine, Closable):
            engine.close()


def conditions_of(engines: Sequence[Engine]) -> list[Condition]:
    return [condition for engine in engines if isinstance(engine, HasConditions) for condition in engine.conditions]


def torch_engines(
    settings: Settings, weights: Path, configuration: Mapping[str, Any] | None = None
) -> Sequence[Engine]:
    """`configuration` is that of a model of other sizes than Kokoro v1.0."""
    keep_kernels(settings.cache_dir)
    from kokoro_server.engine import devices  # torch takes a second to import

    setting, named = backends.named_devices(settings)
    options = devices.CudaOptions(
        settings.gpu_precision,
        settings.gpu_memory_fraction,
        settings.gpu_graphs,
        settings.pinned_memory_mb * 2**20,
        _model_count(settings),
        settings.gpu_express,
    )
    return devices.load_all(weights, named, options, setting, configuration)


def keep_kernels(cache_dir: Path) -> None:
    """Let Triton keep its compiled kernels beside the model, unless TRITON_CACHE_DIR says otherwise.

    The home folder, its own choice, may be another one at the next start, as in a container.
    """
    if os.access(cache_dir, os.W_OK):
        os.environ.setdefault("TRITON_CACHE_DIR", str(cache_dir / "triton"))


def _model_count(settings: Settings) -> int:
    """How many models share the memory of a GPU, each in an equal part."""
    return 1 + min(MAX_FOLDER_MODELS, len(scan(settings.models_path).models)) if settings.models_path else 1


def ensure_graphs(settings: Settings) -> tuple[Assets, Path]:
    """The assets and the folder of graphs built from them. Reads the weights only to build."""
    where = (settings.cache_dir, settings.asset_source, settings.model_path)
    if recorded := library.recorded(*where):
        folder = build_cache.find(settings.cache_dir, build_cache.key(recorded.digest, settings.cpu_precision))
        if folder:
            return recorded, folder
    assets = library.ensure(*where)
    key = build_cache.key(assets.digest, settings.cpu_precision)
    return assets, build_cache.ensure(settings.cache_dir, assets.weights, key)


def onnx_engines(settings: Settings, folder: Path) -> Sequence[Engine]:
    from kokoro_server.engine.cpu.engine import OnnxEngine

    _, devices = backends.named_devices(settings)
    threads = max(1, int(available_cores() / len(devices))) if len(devices) > 1 else None
    return [OnnxEngine(folder, threads) for _ in devices]
