"""Loads a model of MODELS_PATH, as `loader` loads Kokoro v1.0."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Literal

from safetensors.numpy import load_file

from kokoro_server.assets import convert, files
from kokoro_server.assets.models import shape, weights
from kokoro_server.assets.models.folder import ModelFolder
from kokoro_server.assets.models.shape import ModelConfig
from kokoro_server.assets.models.weights import ConvertedWeights
from kokoro_server.config.settings import Settings
from kokoro_server.engine import backends, loader, vocab
from kokoro_server.engine.cpu import build_cache
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import Engine, Style
from kokoro_server.engine.speed import BestSpeed
from kokoro_server.errors import AssetError
from kokoro_server.observability.conditions import Condition, Reason

log = logging.getLogger(__name__)

MAX_LOADED = loader.MAX_FOLDER_MODELS
# The styles are those of some of its voices, for CALIBRATED_TOKENS phonemes: int8 is calibrated with them.
LoadFolder = Callable[[Settings, ModelFolder, Sequence[Style]], LoadedModel]
CALIBRATED_TOKENS = 30  # two seconds of speech
CALIBRATED_VOICES = 8


@dataclass(frozen=True, slots=True)
class _Ready:
    """A model whose files are ready to be loaded. `graphs` for a CPU, by ONNX Runtime."""

    settings: Settings
    model: ModelFolder
    weights: ConvertedWeights
    other_sizes: bool
    graphs: Path | None


@cache
def built_in() -> ModelConfig:
    """The configuration of Kokoro v1.0."""
    return shape.check(vocab.config())


def backend_of(settings: Settings, model: ModelFolder) -> Literal["torch", "onnx"]:
    """Raises AssetError for a model whose sizes nothing here can run."""
    backend = backends.choose(settings)
    differences = model.config.differences(built_in())
    if not differences:
        return backend
    if absent := backends.missing("torch"):
        raise AssetError(
            f"{model.path}: its sizes are not those of Kokoro v1.0 ({'; '.join(differences)}); such a model needs "
            f"{', '.join(absent)}, not installed here: {backends.EXTRA['torch']}"
        )
    return "torch"


def converted(settings: Settings, model: ModelFolder) -> ConvertedWeights:
    """The weights, checked against the sizes of `config.json`. Raises AssetError that names the wrong ones."""
    backend_of(settings, model)
    return weights.ensure(settings.cache_dir, model.weights, model.config, partial(_shapes, model.config))


def discard(settings: Settings, made: ConvertedWeights) -> None:
    """Delete from the cache what was made of a model's weights."""
    with files.explain_os_errors(settings.cache_dir):
        made.path.unlink(missing_ok=True)
        _verdict(made).unlink(missing_ok=True)
        if not backends.missing("onnx"):
            from kokoro_server.engine.cpu import calibration

            build_cache.remove(settings.cache_dir, {made.digest, calibration.digest(made.digest)})


def load(settings: Settings, model: ModelFolder, styles: Sequence[Style]) -> LoadedModel:
    """Convert and build what is missing, load the model and warm it up. Takes seconds, the first time minutes."""
    started = time.perf_counter()
    backend = backend_of(settings, model)
    made, other_sizes = converted(settings, model), bool(model.config.differences(built_in()))
    graphs, precision = None, Condition(Reason.MODELS)
    if backend == "onnx":
        graphs = _graphs(settings, made, model, styles, precision)
    ready = _Ready(settings, model, made, other_sizes, graphs)
    engines = _engines(ready)
    compute, kernels = str(getattr(engines[0], "precision", "fp32")), str(getattr(engines[0], "kernels", "torch"))
    log.info(
        "model ready name=%s backend=%s device=%s compute=%s seconds=%.1f",
        model.name, backend, ",".join(engine.device for engine in engines), compute, time.perf_counter() - started,
    )  # fmt: skip
    facts = ModelFacts(model.path / "voices", "fp32", "folder", backend, compute, kernels)
    conditions = (precision, *loader.conditions_of(engines))
    best_speed = BestSpeed.of(settings.cache_dir, f"{made.digest[:16]} {backend} kernels={kernels}", len(engines))
    return LoadedModel(tuple(engines), facts, conditions, partial(_engines, ready), best_speed)


def _engines(ready: _Ready) -> Sequence[Engine]:
    if ready.graphs is not None:
        engines = loader.onnx_engines(ready.settings, ready.graphs)
    else:
        engines = loader.torch_engines(
            ready.settings, ready.weights.path, ready.model.config.content if ready.other_sizes else None
        )
    for engine in engines:
        engine.warmup()
    return engines


def _verdict(made: ConvertedWeights) -> Path:
    """How far int8 is from single precision."""
    return made.path.with_suffix(".json")


def _shapes(config: ModelConfig) -> convert.TensorShapes:
    if not config.differences(built_in()):
        return convert.state_shapes()
    from kokoro_server.engine.model import skeleton  # torch takes a second to import

    return skeleton.shapes(config.content)


def _graphs(
    settings: Settings, made: ConvertedWeights, model: ModelFolder, styles: Sequence[Style], condition: Condition
) -> Path:
    """Graphs in the precision of the settings. Int8 must be near single precision, or that is used.

    For Kokoro v1.0 it is calibrated, and known to be near. For other weights it is calibrated here, once; then both are
    built and speak a few texts.
    """

    def in_fp32() -> Path:
        return build_cache.ensure(settings.cache_dir, made.path, build_cache.key(made.digest, "fp32"))

    if settings.cpu_precision == "fp32":
        return in_fp32()
    from kokoro_server.engine.cpu import calibration, fidelity, moments

    if moments.fitted_on(load_file(made.path)):
        return build_cache.ensure(settings.cache_dir, made.path, build_cache.key(made.digest, "int8"))
    rows = calibration.rows_of(model.config.vocabulary, styles, CALIBRATED_TOKENS)
    key = build_cache.key(calibration.digest(made.digest), "int8")

    def in_int8() -> Path:
        return build_cache.ensure(settings.cache_dir, made.path, key, partial(calibration.build_calibrated, rows))

    verdict = _verdict(made)
    distance = _known_distance(verdict, key.name)
    if distance is None:
        log.info("calibrating int8, and comparing it with single precision, once model=%s", model.name)
        distance = fidelity.distance(in_int8(), in_fp32(), model.config.vocabulary)
        log.info("compared model=%s distance=%.2f allowed=%.2f", model.name, distance, fidelity.ALLOWED)
        files.atomic_write(verdict, json.dumps({"key": key.name, "distance": distance}).encode())
    if distance <= fidelity.ALLOWED:
        return in_int8()
    condition.set(
        f"the model {model.name} runs in single precision, which takes about twice as long: in int8 its sound would "
        f"differ {distance:.2f} times as much as by another seed; at most {fidelity.ALLOWED:g} is allowed"
    )
    return in_fp32()


def _known_distance(verdict: Path, key: str) -> float | None:
    """As it was found when the build with this key was made."""
    try:
        known = json.loads(verdict.read_text(encoding="utf-8"))
        return float(known["distance"]) if known["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
