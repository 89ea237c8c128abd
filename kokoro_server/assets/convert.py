"""Turn a published model file into the weights file that the engines load: flat KModel.state_dict() in safetensors.

Imports no torch: where the model runs on ONNX Runtime, none is installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from kokoro_server.assets import onnx_reader, torch_reader
from kokoro_server.assets.catalog import Model
from kokoro_server.errors import AssetError

Array = NDArray[np.float32]
State = dict[str, Array]
Shapes = Mapping[str, tuple[int, ...]]

# What no published file carries, and what it must be then. AdaIN's instance norm has an affine part only to please the
# ONNX exporter; ALBERT's pooler is never used.
ABSENT = (
    (re.compile(r"\.(norm\d?|adain\d\.\d)\.norm\.weight$"), 1.0),
    (re.compile(r"\.(norm\d?|adain\d\.\d)\.norm\.bias$"), 0.0),
    (re.compile(r"^bert\.pooler\.(weight|bias)$"), 0.0),
)
PREFIX = "module."  # of a model that was saved inside torch's DataParallel


@cache
def shapes() -> Shapes:
    """The shape of every tensor of KModel's state."""
    listed = json.loads(Path(__file__).with_name("data").joinpath("state_shapes.json").read_text(encoding="utf-8"))
    return MappingProxyType({name: tuple(shape) for name, shape in listed.items()})


def to_safetensors(raw: Path, model: Model, destination: Path, metadata: Mapping[str, str]) -> None:
    """Write the weights of `raw`, which has the content pinned in `model`, to `destination`."""
    is_checkpoint = model.file.name.endswith(".pth")
    state = from_checkpoint(raw, shapes()) if is_checkpoint else from_onnx(raw, shapes())
    try:
        save_file(state, destination, {**metadata, "format": "pt"})
    except SafetensorError as error:
        raise AssetError(f"cannot write {destination}: {error}") from error


def from_onnx(path: Path, template: Shapes) -> State:
    """The state of an ONNX export; every tensor of the file must have its place."""
    state, unused = fit(onnx_reader.read(path), template)
    if unused:
        raise AssetError(f"{path}: parameters that KModel does not have: {', '.join(sorted(unused))}")
    return state


def from_checkpoint(path: Path, template: Shapes) -> State:
    """The state of the official checkpoint, {submodule: state}. What KModel has no place for, KModel ignores too."""
    checkpoint = torch_reader.load(path)
    try:
        parameters = {
            f"{module}.{key.removeprefix(PREFIX)}": np.asarray(value)
            for module, part in checkpoint.items()
            for key, value in part.items()
        }
    except AttributeError as error:
        raise AssetError(f"{path}: not a checkpoint of Kokoro-82M ({error})") from error
    state, _ = fit(parameters, template)
    return state


def fit(parameters: Mapping[str, Array], template: Shapes) -> tuple[State, set[str]]:
    """Parameters under the template's keys, in its shapes; and the names of those that were not needed."""
    state, used = {}, set()
    for key, shape in template.items():
        source, value = _value(key, parameters, shape)
        if value.shape != shape:
            raise AssetError(f"{key}: shape {value.shape}, expected {shape}")
        if not np.isfinite(value).all():
            raise AssetError(f"{key}: not finite")
        state[key] = np.ascontiguousarray(value, np.float32)
        used.add(source)
    return state, set(parameters) - used


def _value(key: str, parameters: Mapping[str, Array], shape: tuple[int, ...]) -> tuple[str, Array]:
    """The value for a key of the model, and the name of the parameter it was made from."""
    if key in parameters:
        return key, parameters[key]
    effective, part = key[:-2], key[-2:]
    if part in ("_g", "_v") and effective in parameters:
        magnitude, direction = weight_norm(parameters[effective])
        return effective, magnitude if part == "_g" else direction
    for pattern, fill in ABSENT:
        if pattern.search(key):
            return key, np.full(shape, fill, np.float32)
    raise AssetError(f"{key}: the model file has no such parameter")


def weight_norm(weight: Array) -> tuple[Array, Array]:
    """Magnitude g and direction v whose g · v / |v| is `weight`.

    Rows that int8 rounded to zero have no direction: 0 / 0 would make the audio NaN, so they get g = 0 and v = 1.
    """
    rows = weight.reshape(len(weight), -1).astype(np.float64)
    magnitude = np.sqrt((rows * rows).sum(axis=1)).reshape(-1, 1, 1).astype(np.float32)  # (rows, 1, 1)
    return magnitude, np.where(magnitude == 0, np.float32(1), weight)


def voice_bytes(path: Path) -> bytes:
    """A voice that torch saved, as raw little-endian float32."""
    return torch_reader.tensor(path).astype("<f4").tobytes()
