"""Convert a published model file to the weights file that the engines load: a flat KModel.state_dict() in safetensors.

This module does not import torch: a machine that runs the model on ONNX Runtime need not have it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from kokoro_server.assets import onnx_reader, torch_reader
from kokoro_server.assets.catalog import PublishedModel
from kokoro_server.assets.onnx_reader import Tensor, Tensors
from kokoro_server.errors import AssetError

TensorShapes = Mapping[str, tuple[int, ...]]

# Parameters that no published file holds, and the value that each must have. AdaIN's instance norm has an affine part
# only to please the ONNX exporter. ALBERT's pooler is never used.
FILL_VALUES = (
    (re.compile(r"\.(norm\d?|adain\d\.\d)\.norm\.weight$"), 1.0),
    (re.compile(r"\.(norm\d?|adain\d\.\d)\.norm\.bias$"), 0.0),
    (re.compile(r"^bert\.pooler\.(weight|bias)$"), 0.0),
)
DATA_PARALLEL_PREFIX = "module."  # in the names of a model that was saved inside torch's DataParallel


@cache
def state_shapes() -> TensorShapes:
    """The shape of every tensor of KModel's state."""
    shapes = json.loads(Path(__file__).with_name("data").joinpath("state_shapes.json").read_text(encoding="utf-8"))
    return MappingProxyType({name: tuple(shape) for name, shape in shapes.items()})


def to_safetensors(raw: Path, model: PublishedModel, destination: Path, metadata: Mapping[str, str]) -> None:
    """Write the weights of the file `raw`, whose content is the one pinned in `model`, to `destination`."""
    is_checkpoint = model.name.endswith(".pth")
    state = from_checkpoint(raw, state_shapes()) if is_checkpoint else from_onnx(raw, state_shapes())
    try:
        save_file(state, destination, {**metadata, "format": "pt"})
    except SafetensorError as error:
        raise AssetError(f"cannot write {destination}: {error}") from error


def from_onnx(path: Path, shapes: TensorShapes) -> Tensors:
    """The state of an ONNX export. A parameter that KModel does not have is an error."""
    state, unused = to_state(onnx_reader.read(path), shapes)
    if unused:
        raise AssetError(f"{path}: parameters that KModel does not have: {', '.join(sorted(unused))}")
    return state


def from_checkpoint(path: Path, shapes: TensorShapes) -> Tensors:
    """The state of the official checkpoint, {submodule: state}. Parameters that KModel does not have are ignored."""
    checkpoint = torch_reader.load(path)
    try:
        parameters = {
            f"{module}.{key.removeprefix(DATA_PARALLEL_PREFIX)}": np.asarray(value)
            for module, part in checkpoint.items()
            for key, value in part.items()
        }
    except AttributeError as error:
        raise AssetError(f"{path}: not a checkpoint of Kokoro-82M ({error})") from error
    state, _ = to_state(parameters, shapes)
    return state


def to_state(parameters: Mapping[str, Tensor], shapes: TensorShapes) -> tuple[Tensors, set[str]]:
    """A state with the keys and shapes of `shapes`, and the names of the parameters that it did not need."""
    state, used = {}, set()
    for key, shape in shapes.items():
        source, value = _value(key, parameters, shape)
        if value.shape != shape:
            raise AssetError(f"{key}: shape {value.shape}, expected {shape}")
        if not np.isfinite(value).all():
            raise AssetError(f"{key}: not finite")
        state[key] = np.ascontiguousarray(value, np.float32)
        used.add(source)
    return state, set(parameters) - used


def _value(key: str, parameters: Mapping[str, Tensor], shape: tuple[int, ...]) -> tuple[str, Tensor]:
    """The value for a key of KModel's state, and the name of the parameter that it was made from."""
    if key in parameters:
        return key, parameters[key]
    effective, part = key[:-2], key[-2:]
    if part in ("_g", "_v") and effective in parameters:
        magnitude, direction = unfuse_weight_norm(parameters[effective])
        return effective, magnitude if part == "_g" else direction
    for pattern, fill in FILL_VALUES:
        if pattern.search(key):
            return key, np.full(shape, fill, np.float32)
    raise AssetError(f"{key}: the model file has no such parameter")


def unfuse_weight_norm(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The magnitude g and direction v of a weight norm, such that g · v / |v| is `weight`.

    Rows that int8 rounded to zero have no direction. 0 / 0 would make the audio NaN, so they get g = 0 and v = 1.
    """
    rows = weight.reshape(len(weight), -1).astype(np.float64)
    magnitude = np.sqrt((rows * rows).sum(axis=1)).reshape(-1, 1, 1).astype(np.float32)  # (rows, 1, 1)
    return magnitude, np.where(magnitude == 0, np.float32(1), weight)


def voice_bytes(path: Path) -> bytes:
    """A voice that was saved by torch, as raw little-endian float32."""
    return torch_reader.tensor(path).astype("<f4").tobytes()
