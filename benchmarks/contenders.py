"""The ways to run Kokoro-82M on a CPU: the plain model, the public exports, kokoro-onnx, and ours.

Each speaks one clip, phonemes to samples, with the same number of threads. One whose package or file cannot be had says
so and is left out.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_server.assets import files, sources
from kokoro_server.assets.catalog import CATALOG
from kokoro_server.config.settings import Settings
from kokoro_server.engine.cpu import build_cache
from kokoro_server.engine.protocol import STYLE_DIM, Engine, Row
from kokoro_server.errors import KokoroError
from kokoro_server.voices import VoiceBook

PUBLIC = {"fp32": "npm", "int8": "pypi"}  # where each public export comes from


@dataclass(frozen=True)
class Clip:
    """What is said. The row's style is the voice's for this length."""

    name: str
    phonemes: str
    voice: str
    row: Row


@dataclass(frozen=True)
class Place:
    """What contenders are made of."""

    weights: Path
    voices: VoiceBook
    threads: int


Speak = Callable[[Clip], int]  # gives the number of samples made


def kmodel(place: Place) -> Speak:
    import torch

    from kokoro_server.engine.model import reference

    torch.set_num_threads(place.threads)
    model = reference.load(place.weights)

    def speak(clip: Clip) -> int:
        tokens, style = torch.tensor([[0, *clip.row.tokens, 0]]), torch.tensor(clip.row.style)[None]
        return len(model.forward_with_tokens(tokens, style, clip.row.speed)[0])

    return speak


def torch_engine(place: Place) -> Speak:
    import torch

    from kokoro_server.engine import devices

    torch.set_num_threads(place.threads)
    return _ours(devices.load_all(place.weights, ["cpu"])[0])


def onnx_graphs(weights: Path, precision: str) -> Path:
    """The folder of our graphs, built first if the cache has none."""
    key = build_cache.key(files.sha256(weights), precision)  # type: ignore[arg-type]
    return build_cache.ensure(Settings.load(dotenv=None).cache_dir, weights, key)


def onnx_engine(weights: Path, precision: str, threads: int | None = None, use_kernels: bool = True) -> Engine:
    from kokoro_server.engine.cpu.engine import OnnxEngine

    return OnnxEngine(onnx_graphs(weights, precision), threads, use_kernels)


def onnx_variant(weights: Path, variant: str) -> tuple[Engine, Path]:
    """An engine and its graphs: fp32, int8, int8-graphs (without kernels), int8-unsigned (for any processor)."""
    from kokoro_server.engine.cpu.engine import OnnxEngine

    precision, _, kind = variant.partition("-")
    folder = _unsigned_graphs(weights) if kind == "unsigned" else onnx_graphs(weights, precision)
    return OnnxEngine(folder, use_kernels=not kind), folder


def unsigned_engine(weights: Path, threads: int) -> Engine:
    """What processors without VNNI had before there were kernels for them."""
    from kokoro_server.engine.cpu.engine import OnnxEngine

    return OnnxEngine(_unsigned_graphs(weights), threads, use_kernels=False)


def _unsigned_graphs(weights: Path) -> Path:
    from safetensors.numpy import load_file

    from kokoro_server.engine.cpu import build
    from kokoro_server.engine.cpu.quantization import Form, channel_amax

    folder = Path(tempfile.mkdtemp(prefix="kokoro-unsigned-"))
    atexit.register(shutil.rmtree, folder)
    build.assemble(build.templates(), load_file(weights), folder, "int8", channel_amax(), form=Form.UNSIGNED)
    return folder


def _ours(engine: Engine) -> Speak:
    engine.warmup()
    return lambda clip: len(engine.synthesize([clip.row])[0].audio)


def public_file(precision: str) -> Path:
    """A public export, fetched once into the cache and checked like all that is fetched."""
    folder = Settings.load(dotenv=None).cache_dir / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return sources.model_source(PUBLIC[precision], CATALOG).fetch(folder)


def _session(path: Path, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def public_export(place: Place, precision: str) -> Speak:
    session = _session(public_file(precision), place.threads)
    types = {given.name: given.type for given in session.get_inputs()}
    tokens_name = next(name for name in types if name in ("input_ids", "tokens"))
    speed_type = np.int32 if types["speed"] == "tensor(int32)" else np.float32

    def speak(clip: Clip) -> int:
        given = {
            tokens_name: np.array([[0, *clip.row.tokens, 0]], np.int64),
            "style": clip.row.style[None],
            "speed": np.array([clip.row.speed], speed_type),
        }
        return int(np.asarray(session.run(None, given)[0]).size)

    return speak


def kokoro_onnx(place: Place, precision: str) -> Speak:
    """The package's `Kokoro.create`, as its examples call it, but with phonemes given."""
    from kokoro_onnx import Kokoro

    session = _session(public_file(precision), place.threads)
    with tempfile.TemporaryDirectory() as folder:
        packs = Path(folder, "voices.npz")
        shaped = {name: place.voices.pack(name).reshape(-1, 1, STYLE_DIM) for name in place.voices.names()}
        np.savez(packs, **shaped)  # type: ignore[arg-type]
        kokoro = Kokoro.from_session(session, str(packs))
        voices = {name: kokoro.get_voice_style(name) for name in kokoro.get_voices()}

    def speak(clip: Clip) -> int:
        audio, _ = kokoro.create(clip.phonemes, voice=voices[clip.voice], speed=clip.row.speed, is_phonemes=True)
        return len(audio)

    return speak


CONTENDERS: dict[str, Callable[[Place], Speak]] = {
    "kmodel": kmodel,
    "public-fp32": lambda place: public_export(place, "fp32"),
    "public-int8": lambda place: public_export(place, "int8"),
    "kokoro-onnx-fp32": lambda place: kokoro_onnx(place, "fp32"),
    "kokoro-onnx-int8": lambda place: kokoro_onnx(place, "int8"),
    "ours-torch": torch_engine,
    "ours-onnx-fp32": lambda place: _ours(onnx_engine(place.weights, "fp32", place.threads)),
    "ours-onnx-int8": lambda place: _ours(onnx_engine(place.weights, "int8", place.threads)),
    "ours-onnx-int8-unsigned": lambda place: _ours(unsigned_engine(place.weights, place.threads)),
    "ours-onnx-int8-graphs": lambda place: _ours(onnx_engine(place.weights, "int8", place.threads, use_kernels=False)),
}


def ready(names: list[str], place: Place) -> Iterator[tuple[str, Speak | str]]:
    """Each contender, or why it is left out."""
    os.environ.setdefault("OMP_NUM_THREADS", str(place.threads))
    for name in names:
        try:
            yield name, CONTENDERS[name](place)
        except (ImportError, KokoroError) as error:
            yield name, str(error).splitlines()[0]
