"""Runs the decoder: as one graph, or in the parts of `stages`, whose two stages our own kernels run if possible."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from kokoro_server.engine.cpu.fused import weights as fused_weights
from kokoro_server.engine.cpu.instructions import instructions
from kokoro_server.engine.cpu.moments import MomentPredictor, features
from kokoro_server.engine.cpu.numerics import Signal
from kokoro_server.engine.cpu.sessions import session, shrinking
from kokoro_server.engine.protocol import STYLE_DIM
from kokoro_server.observability.conditions import Condition

log = logging.getLogger(__name__)

Stage = Callable[[Signal, Signal, Signal], Signal]  # source, addend, styles: see `stages`

Windows = Callable[[int, int], NDArray[np.float32]]  # from frames, the first and that after the last, to their samples

FRAME_STEPS, STEP_SAMPLES = 120, 5  # steps of the last stage in a frame, samples in a step
AFTER_REACH = 8  # steps on either side that the convolution after the last stage and the inverse STFT look at, at most
MOMENTS = "moments.npz"  # in a build whose weights they were fitted on
CHECKED_STEPS = 300
# Two correct ways to round to bytes are 26 to 28 dB apart here. A wrong result leaves 11 dB at most.
MIN_LIKENESS = 15.0  # dB
MISMATCH = "the fast kernels give other results than onnxruntime on this processor; please report it"
NO_NUMBA = "numba is not installed, so speech takes about twice as long; pip install 'kokoro-server[cpu]'"


class Decode(Protocol):
    """From the decode graph's inputs to audio. With `shrink`, the system gets its memory back afterwards."""

    precision: str
    kernels: str  # what multiplies: onnxruntime, or the class of instructions of our own kernels

    def __call__(self, inputs: Mapping[str, Any], shrink: bool) -> NDArray[np.float32]: ...

    def windows(self, inputs: Mapping[str, Any], shrink: bool) -> Windows | None: ...


class WholeDecode:
    kernels = "onnxruntime"

    def __init__(self, folder: Path, threads: int) -> None:
        self._graph, self._shrinking = session(folder / "decode.onnx", threads), shrinking()
        self.precision = _precision(self._graph)

    def __call__(self, inputs: Mapping[str, Any], shrink: bool) -> NDArray[np.float32]:
        audio: NDArray[np.float32] = self._graph.run(None, inputs, self._shrinking if shrink else None)[0]
        return np.array(audio[0])

    def windows(self, inputs: Mapping[str, Any], shrink: bool) -> Windows | None:  # noqa: ARG002
        return None


class StagedDecode:
    """Runs the parts in order. `condition` says why the kernels are not used, where they should be."""

    def __init__(self, folder: Path, threads: int, condition: Condition, use_kernels: bool) -> None:
        self._before, self._between, self._after = (
            session(folder / f"{name}.onnx", threads) for name in ("before", "between", "after")
        )
        self._shrinking = shrinking()
        self.precision = _precision(self._before)
        self.kernels = WholeDecode.kernels
        graphs = [GraphStage(number, folder, threads) for number in range(2)]
        self._stages: Sequence[Stage] = graphs
        self._predict: MomentPredictor | None = None
        wanted = use_kernels and (folder / fused_weights.FILE).exists()
        if wanted and (fused := _fused_stages(folder, threads, graphs, condition)):
            self._stages, self.kernels = fused, instructions().value
            if (folder / MOMENTS).exists():
                self._predict = MomentPredictor(folder / MOMENTS)

    def __call__(self, inputs: Mapping[str, Any], shrink: bool) -> NDArray[np.float32]:
        styles, source1, addend1, _ = self._begun(inputs, shrink)
        return self._finished(self._stages[1](source1, addend1, styles), shrink)

    def windows(self, inputs: Mapping[str, Any], shrink: bool) -> Windows | None:
        """The audio by windows of its time; None if only all of it can be made at once."""
        if self._predict is None:
            return None
        styles, source1, addend1, result0 = self._begun(inputs, shrink)
        found = features(result0, source1, addend1, inputs["style"][0, : STYLE_DIM // 2])
        stage: Any = self._stages[1]  # a FusedStage, as kernels run it
        known = self._predict(found)

        def finished(begin: int, end: int) -> NDArray[np.float32]:
            """Of steps. Those at the ends are not right where the signal goes on."""
            low, high = max(0, begin - stage.reach), min(len(source1), end + stage.reach)
            result1 = stage(source1[low:high], addend1[low:high], styles, known)
            return self._finished(result1[begin - low : end - low], False)

        def audio(begin: int, end: int) -> NDArray[np.float32]:
            first, last = begin * FRAME_STEPS, end * FRAME_STEPS
            low, high = max(0, first - AFTER_REACH), min(len(source1), last + 1 + AFTER_REACH)
            skipped = (first - low) * STEP_SAMPLES
            return finished(low, high)[skipped : skipped + (last - first) * STEP_SAMPLES]

        return audio

    def _begun(self, inputs: Mapping[str, Any], shrink: bool) -> tuple[Signal, Signal, Signal, Signal]:
        """All but the last stage: the styles, its source, its addend, and the result of the stage before."""
        options = self._shrinking if shrink else None
        styles, source0, source1, addend0 = (each[0] for each in self._before.run(None, inputs, options))
        result0 = self._stages[0](source0, addend0, styles[0])
        [addend1] = self._between.run(None, {"result0": result0[None]}, options)
        return styles[0], source1, addend1[0], result0

    def _finished(self, result1: Signal, shrink: bool) -> NDArray[np.float32]:
        options = self._shrinking if shrink else None
        audio: NDArray[np.float32] = self._after.run(None, {"result1": result1[None]}, options)[0]
        return np.array(audio[0])


class GraphStage:
    """Runs a stage by onnxruntime."""

    def __init__(self, number: int, folder: Path, threads: int) -> None:
        self._graph = session(folder / f"stage{number}.onnx", threads)
        self._names = [f"source{number}", f"addend{number}", "styles"]
        self.widths = {each.name: int(each.shape[2]) for each in self._graph.get_inputs()}

    def __call__(self, source: Signal, addend: Signal, styles: Signal) -> Signal:
        given = dict(zip(self._names, (source[None], addend[None], styles[None, None]), strict=True))
        result: Signal = self._graph.run(None, given)[0][0]
        return result


def load(folder: Path, threads: int, condition: Condition, use_kernels: bool = True) -> Decode:
    """The decoder of a build."""
    whole = (folder / "decode.onnx").exists()
    return WholeDecode(folder, threads) if whole else StagedDecode(folder, threads, condition, use_kernels)


def _precision(graph: onnxruntime.InferenceSession) -> str:
    return str(graph.get_modelmeta().custom_metadata_map["precision"])


def _fused_stages(folder: Path, threads: int, graphs: Sequence[GraphStage], condition: Condition) -> list[Stage] | None:
    """The stages by kernels, or None if the kernels do not compile or do not compute what the graphs do."""
    if importlib.util.find_spec("numba") is None:
        condition.set(NO_NUMBA)
        return None
    try:
        stages = _compiled(folder, threads)
        alike = [
            likeness(graph, stage, number) for number, (graph, stage) in enumerate(zip(graphs, stages, strict=True))
        ]
    except Exception as error:  # numba and LLVM raise errors of their own for what they cannot compile
        log.warning("the fast kernels cannot be compiled", exc_info=True)
        condition.set(f"the fast kernels cannot be compiled ({type(error).__name__}: {error}); please report it")
        return None
    if not all(each >= MIN_LIKENESS for each in alike):  # false for NaN too
        condition.set(f"{MISMATCH} ({', '.join(f'{each:.1f}' for each in alike)} dB)")
        return None
    return stages


def _compiled(folder: Path, threads: int) -> list[Stage]:
    from kokoro_server.engine.cpu.fused.stage import FusedStage, Team

    compiled, team = _kernels(_kernel_cache(folder)), Team(threads)
    weights, slopes = fused_weights.load(folder / fused_weights.FILE)
    return [FusedStage(number, weights, slope, compiled, team) for number, slope in enumerate(slopes)]


def _kernel_cache(folder: Path) -> Path | None:
    """The folder for compiled kernels, or None if it is read-only: numba would choose a folder by itself."""
    cache = folder / "kernels"
    try:
        cache.mkdir(exist_ok=True)
    except OSError:
        return None
    return cache if os.access(cache, os.W_OK) else None


@functools.cache  # engines share them, and a model loaded again does too: nothing frees code that numba has compiled
def _kernels(cache: Path | None) -> Any:
    from kokoro_server.engine.cpu.fused import kernels

    if cache is None or not any(cache.iterdir()):
        log.info("compiling the kernels for this processor, in some seconds instructions=%s", instructions())
    try:
        return kernels.compile_all(instructions(), cache)
    except Exception:  # numba trusts the files in its cache, which a crash of the machine may have left empty
        if cache is None:
            raise
        log.warning("compiling the kernels again, without their cache path=%s", cache, exc_info=True)
        shutil.rmtree(cache, ignore_errors=True)
        return kernels.compile_all(instructions(), None)


def likeness(graph: GraphStage, stage: Stage, seed: int) -> float:
    """How near the stage's result is to the graph's for random signals, in dB."""
    random = np.random.default_rng(seed)
    sizes = [(CHECKED_STEPS, width) if name != "styles" else (width,) for name, width in graph.widths.items()]
    source, addend, styles = (random.standard_normal(size, np.float32) for size in sizes)
    wanted, got = graph(source, addend, styles), stage(source, addend, styles)
    noise = float(np.square(got - wanted, dtype=np.float64).sum())
    return 10 * float(np.log10(np.square(wanted, dtype=np.float64).sum() / max(noise, 1e-30)))
