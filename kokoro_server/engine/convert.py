"""Turn a published model file into the weights file that the engines load: flat KModel.state_dict() in safetensors."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from kokoro_server.engine import onnx_weights, reference
from kokoro_server.engine.pins import Model
from kokoro_server.errors import AssetError

State = dict[str, Tensor]

# What no published file carries, and what it must be then. AdaIN's instance norm has an affine part only to please the
# ONNX exporter; ALBERT's pooler is never used.
ABSENT = (
    (re.compile(r"\.(norm\d?|adain\d\.\d)\.norm\.weight$"), 1.0),
    (re.compile(r"\.(norm\d?|adain\d\.\d)\.norm\.bias$"), 0.0),
    (re.compile(r"^bert\.pooler\.(weight|bias)$"), 0.0),
)
PREFIX = "module."  # of a model that was saved inside torch's DataParallel


def to_safetensors(raw: Path, model: Model, destination: Path, metadata: Mapping[str, str]) -> None:
    """Write the weights of `raw`, which has the content pinned in `model`, to `destination`."""
    template = _template()
    state = from_checkpoint(raw, template) if model.file.name.endswith(".pth") else from_onnx(raw, template)
    try:
        save_file(state, destination, {**metadata, "format": "pt"})
    except SafetensorError as error:
        raise AssetError(f"cannot write {destination}: {error}") from error


def _template() -> State:
    """KModel's state without its values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch on KModel's one-layer dropout and its old weight norm
        model = reference.blank()
    return shapes(model)


def shapes(model: Any) -> State:
    return {key: value.to("meta") for key, value in model.state_dict().items()}


def from_onnx(path: Path, template: State) -> State:
    """The state of an ONNX export; every tensor of the file must have its place."""
    parameters = {name: torch.from_numpy(array) for name, array in onnx_weights.read(path).items()}
    state, unused = fit(parameters, template)
    if unused:
        raise AssetError(f"{path}: parameters that KModel does not have: {', '.join(sorted(unused))}")
    return state


def from_checkpoint(path: Path, template: State) -> State:
    """The state of the official checkpoint, {submodule: state}. What KModel has no place for, KModel ignores too."""
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise AssetError(f"{path}: not a torch checkpoint ({error})") from error
    parameters = {
        # Cloned: an LSTM's tensors may be views of one storage, which safetensors does not write.
        f"{module}.{key.removeprefix(PREFIX)}": value.clone()
        for module, part in checkpoint.items()
        for key, value in part.items()
    }
    state, _ = fit(parameters, template)
    return state


def fit(parameters: Mapping[str, Tensor], template: State) -> tuple[State, set[str]]:
    """Parameters under the template's keys, in its shapes; and the names of those that were not needed."""
    state, used = {}, set()
    for key, like in template.items():
        source, value = _value(key, parameters, like)
        if value.shape != like.shape:
            raise AssetError(f"{key}: shape {tuple(value.shape)}, expected {tuple(like.shape)}")
        if not torch.isfinite(value).all():
            raise AssetError(f"{key}: not finite")
        state[key] = value.to(like.dtype).contiguous()
        used.add(source)
    return state, set(parameters) - used


def _value(key: str, parameters: Mapping[str, Tensor], like: Tensor) -> tuple[str, Tensor]:
    """The value for a key of the model, and the name of the parameter it was made from."""
    if key in parameters:
        return key, parameters[key]
    effective, part = key[:-2], key[-2:]
    if part in ("_g", "_v") and effective in parameters:
        magnitude, direction = weight_norm(parameters[effective])
        return effective, magnitude if part == "_g" else direction
    for pattern, fill in ABSENT:
        if pattern.search(key):
            return key, torch.full(like.shape, fill)
    raise AssetError(f"{key}: the model file has no such parameter")


def weight_norm(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Magnitude g and direction v whose g · v / |v| is `weight`.

    Rows that int8 rounded to zero have no direction: 0 / 0 would make the audio NaN, so they get g = 0 and v = 1.
    """
    magnitude = weight.double().flatten(1).norm(dim=1).reshape(-1, 1, 1).float()  # (rows, 1, 1)
    return magnitude, torch.where(magnitude == 0, torch.ones_like(weight), weight)


def voice_bytes(path: Path) -> bytes:
    """A voice tensor saved by torch, as raw little-endian float32."""
    try:
        tensor = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise AssetError(f"{path}: not a torch voice ({error})") from error
    return np.ascontiguousarray(tensor.numpy(), dtype="<f4").tobytes()
