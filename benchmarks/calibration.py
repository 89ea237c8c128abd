"""`python -m benchmarks.calibration WEIGHTS VOICES SENTENCES`: measure and write the calibration table of int8.

WEIGHTS is a weights file, VOICES a folder of voices, SENTENCES a JSON list of objects with `phonemes`. The table says
how loud each channel gets before the convolutions that int8 quantizes. Quantization takes its range from the signal at
hand, so other weights or voices lose a little fidelity and nothing else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file

from kokoro_server import __version__
from kokoro_server.assets import files
from kokoro_server.engine import vocab
from kokoro_server.engine.cpu import build, quantization
from kokoro_server.engine.cpu.engine import decode_inputs
from kokoro_server.engine.cpu.graph import attributes, fold_constants
from kokoro_server.engine.cpu.lowering import f32, lower
from kokoro_server.engine.cpu.numerics import SNAKE_GAIN, Array
from kokoro_server.engine.cpu.quantization import EDGE_STEPS, SEGMENTED, is_quantizable
from kokoro_server.engine.cpu.sessions import session
from kokoro_server.engine.protocol import Row
from kokoro_server.runtime.machine import thread_count
from kokoro_server.voices import VoiceBook

VOICES = (
    "af_bella", "am_adam", "bf_isabella", "bm_lewis", "ef_dora", "ff_siwis", "hf_alpha", "if_sara", "jm_kumo",
    "pm_alex", "zm_yunxi", "af_nicole", "am_santa", "zf_xiaoni",
)  # fmt: skip


def measure_channel_amax(
    templates: Mapping[str, onnx.ModelProto], state: Mapping[str, Array], rows: list[Row]
) -> dict[str, Array]:
    """The greatest magnitude of each input channel over all rows, by the name of the convolution."""
    text, decode = (_observed_session(templates[name], state) for name in build.GRAPHS)
    names = [output.name for output in decode.get_outputs()][1:]
    table: dict[str, Array] = {}
    for row in rows:
        inputs, _ = decode_inputs(text, row)
        for name, signal in zip(names, decode.run(names, inputs), strict=True):
            inner = signal[:, EDGE_STEPS:-EDGE_STEPS] if name.startswith(SEGMENTED) else signal
            amax = np.abs(inner).max((0, 1))
            table[name] = np.maximum(table.get(name, amax), amax)
    return table


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


def main() -> None:
    weights, voices, sentences = map(Path, sys.argv[1:])
    book = VoiceBook(voices)
    texts = sorted((entry["phonemes"] for entry in json.loads(sentences.read_text(encoding="utf-8"))), key=len)
    rows = []
    for number, voice in enumerate(VOICES):
        tokens = vocab.tokenize(texts[5 + 2 * number])
        rows.append(Row(tokens, book.style(voice, len(tokens)), seed=number))
    table = measure_channel_amax(build.templates(), load_file(weights), rows)
    entries: dict[str, Any] = {name: amax.astype(np.float16) for name, amax in table.items()}
    entries[quantization.PROVENANCE] = json.dumps(provenance(weights, voices, sentences))
    np.savez_compressed(quantization.CHANNEL_AMAX, **entries)


def provenance(weights: Path, voices: Path, sentences: Path) -> dict[str, Any]:
    """The files and versions that a table is measured with."""
    return {
        "weights": files.sha256(weights),
        "sentences": files.sha256(sentences),
        "voices": {name: files.sha256(voices / f"{name}.bin") for name in VOICES},
        "versions": {"kokoro-server": __version__, "onnxruntime": onnxruntime.__version__},
    }


if __name__ == "__main__":
    main()
