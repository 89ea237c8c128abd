"""The weights of a model's folder, in the form that the engines load; see `convert`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from kokoro_server.assets import convert, files, onnx_reader, torch_reader
from kokoro_server.assets.cache import CONVERTER_VERSION, AssetCache
from kokoro_server.assets.convert import TensorShapes
from kokoro_server.assets.models.shape import ModelConfig
from kokoro_server.assets.onnx_reader import Tensor, Tensors
from kokoro_server.errors import AssetError
from kokoro_server.runtime.files import UNFINISHED

log = logging.getLogger(__name__)

SUFFIXES = (".safetensors", ".pth", ".onnx")
FOLDER = "models"
MAX_BYTES = 4_000_000_000
MAX_TENSORS = 5_000
SHOWN = 12  # problems in a message
DTYPES = ("F16", "F32", "F64")
# torch's newer names for the two parts of a weight norm
_PARAMETRIZED = re.compile(r"\.parametrizations\.weight\.original([01])$")


@dataclass(frozen=True, slots=True)
class ConvertedWeights:
    """A safetensors file in the cache. The digest stands for its content."""

    path: Path
    digest: str


def ensure(cache_dir: Path, weights: Path, config: ModelConfig, shapes: Callable[[], TensorShapes]) -> ConvertedWeights:
    """The converted `weights`, from the cache or made now. Every failure is an AssetError."""
    converted = place(cache_dir, weights, config)
    with files.explain_os_errors(cache_dir):
        if not converted.path.is_file():
            with AssetCache(cache_dir).locked("converting a model"):
                state = read(weights, shapes())
                converted.path.parent.mkdir(parents=True, exist_ok=True)
                for unfinished in converted.path.parent.glob("*" + UNFINISHED):  # a crash has left it
                    unfinished.unlink()
                files.require_space(converted.path.parent, sum(tensor.nbytes for tensor in state.values()))
                with files.atomic_path(converted.path) as unfinished:
                    save_file(state, unfinished, {"format": "pt"})
                log.info("converted weights=%s path=%s", weights, converted.path)
        return converted


def place(cache_dir: Path, weights: Path, config: ModelConfig) -> ConvertedWeights:
    """Where the converted `weights` are, or will be."""
    with files.explain_os_errors(cache_dir):
        made_from = f"{files.sha256(weights)} {config.digest} {CONVERTER_VERSION}"
        digest = sha256(made_from.encode()).hexdigest()
        return ConvertedWeights(AssetCache(cache_dir).directory / FOLDER / f"{digest[:16]}.safetensors", digest)


def read(path: Path, shapes: TensorShapes) -> Tensors:
    """The tensors of KModel's state. Raises AssetError that names those that are missing or wrong."""
    parameters = _parameters(path)
    if len(parameters) > MAX_TENSORS:
        raise AssetError(f"{path}: has {len(parameters)} tensors; a Kokoro model has {len(shapes)}")
    state, problems = dict[str, Tensor](), list[str]()
    for key, shape in shapes.items():
        try:
            made, _ = convert.to_state(parameters, {key: shape})
            state |= made
        except AssetError as error:
            problems.append(error.message)
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise AssetError(
            f"{path}: not the weights that config.json describes: {'; '.join(problems[:SHOWN])}{more}; "
            "take both from the same model"
        )
    return state


def _parameters(path: Path) -> Mapping[str, Tensor]:
    if path.stat().st_size > MAX_BYTES:
        raise AssetError(f"{path}: has more than {MAX_BYTES:,} bytes, too many for a Kokoro model")
    try:
        if path.suffix == ".safetensors":
            return _named(_safetensors(path))
        if path.suffix == ".onnx":
            return onnx_reader.read(path, external=False)
        return _named(_flat(torch_reader.load(path)))
    except AssetError:
        raise
    except Exception as error:  # whatever a damaged file raises
        raise AssetError(f"{path}: cannot be read ({type(error).__name__}: {error!s:.200}); fetch it again") from error


def _safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, "numpy") as file:
            names = list(file.keys())
            other = {kind for name in names if (kind := file.get_slice(name).get_dtype()) not in DTYPES}
            if other and names:
                raise AssetError(
                    f"{path}: has tensors of {', '.join(sorted(other))}; save them as {' or '.join(DTYPES)}"
                )
            return {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise AssetError(f"{path}: not a safetensors file, or cut short ({error!s:.200}); fetch it again") from error


def _flat(saved: object) -> dict[str, Tensor]:
    """The tensors of a checkpoint: {module: {name: tensor}}, as Kokoro's, perhaps below `net`, or {name: tensor}."""
    if isinstance(saved, dict) and isinstance(saved.get("net"), dict):
        saved = saved["net"]
    if not isinstance(saved, dict) or not saved:
        raise ValueError("it has no tensors, where the state_dict of a model was expected")
    flat = dict[str, Tensor]()
    for name, value in saved.items():
        entries = value.items() if isinstance(value, dict) else [("", value)]
        for key, tensor in entries:
            if isinstance(tensor, np.ndarray):
                flat[f"{name}.{key}" if key else str(name)] = tensor
    return flat


def _named(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """By KModel's names."""
    named = dict[str, Tensor]()
    for name, tensor in parameters.items():
        module, dot, key = name.partition(".")
        key = _PARAMETRIZED.sub(lambda match: (".weight_g", ".weight_v")[int(match[1])], key)
        named[f"{module}{dot}{key.removeprefix(convert.DATA_PARALLEL_PREFIX)}"] = tensor
    return named
