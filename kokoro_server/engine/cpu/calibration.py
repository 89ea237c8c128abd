"""Calibration of int8: how loud each channel gets before the convolutions that it quantizes.

For Kokoro v1.0 the table is in the package. For other weights it is measured on the user's machine.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file

from kokoro_server.config.settings import CpuPrecision
from kokoro_server.engine.cpu import build
from kokoro_server.engine.cpu.engine import decode_inputs
from kokoro_server.engine.cpu.graph import attributes, fold_constants
from kokoro_server.engine.cpu.lowering import f32, lower
from kokoro_server.engine.cpu.numerics import SNAKE_GAIN, Array
from kokoro_server.engine.cpu.quantization import EDGE_STEPS, SEGMENTED, is_quantizable
from kokoro_server.engine.cpu.sessions import session
from kokoro_server.engine.protocol import Row, Style
from kokoro_server.runtime.machine import thread_count

log = logging.getLogger(__name__)

VERSION = 1  # raised whenever a measurement would come out differently
PATIENCE = 120.0  # seconds; a machine so slow measures fewer rows
LEAST_ROWS = 4
WORD_ENDS = 1 / 6  # of the phonemes


def rows_of(vocabulary: Mapping[str, int], styles: Sequence[Style], tokens: int, seed: int = 0) -> list[Row]:
    """Phonemes at random, in these voices: what the model makes of them need not be speech.

    Words are some phonemes long, as pauses are louder in some channels than speech.
    """
    random = np.random.default_rng(seed)
    ids = sorted(number for symbol, number in vocabulary.items() if symbol.isalpha()) or sorted(vocabulary.values())
    rows = list[Row]()
    for number, style in enumerate(styles):
        chosen = random.choice(ids, tokens)
        chosen[random.random(tokens) < WORD_ENDS] = vocabulary[" "]
        rows.append(Row(tuple(chosen.tolist()), style, seed=seed + number))
    return rows


def measure(
    templates: Mapping[str, onnx.ModelProto],
    state: Mapping[str, Array],
    rows: Sequence[Row],
    patience: float = float("inf"),
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Array]:
    """The greatest magnitude of each input channel over all rows, by the name of the convolution.

    After `patience` seconds, the rest of the rows is left out.
    """
    started = clock()
    text, decode = (_observed_session(templates[name], state) for name in build.GRAPHS)
    names = [output.name for output in decode.get_outputs()][1:]
    table: dict[str, Array] = {}
    for number, row in enumerate(rows):
        if number >= LEAST_ROWS and clock() - started > patience:
            log.warning("calibration is cut short rows=%d of=%d", number, len(rows))
            break
        inputs, _ = decode_inputs(text, row)
        for name, signal in zip(names, decode.run(names, inputs), strict=True):
            inner = signal[:, EDGE_STEPS:-EDGE_STEPS] if name.startswith(SEGMENTED) else signal
            amax = np.abs(inner).max((0, 1))
            table[name] = np.maximum(table.get(name, amax), amax)
    return table


def digest(weights: str) -> str:
    """Stands for a build of the weights with this digest that is calibrated on the user's machine."""
    return sha256(f"{weights} calibrated {VERSION}".encode()).hexdigest()


def build_calibrated(
    rows: Sequence[Row],
    weights_file: Path,
    folder: Path,
    precision: CpuPrecision,
    on_progress: build.OnBuildStep = lambda _: None,
) -> None:
    """`build.build` for weights that the table in the package was not measured on: the rows are."""
    on_progress("reading weights")
    state, templates = load_file(weights_file), build.templates()
    on_progress("calibrating")
    table = measure(templates, state, rows, PATIENCE)
    build.assemble(templates, state, folder, precision, table, on_progress)


def _observed_session(template: onnx.ModelProto, state: Mapping[str, Array]) -> onnxruntime.InferenceSession:
    """A graph in single precision that also gives the inputs of the convolutions that SmoothQuant scales.

    It scales all that int8 quantizes, except the energy branch and the shortcuts, whose input has two bytes.
    """
    model, constants = fold_constants(template, build.required_tensors(template, state))
    snakes = {node.output[0] for node in model.graph.node if node.op_type == "Snake"}
    for node in [node for node in model.graph.node if node.domain and node.op_type == "Conv"]:
        label = attributes(node)["label"].decode()
        unscaled = label.startswith(("predictor.N.", "decoder.asr_res.")) or label.endswith("conv1x1")
        if is_quantizable(label, constants[node.input[1]]) and not unscaled:
            constants[f"{label}.gain"] = f32(SNAKE_GAIN if node.input[0] in snakes else 1)
            model.graph.node.append(onnx.helper.make_node("Mul", [node.input[0], f"{label}.gain"], [label]))
            model.graph.output.append(onnx.ValueInfoProto(name=label))
    return session(lower(model, constants, "fp32").SerializeToString(), thread_count())
