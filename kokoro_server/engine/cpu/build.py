"""From a weights file to the graphs that `engine.OnnxEngine` runs. Needs no torch.

The text graph is one file. So is the decode graph in single precision; in int8 it comes in the parts of `stages`, with
the weights of our own kernels where this processor can run them.

The templates in `data` are the graphs without weights, as `export` traces them from the torch code; data/README.md says
how to make them again.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import onnx
from safetensors import SafetensorError
from safetensors.numpy import load_file

from kokoro_server.config.settings import CpuPrecision
from kokoro_server.engine.cpu import moments
from kokoro_server.engine.cpu.fused import weights
from kokoro_server.engine.cpu.graph import fold_constants
from kokoro_server.engine.cpu.instructions import instructions
from kokoro_server.engine.cpu.lowering import lower
from kokoro_server.engine.cpu.numerics import Array
from kokoro_server.engine.cpu.quantization import Form, channel_amax
from kokoro_server.engine.cpu.saturation import best_form
from kokoro_server.engine.cpu.stages import DecodeStages
from kokoro_server.errors import AssetError

DATA = Path(__file__).with_name("data")
GRAPHS = ("text", "decode")

OnBuildStep = Callable[[str], None]  # called with the name of the step that comes next


def build(weights_file: Path, folder: Path, precision: CpuPrecision, on_progress: OnBuildStep = lambda _: None) -> None:
    """Write the graphs into `folder`, which exists. `weights_file` is a converted safetensors file.

    Not atomic: on an error, files may be missing or cut short.
    """
    on_progress("reading weights")
    try:
        state = load_file(weights_file)
    except (SafetensorError, OSError) as error:
        raise AssetError(f"{weights_file}: not readable ({error}); run 'kokoro-server assets fetch'") from error
    assemble(templates(), state, folder, precision, channel_amax(), on_progress)
    if (folder / weights.FILE).exists() and moments.fitted_on(state):
        shutil.copyfile(moments.TABLE, folder / moments.TABLE.name)


def assemble(
    templates: Mapping[str, onnx.ModelProto],
    state: Mapping[str, Array],
    folder: Path,
    precision: CpuPrecision,
    channel_amax: Mapping[str, Array] = MappingProxyType({}),
    on_progress: OnBuildStep = lambda _: None,
    form: Form | None = None,
) -> None:
    """Write the graphs with the tensors of `state`. `channel_amax`: see `lowering.lower`.

    `form` is that of int8 weights: by default the best one that this machine multiplies exactly.
    """
    if form is None:
        form = Form.SIGNED if precision == "fp32" else best_form()
    for name, template in templates.items():
        on_progress(f"building the {name} graph")
        folded, constants = fold_constants(template, required_tensors(template, state))
        decode = DecodeStages(folded, constants)
        if precision == "int8" and decode.divisible:
            for part, graph in decode.parts().items():
                on_progress(f"building the {name} graph: {part}")
                onnx.save(lower(graph, constants, precision, channel_amax, form), folder / f"{part}.onnx")
            if (which := instructions()).has_kernels:
                of_stages = decode.weights(channel_amax, which.adds_in_16_bits)
                weights.save(folder / weights.FILE, of_stages, decode.slopes())
        else:
            lowered = lower(folded, constants, precision if name == "decode" else "fp32", channel_amax, form)
            onnx.save(lowered, folder / f"{name}.onnx")


def required_tensors(template: onnx.ModelProto, state: Mapping[str, Array]) -> dict[str, Array]:
    """The tensors of `state` that the template's initializers name; AssetError if one is missing or misshapen."""
    for wanted in template.graph.initializer:
        if wanted.name not in state:
            raise AssetError(f"{wanted.name}: the weights file has no such tensor; run 'kokoro-server assets fetch'")
        if state[wanted.name].shape != tuple(wanted.dims):
            raise AssetError(f"{wanted.name}: shape {state[wanted.name].shape}, expected {tuple(wanted.dims)}")
    return {wanted.name: state[wanted.name] for wanted in template.graph.initializer}


def templates() -> dict[str, onnx.ModelProto]:
    """The graphs of Kokoro-82M without its weights, as `export` traced them."""
    return {name: onnx.load_from_string(gzip.decompress(template_path(name).read_bytes())) for name in GRAPHS}


def template_path(name: str) -> Path:
    return DATA / f"{name}.onnx.gz"
