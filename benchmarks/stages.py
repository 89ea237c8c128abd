"""Where the time of a batch goes on a GPU: by stage, each replayed from a graph of its own, and by kernel."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from kokoro_server.engine.cuda import output_buffer
from kokoro_server.engine.cuda.engine import CudaEngine
from kokoro_server.engine.cuda.kernels.ops import gaussian_noise
from kokoro_server.engine.cuda.shapes import FRAMES, ROWS, TOKENS
from kokoro_server.engine.model.kokoro import HALF_STYLE, TextFeatures
from kokoro_server.engine.model.lengths import DeviceLengths
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Row

REPLAYS = 10


@torch.inference_mode()
def times(engine: CudaEngine, row: Row, count: int) -> dict[str, Any]:
    """Milliseconds of each stage for `count` rows alike, and of the two steps that the stages make up."""
    frames = int(engine.synthesize([row] * count)[0].durations.sum())  # leaves the rows in the static buffers
    rows, tokens, frames = ROWS.round_up(count), TOKENS.round_up(len(row.tokens) + 2), FRAMES.round_up(frames)
    with engine._on_stream():
        buffer = engine._run_decode(rows, frames)
        steps = {
            "text": replayed(lambda: engine._text_step(rows, tokens)),
            "decode": replayed(lambda: engine._decode_step(rows, frames, buffer)),
        }
        with engine.fp32_mode():
            text = _text_stages(engine, rows, tokens)
            decode = _decode_stages(engine, rows, frames)
    return {"rows": count, "steps_ms": steps, "text_ms": text, "decode_ms": decode}


def replayed(work: Callable[[], Any]) -> float:
    """Milliseconds on the device, in the median."""
    for _ in range(2):
        work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        work()
    taken: list[float] = []
    for _ in range(REPLAYS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        taken.append(start.elapsed_time(end))
    return round(statistics.median(taken), 3)


def _text_stages(engine: CudaEngine, rows: int, tokens: int) -> dict[str, float]:
    model, io = engine.model, engine._io
    lengths = DeviceLengths(io.counts[:rows], tokens, model.predictor_placement)
    ids, predictor_style = io.tokens[:rows, :tokens].contiguous(), io.style[:rows, HALF_STYLE:]
    encoded = model.bert_encoder(model.albert(ids, lengths))
    prosody = model.duration_encoder(encoded, predictor_style, model.projections(predictor_style), lengths)
    return {
        "albert": replayed(lambda: model.bert_encoder(model.albert(ids, lengths))),
        "duration_encoder": replayed(
            lambda: model.duration_encoder(encoded, predictor_style, model.projections(predictor_style), lengths)
        ),
        "duration_predictor": replayed(lambda: model.duration_predictor(prosody, io.speed[:rows], lengths)),
        "text_encoder": replayed(lambda: model.text_encoder(ids, lengths)),
    }


def _decode_stages(engine: CudaEngine, rows: int, frames: int) -> dict[str, float]:
    model, io, decoder = engine.model, engine._io, engine.model.decoder
    lengths = DeviceLengths(io.frames[:rows], frames, model.predictor_placement)
    text = TextFeatures(io.durations[:rows], engine._for_prosody[:rows], engine._for_decoder[:rows])
    features = text.aligned(io.style[:rows], lengths)
    prosody = model.prosody(features)
    samples = frames * SAMPLES_PER_FRAME
    noise = gaussian_noise(io.seeds[:rows], samples)
    times = {
        "align": replayed(lambda: text.aligned(io.style[:rows], lengths)),
        "f0_and_energy": replayed(lambda: model.prosody(features)),
        "noise": replayed(lambda: gaussian_noise(io.seeds[:rows], samples)),
    }
    given: list[Any] = []

    def stop_here(x: Tensor, *others: Any) -> Tensor:
        given[:] = x, *others
        return x

    generator = decoder.generator
    with patch.object(decoder, "generator", stop_here):
        times["decoder"] = replayed(lambda: model.audio(features, prosody, noise))
        model.audio(features, prosody, noise)
    x, f0, styles, noise, rate = given
    spectrum = generator.stft(generator.source(f0, noise), rate)
    times["source_and_spectrum"] = replayed(lambda: generator.stft(generator.source(f0, noise), rate))
    x = generator.ops.leaky_mean([x], 0.1, rate)
    for number, stage in enumerate(generator.stages, 1):
        rate = stage.lengths(rate)

        def upsampled(stage: Any = stage, x: Tensor = x, rate: Any = rate) -> Tensor:
            return generator.ops.leaky_mean(stage(x, spectrum, styles, rate), 0.1, rate)

        times[f"generator_stage_{number}"] = replayed(upsampled)
        x = upsampled()
    times["last_convolution_and_inverse"] = replayed(lambda: generator.istft(generator.post(x, rate), rate))
    audio, buffer = generator.istft(generator.post(x, rate), rate), engine._run_decode(rows, frames)
    times["output_buffer"] = replayed(lambda: output_buffer.pack(buffer, audio, io.frames[:rows]))
    return times


@torch.inference_mode()
def kernels(engine: CudaEngine, row: Row, count: int) -> dict[str, Any]:
    """The device's time by kernel, the costliest first: name, launches, milliseconds."""
    frames = int(engine.synthesize([row] * count)[0].durations.sum())
    with engine._on_stream(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        engine._run_text(ROWS.round_up(count), TOKENS.round_up(len(row.tokens) + 2))
        engine._run_decode(ROWS.round_up(count), FRAMES.round_up(frames))
        torch.cuda.synchronize()
    costs = sorted(profile.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
    return {
        "rows": count,
        "launches": sum(kernel.count for kernel in costs),
        "device_ms": round(sum(kernel.self_device_time_total for kernel in costs) / 1e3, 2),
        "kernels": [[cost.key[:60], cost.count, round(cost.self_device_time_total / 1e3, 3)] for cost in costs[:16]],
    }
