"""A model small enough for every test: real code, random weights, a handful of random voices."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import MAX_TOKENS, STYLE_DIM, Engine

VOICES = ("af_heart", "af_bella", "af_sky", "am_adam", "bf_emma", "ef_dora", "ff_siwis", "jf_alpha", "zf_xiaobei")


def write_voices(folder: Path) -> Path:
    random = np.random.default_rng(0)
    for name in VOICES:
        pack = random.normal(scale=0.5, size=(MAX_TOKENS, 1, STYLE_DIM)).astype("<f4")
        (folder / f"{name}.bin").write_bytes(pack.tobytes())
    return folder


def load(folder: Path, engines: int = 1, backend: str = "torch") -> LoadedModel:
    from tests import backends  # not above: who only wants the voices need not have every backend

    def make() -> tuple[Engine, ...]:
        made = tuple(backends.tiny(backend) for _ in range(engines))
        for engine in made if backend != "onnx" else ():
            engine.measure = lambda: None  # type: ignore[attr-defined]  # streams are cut alike on every machine
        return made

    return LoadedModel(make(), ModelFacts(write_voices(folder), "fp32", "path", backend), make_engines=make)
