"""Runs the decoder: as one graph, or in the parts of `stages`, three of which our own kernels run if possible."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from kokoro_server.engine.cpu import moments
from kokoro_server.engine.cpu.early import Window
from kokoro_server.engine.cpu.fused import weights as fused_weights
from kokoro_server.engine.cpu.instructions import instructions
from kokoro_server.engine.cpu.numerics import Signal
from kokoro_server.engine.cpu.sessions import session, shrinking
from kokoro_server.engine.protocol import STYLE_DIM
from kokoro_server.observability.conditions import Condition

if TYPE_CHECKING:
    from kokoro_server.engine.cpu.fused.stage import FusedStage

log = logging.getLogger(__name__)

Samples = NDArray[np.float32]

FRAME_STEPS, STEP_SAMPLES = 120, 5  # steps of the last stage in a frame, samples in a step
FRAME_SAMPLES = FRAME_STEPS * STEP_SAMPLES
UPSAMPLING = 6  # steps of the last stage in one of the first
# On either side, steps that other steps look at, at most: by the inverse STFT and the convolution before it, and by the
# upsampling between the stages.
AFTER_REACH, BETWEEN_REACH = 8, 3
SEAM = 240  # samples over which the beginning fades into the whole
FADE_IN = (0.5 - 0.5 * np.cos(np.pi * (np.arange(SEAM) + 0.5) / SEAM)).astype(np.float32)
CHECKED_STEPS = 300
LONG_FRAMES = 480  # after a row longer than this (12 s), the system gets the arena of the whole graph back
# Two correct ways to round to bytes are 26 to 28 dB apart here. A wrong result leaves 11 dB at most.
MIN_LIKENESS = 15.0  # dB
MISMATCH = "the fast kernels give other results than onnxruntime on this processor; please report it"
NO_NUMBA = "numba is not installed, so speech takes about twice as long; pip install kokoro-server"


class Decode(Protocol):
    """From the decode graph's inputs to audio."""

    precision: str
    kernels: str  # what multiplies: onnxruntime, or the class of instructions of our own kernels

    def __call__(self, inputs: Mapping[str, Any]) -> Samples: ...

    @property
    def has_beginnings(self) -> bool: ...

    def in_parts(self, inputs: Mapping[str, Any], early: Sequence[Window]) -> Iterator[Samples]:
        """All audio that is made so far, again and again: to the end of each window, and then the whole.

        The windows adjoin; before the first one there is silence. Only if it `has_beginnings`.
        """
        ...


class WholeDecode:
    kernels = "onnxruntime"

    def __init__(self, folder: Path, threads: int) -> None:
        self._graph, self._shrinking = session(folder / "decode.onnx", threads, arena=True), shrinking()
        self.precision = _precision(self._graph)

    def __call__(self, inputs: Mapping[str, Any]) -> Samples:
        options = self._shrinking if inputs["prosody"].shape[1] > LONG_FRAMES else None
        audio: Samples = self._graph.run(None, inputs, options)[0]
        return np.array(audio[0])

    has_beginnings = False

    def in_parts(self, *_: object) -> Iterator[Samples]:
        raise NotImplementedError


class StagedDecode:
    """Runs the parts in order. `condition` says why the kernels are not used, where they should be."""

    def __init__(self, folder: Path, threads: int, condition: Condition, use_kernels: bool) -> None:
        self._before, self._after = (session(folder / f"{name}.onnx", threads) for name in ("before", "after"))
        self.precision = _precision(self._before)
        self.kernels = WholeDecode.kernels
        graphs = [GraphPart(name, folder, threads) for name in ("stage0", "stage1", "between")]
        self._parts: list[Any] = [*graphs]
        self._beginnings: WindowedDecode | None = None
        wanted = use_kernels and (folder / fused_weights.FILE).exists()
        if wanted and (fused := _fused_stages(folder, threads, graphs, condition)):
            self._parts[: len(fused)], self.kernels = fused, instructions().value
            if (table := folder / moments.TABLE.name).exists():
                self._beginnings = WindowedDecode(
                    moments.MomentPredictor(table), fused[:2], self._parts[2], self._finished
                )

    def __call__(self, inputs: Mapping[str, Any]) -> Samples:
        return self._completed(self._begun(inputs))

    @property
    def has_beginnings(self) -> bool:
        return self._beginnings is not None

    def in_parts(self, inputs: Mapping[str, Any], early: Sequence[Window]) -> Iterator[Samples]:
        assert self._beginnings
        begun = self._begun(inputs)
        window = self._beginnings.of(begun, inputs["style"][0, : STYLE_DIM // 2])
        audio = np.zeros(early[0][0] * FRAME_SAMPLES, np.float32)
        for begin, end in early:
            audio = np.concatenate([audio, window(begin, end)])
            # What overlaps with the whole is kept until that is there.
            yield audio[: end * FRAME_SAMPLES - (SEAM if end == early[-1][1] else 0)]
        whole = self._completed(begun)
        seam = slice(len(audio) - SEAM, len(audio))
        audio[seam] += (whole[seam] - audio[seam]) * FADE_IN
        yield np.concatenate([audio, whole[len(audio) :]])

    def _begun(self, inputs: Mapping[str, Any]) -> Begun:
        return Begun(*(each[0] for each in self._before.run(None, inputs)))

    def _completed(self, begun: Begun) -> Samples:
        (stage0, stage1, upsampled), styles = self._parts, begun.styles[0]
        addend1 = upsampled(stage0(begun.source0, begun.addend0, styles))
        return self._finished(stage1(begun.source1, addend1, styles))

    def _finished(self, result1: Signal) -> Samples:
        audio: Samples = self._after.run(None, {"result1": result1[None]})[0]
        return np.array(audio[0])


class Begun(NamedTuple):
    """What comes before the stages."""

    styles: Signal
    source0: Signal
    source1: Signal
    addend0: Signal


class WindowedDecode:
    """Makes the first part of a row's audio from windows of its signals."""

    def __init__(
        self,
        predict: moments.MomentPredictor,
        stages: Sequence[FusedStage],
        upsampled: Callable[[Signal], Signal],
        finished: Callable[[Signal], Samples],
    ) -> None:
        self._predict, self._stages, self._upsampled, self._finished = predict, stages, upsampled, finished

    def of(self, begun: Begun, style: Samples) -> Callable[[int, int], Samples]:
        """From the first frame and that after the last to their audio."""
        styles, source0, source1, addend0 = begun
        first, last = self._stages
        moments0, moments1 = self._predict(moments.features(source0, addend0, source1, style, first.measure))

        def audio(begin: int, end: int) -> Samples:
            after = _wider((begin * FRAME_STEPS, end * FRAME_STEPS + 1), AFTER_REACH, len(source1))
            stage1 = _wider(after, last.reach, len(source1))
            between = _wider((stage1[0] // UPSAMPLING, -(-stage1[1] // UPSAMPLING)), BETWEEN_REACH, len(source0))
            stage0 = _wider(between, first.reach, len(source0))
            result0 = first(source0[slice(*stage0)], addend0[slice(*stage0)], styles[0], moments0)
            addend1 = self._upsampled(_part(result0, stage0[0], between))
            addend1 = _part(addend1, between[0] * UPSAMPLING, stage1)
            result1 = last(source1[slice(*stage1)], addend1, styles[0], moments1)
            made = self._finished(_part(result1, stage1[0], after))
            return made[(begin * FRAME_STEPS - after[0]) * STEP_SAMPLES :][: (end - begin) * FRAME_SAMPLES]

        return audio


def _wider(window: Window, reach: int, length: int) -> Window:
    """The window, and up to `reach` steps more on either side, of a signal of this length."""
    return max(0, window[0] - reach), min(length, window[1] + reach)


def _part(signal: Signal, begin: int, window: Window) -> Signal:
    """The steps of a window in a signal whose first step is step `begin`."""
    return signal[window[0] - begin : window[1] - begin]


class GraphPart:
    """Runs a stage, or what is between the stages, by onnxruntime."""

    def __init__(self, name: str, folder: Path, threads: int) -> None:
        self._graph = session(folder / f"{name}.onnx", threads, arena=name != "between")
        widths = {each.name: int(each.shape[2]) for each in self._graph.get_inputs()}
        number = name[-1]
        order = ["result0"] if name == "between" else [f"source{number}", f"addend{number}", "styles"]
        self.widths = {each: widths[each] for each in order}  # of the inputs, in the order of a call

    def __call__(self, *signals: Signal) -> Signal:
        given = zip(self.widths, signals, strict=True)
        result: Signal = self._graph.run(
            None, {name: signal[None] if signal.ndim == 2 else signal[None, None] for name, signal in given}
        )[0][0]
        return result


def load(folder: Path, threads: int, condition: Condition, use_kernels: bool = True) -> Decode:
    """The decoder of a build."""
    whole = (folder / "decode.onnx").exists()
    return WholeDecode(folder, threads) if whole else StagedDecode(folder, threads, condition, use_kernels)


def _precision(graph: onnxruntime.InferenceSession) -> str:
    return str(graph.get_modelmeta().custom_metadata_map["precision"])


def _fused_stages(folder: Path, threads: int, graphs: Sequence[GraphPart], condition: Condition) -> list[Any] | None:
    """The stages by kernels, and what is between them where kernels can do it.

    None if the kernels do not compile or do not compute what the graphs do.
    """
    if importlib.util.find_spec("numba") is None:
        condition.set(NO_NUMBA)
        return None
    try:
        stages = _compiled(folder, threads)
        alike = [likeness(graph, stage, seed) for seed, (graph, stage) in enumerate(zip(graphs, stages, strict=False))]
    except Exception as error:  # numba and LLVM raise errors of their own for what they cannot compile
        log.warning("the fast kernels cannot be compiled", exc_info=True)
        condition.set(f"the fast kernels cannot be compiled ({type(error).__name__}: {error}); please report it")
        return None
    if not all(each >= MIN_LIKENESS for each in alike):  # false for NaN too
        condition.set(f"{MISMATCH} ({', '.join(f'{each:.1f}' for each in alike)} dB)")
        return None
    return stages


def _compiled(folder: Path, threads: int) -> list[Any]:
    from kokoro_server.engine.cpu.fused.stage import FusedStage, FusedUpsampling, Team

    compiled, team = _kernels(_kernel_cache(folder)), Team(threads)
    weights, slopes = fused_weights.load(folder / fused_weights.FILE)
    stages: list[Any] = [FusedStage(number, weights, slope, compiled, team) for number, slope in enumerate(slopes)]
    between = weights.get(fused_weights.UPSAMPLING)
    return [*stages, FusedUpsampling(between, stages[1].channels, compiled, team)] if between else stages


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


def likeness(graph: GraphPart, part: Callable[..., Signal], seed: int) -> float:
    """How near the part's result is to the graph's for random signals, in dB."""
    random = np.random.default_rng(seed)
    sizes = [(CHECKED_STEPS, width) if name != "styles" else (width,) for name, width in graph.widths.items()]
    signals = [random.standard_normal(size, np.float32) for size in sizes]
    wanted, got = graph(*signals), part(*signals)
    noise = float(np.square(got - wanted, dtype=np.float64).sum())
    return 10 * float(np.log10(np.square(wanted, dtype=np.float64).sum() / max(noise, 1e-30)))
