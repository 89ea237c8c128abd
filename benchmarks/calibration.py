"""`python -m benchmarks.calibration WEIGHTS VOICES SENTENCES`: measure and write the calibration table of int8.

WEIGHTS is a weights file, VOICES a folder of voices, SENTENCES a JSON list of objects with `phonemes`. The table says
how loud each channel gets before the convolutions that int8 quantizes. Quantization takes its range from the signal at
hand, so other weights or voices lose a little fidelity and nothing else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from safetensors.numpy import load_file

from kokoro_server import __version__
from kokoro_server.assets import files
from kokoro_server.engine import vocab
from kokoro_server.engine.cpu import build, calibration, quantization
from kokoro_server.engine.protocol import Row
from kokoro_server.voices import VoiceBook

VOICES = (
    "af_bella", "am_adam", "bf_isabella", "bm_lewis", "ef_dora", "ff_siwis", "hf_alpha", "if_sara", "jm_kumo",
    "pm_alex", "zm_yunxi", "af_nicole", "am_santa", "zf_xiaoni",
)  # fmt: skip


def main() -> None:
    weights, voices, sentences = map(Path, sys.argv[1:])
    book = VoiceBook(voices)
    texts = sorted((entry["phonemes"] for entry in json.loads(sentences.read_text(encoding="utf-8"))), key=len)
    rows = []
    for number, voice in enumerate(VOICES):
        tokens = vocab.tokenize(texts[5 + 2 * number])
        rows.append(Row(tokens, book.style(voice, len(tokens)), seed=number))
    table = calibration.measure(build.templates(), load_file(weights), rows)
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
