"""From a weights file to the two graphs that `onnx.OnnxEngine` runs. Needs no torch.

The skeletons beside this file are the graphs without weights, as `onnx_export` traces them from the torch code;
`python -m kokoro_server.engine.onnx_export` writes them anew.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import onnx
from safetensors import SafetensorError
from safetensors.numpy import load_file

from kokoro_server.engine.onnx_graph import Array, folded
from kokoro_server.engine.onnx_lower import lowered
from kokoro_server.errors import AssetError

GRAPHS = ("text", "decode")
FILES = tuple(f"{name}.onnx" for name in GRAPHS)

Precision = Literal["int8", "fp32"]
Progress = Callable[[str], None]


def build(weights: Path, folder: Path, precision: Precision, progress: Progress | None = None) -> None:
    """Write `FILES` into `folder`, which exists. `weights` is a converted safetensors file.

    What `progress` is told says what comes next. Not atomic: on an error, files may be missing or cut short.
    """
    tell = progress or (lambda _: None)
    tell("reading weights")
    try:
        state = load_file(weights)
    except (SafetensorError, OSError) as error:
        raise AssetError(f"{weights}: not readable ({error}); run 'kokoro-server assets fetch'") from error
    from kokoro_server.engine import onnx_levels

    assemble("kokoro", state, folder, precision, onnx_levels.read(), tell)


def assemble(
    model: str,
    state: Mapping[str, Array],
    folder: Path,
    precision: Precision,
    levels: Mapping[str, Array] = MappingProxyType({}),
    progress: Progress = lambda _: None,
) -> None:
    """Write the graphs of `model` with the tensors of `state`; for `levels` see `onnx_lower.lowered`."""
    for name in GRAPHS:
        progress(f"building the {name} graph")
        bones = skeleton(model, name)
        lean, constants = folded(bones, fitting(bones, state))
        graph = lowered(lean, constants, precision if name == "decode" else "fp32", levels)
        onnx.save(graph, folder / f"{name}.onnx")


def fitting(model: onnx.ModelProto, state: Mapping[str, Array]) -> dict[str, Array]:
    """What of `state` the model asks for."""
    for wanted in model.graph.initializer:
        if wanted.name not in state:
            raise AssetError(f"{wanted.name}: the weights file has no such tensor; run 'kokoro-server assets fetch'")
        if state[wanted.name].shape != tuple(wanted.dims):
            raise AssetError(f"{wanted.name}: shape {state[wanted.name].shape}, expected {tuple(wanted.dims)}")
    return {wanted.name: state[wanted.name] for wanted in model.graph.initializer}


def skeleton(model: str, name: str) -> onnx.ModelProto:
    return onnx.load_from_string(gzip.decompress(skeleton_path(model, name).read_bytes()))


def skeleton_path(model: str, name: str) -> Path:
    """`model` is "kokoro" or "tiny"."""
    return Path(__file__).with_name(f"{model}_{name}.onnx.gz")
