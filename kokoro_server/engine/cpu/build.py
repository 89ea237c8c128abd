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

import numpy as np
import onnx
from safetensors import SafetensorError
from safetensors.numpy import load_file

from kokoro_server.engine.cpu.graph import Array, folded
from kokoro_server.engine.cpu.lowering import lowered
from kokoro_server.errors import AssetError

DATA = Path(__file__).with_name("data")
CHANNEL_AMAX = DATA / "channel_amax.npz"
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
    assemble(templates(), state, folder, precision, channel_amax(), tell)


def assemble(
    templates: Mapping[str, onnx.ModelProto],
    state: Mapping[str, Array],
    folder: Path,
    precision: Precision,
    levels: Mapping[str, Array] = MappingProxyType({}),
    progress: Progress = lambda _: None,
) -> None:
    """Write the graphs with the tensors of `state`; for `levels` see `lowering.lowered`."""
    for name, bones in templates.items():
        progress(f"building the {name} graph")
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


def templates() -> dict[str, onnx.ModelProto]:
    """The graphs of Kokoro-82M without its weights, as `export` traced them."""
    return {name: onnx.load_from_string(gzip.decompress(template_path(name).read_bytes())) for name in GRAPHS}


def template_path(name: str) -> Path:
    return DATA / f"{name}.onnx.gz"


def channel_amax() -> dict[str, Array]:
    """The greatest magnitude of each input channel, by the name of the convolution; see `calibration`."""
    with np.load(CHANNEL_AMAX) as found:
        return {name: found[name].astype(np.float32) for name in found.files}
