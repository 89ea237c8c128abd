"""Where the time of a batch goes on a GPU: by stage, each played from a graph of its own, and by kernel."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from kokoro_server.engine.cuda import output_buffer
from kokoro_server.engine.cuda.engine import FRAMES, ROWS, TOKENS, CudaEngine
from kokoro_server.engine.cuda.ops import draw
from kokoro_server.engine.model.kokoro import VOICE_DIM, Reading
from kokoro_server.engine.model.lengths import DeviceSpan
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Row

PLAYS = 10


@torch.inference_mode()
def times(engine: CudaEngine, row: Row, count: int) -> dict[str, Any]:
    """Milliseconds of each stage for `count` rows alike, and of the two steps that the stages make up."""
    frames = int(engine.synthesize([row] * count)[0].durations.sum())  # leaves the rows on the desk
    rows, tokens, frames = ROWS.up(count), TOKENS.up(len(row.tokens) + 2), FRAMES.up(frames)
    with engine._session():
        block = engine._speaking(rows, frames)
        steps = {
            "read": played(lambda: engine._read(rows, tokens)),
            "speak": played(lambda: engine._speak(rows, frames, block)),
        }
        with engine.arithmetic():
            reading = _reading(engine, rows, tokens)
            speaking = _speaking(engine, rows, frames)
    return {"rows": count, "steps_ms": steps, "read_ms": reading, "speak_ms": speaking}


def played(work: Callable[[], Any]) -> float:
    """Milliseconds on the device, in the median."""
    for _ in range(2):
        work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        work()
    taken: list[float] = []
    for _ in range(PLAYS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        taken.append(start.elapsed_time(end))
    return round(statistics.median(taken), 3)


def _reading(engine: CudaEngine, rows: int, tokens: int) -> dict[str, float]:
    model, desk = engine.model, engine._desk
    span = DeviceSpan(desk.counts[:rows], tokens, model.exact)
    ids, told = desk.tokens[:rows, :tokens].contiguous(), desk.style[:rows, VOICE_DIM:]
    narrow = model.narrow(model.albert(ids, span))
    prosody = model.duration_encoder(narrow, told, model.table(told), span)
    return {
        "albert": played(lambda: model.narrow(model.albert(ids, span))),
        "duration_encoder": played(lambda: model.duration_encoder(narrow, told, model.table(told), span)),
        "duration_predictor": played(lambda: model.duration_predictor(prosody, desk.speed[:rows], span)),
        "text_encoder": played(lambda: model.text_encoder(ids, span)),
    }


def _speaking(engine: CudaEngine, rows: int, frames: int) -> dict[str, float]:
    model, desk, decoder = engine.model, engine._desk, engine.model.decoder
    span = DeviceSpan(desk.frames[:rows], frames, model.exact)
    reading = Reading(desk.durations[:rows], engine._prosody[:rows], engine._text[:rows])
    plan = reading.aligned(desk.style[:rows], span)
    curves = model.curves(plan)
    samples = frames * SAMPLES_PER_FRAME
    noise = draw(desk.seeds[:rows], samples)
    found = {
        "align": played(lambda: reading.aligned(desk.style[:rows], span)),
        "f0_and_energy": played(lambda: model.curves(plan)),
        "noise": played(lambda: draw(desk.seeds[:rows], samples)),
    }
    given: list[Any] = []

    def stop_here(x: Tensor, *others: Any) -> Tensor:
        given[:] = x, *others
        return x

    generator = decoder.generator
    with patch.object(decoder, "generator", stop_here):
        found["decoder"] = played(lambda: model.audio(plan, curves, noise))
        model.audio(plan, curves, noise)
    x, f0, styles, noise, rate = given
    spectrum = generator.spectrum(generator.source(f0, noise), rate)
    found["source_and_spectrum"] = played(lambda: generator.spectrum(generator.source(f0, noise), rate))
    x = generator.kernels.leaky([x], 0.1, rate)
    for number, stage in enumerate(generator.stages, 1):
        rate = stage.span(rate)

        def upsampled(stage: Any = stage, x: Tensor = x, rate: Any = rate) -> Tensor:
            return generator.kernels.leaky(stage(x, spectrum, styles, rate), 0.1, rate)

        found[f"generator_stage_{number}"] = played(upsampled)
        x = upsampled()
    found["last_convolution_and_inverse"] = played(lambda: generator.inverse(generator.post(x, rate), rate))
    audio, block = generator.inverse(generator.post(x, rate), rate), engine._speaking(rows, frames)
    found["outbox"] = played(lambda: output_buffer.fill(block, audio, desk.frames[:rows]))
    return found


@torch.inference_mode()
def kernels(engine: CudaEngine, row: Row, count: int) -> dict[str, Any]:
    """The device's time by kernel, the costliest first: name, launches, milliseconds."""
    frames = int(engine.synthesize([row] * count)[0].durations.sum())
    with engine._session(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        engine._reading(ROWS.up(count), TOKENS.up(len(row.tokens) + 2))
        engine._speaking(ROWS.up(count), FRAMES.up(frames))
        torch.cuda.synchronize()
    costs = sorted(seen.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
    return {
        "rows": count,
        "launches": sum(kernel.count for kernel in costs),
        "device_ms": round(sum(kernel.self_device_time_total for kernel in costs) / 1e3, 2),
        "kernels": [[cost.key[:60], cost.count, round(cost.self_device_time_total / 1e3, 3)] for cost in costs[:16]],
    }
