"""How loud each channel gets before each convolution that int8 rounds: measured once, kept beside this file.

    python -m kokoro_server.engine.onnx_levels WEIGHTS VOICES SENTENCES

measures anew, with a weights file, a folder of voices, and a JSON list of objects with `phonemes`. Rounding takes its
range from the signal at hand, so other weights or voices than these lose a little fidelity and nothing else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file

from kokoro_server.engine import vocab
from kokoro_server.engine.cpu import build
from kokoro_server.engine.cpu.engine import decode_inputs
from kokoro_server.engine.cpu.graph import Array, folded
from kokoro_server.engine.cpu.lowering import EDGE, PEAKED, Lowering, lowered
from kokoro_server.engine.protocol import Row
from kokoro_server.engine.voices import VoiceBook

VOICES = (
    "af_bella", "am_adam", "bf_isabella", "bm_lewis", "ef_dora", "ff_siwis", "hf_alpha", "if_sara", "jm_kumo",
    "pm_alex", "zm_yunxi", "af_nicole", "am_santa", "zf_xiaoni",
)  # fmt: skip


def measured(weights: Path, rows: list[Row]) -> dict[str, Array]:
    state = load_file(weights)
    text, decode = (_exposed(template, state) for template in build.templates().values())
    found: dict[str, Array] = {}
    for row in rows:
        for name, level in _levels(text, decode, row):
            found[name] = np.maximum(found.get(name, level), level)
    return found


def _exposed(bones: onnx.ModelProto, state: Mapping[str, Array]) -> onnxruntime.InferenceSession:
    """A graph in single precision that also gives what goes into the convolutions that may be rounded."""
    lean, constants = folded(bones, build.fitting(bones, state))
    model = lowered(lean, constants, "fp32")
    for label, x in Lowering.roundable(lean, constants):
        model.graph.node.append(onnx.helper.make_node("Identity", [x], [label]))
        model.graph.output.append(onnx.ValueInfoProto(name=label))
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def _levels(
    text: onnxruntime.InferenceSession, decode: onnxruntime.InferenceSession, row: Row
) -> Iterator[tuple[str, Array]]:
    inputs, _ = decode_inputs(text, row)
    names = [output.name for output in decode.get_outputs()][1:]
    for name, signal in zip(names, decode.run(names, inputs), strict=True):
        yield name, np.abs(signal[:, EDGE:-EDGE] if name.startswith(PEAKED) else signal).max((0, 1))


def main() -> None:
    weights, voices, sentences = map(Path, sys.argv[1:])
    book = VoiceBook(voices)
    texts = sorted((entry["phonemes"] for entry in json.loads(sentences.read_text(encoding="utf-8"))), key=len)
    rows = []
    for number, voice in enumerate(VOICES):
        tokens = vocab.tokenize(texts[5 + 2 * number])
        rows.append(Row(tokens, book.style(voice, len(tokens)), seed=number))
    found: dict[str, Any] = {name: level.astype(np.float16) for name, level in measured(weights, rows).items()}
    np.savez_compressed(build.CHANNEL_AMAX, **found)


if __name__ == "__main__":
    main()
