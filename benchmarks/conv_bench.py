"""The generator's convolutions on one NVIDIA GPU, each by every kernel that can do it, in turns: microseconds, TFLOP/s.

    python -m benchmarks.conv_bench --rows 64 --seconds 4.65 --out benchmarks/results/conv_cuda.json

With the snake before it, as the engine runs them. Random weights of the real size.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch

from benchmarks import common
from kokoro_server.engine.cuda.kernels.card import Card
from kokoro_server.engine.cuda.kernels.eight_bits import ByteConv
from kokoro_server.engine.cuda.kernels.ops import CudaOps
from kokoro_server.engine.model import reference
from kokoro_server.engine.model.layers import AdaINParams
from kokoro_server.engine.model.lengths import DeviceLengths, Placement

GPU = torch.device("cuda", 0)
FRAMES_PER_SECOND = 40
STEPS = {256: (20, 0), 128: (120, 1)}  # of a signal with so many channels, for each frame, and how many more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.65)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--names", nargs="*", default=[f"resblocks.{i}.convs1.{j}" for i in range(6) for j in (0, 2)])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    model, found = reference.blank(), list[dict[str, Any]]()
    with torch.inference_mode():
        for name in options.names:
            module = model.decoder.generator.get_submodule(name)
            found.append(common.show("convolution", {"name": name} | measure(module, options)))
    if options.out:
        common.write(options.out, {"benchmark": "convolutions on CUDA", "rows": options.rows, "found": found})


def measure(module: Any, options: argparse.Namespace) -> dict[str, Any]:
    card, placement, channels = Card.of(GPU), Placement(GPU, torch.float16), module.in_channels
    factor, extra = STEPS[channels]
    size = int(options.seconds * FRAMES_PER_SECOND) * factor + extra
    lengths = DeviceLengths(torch.full((options.rows,), size, device=GPU), size, placement)
    x, base = torch.randn(2, options.rows, size, channels, device=GPU).half()
    style = AdaINParams(*torch.randn(2, options.rows, 1, channels, device=GPU))
    gain = torch.ones(channels)
    runs, kept = {}, []  # what a recording reads must stay
    for kind in ("fp16", "fp16 halo", *(("int8", "int8 halo") if ByteConv.takes(module) else ())):
        ops = CudaOps(card, in_bytes="int8" in kind, halo="halo" in kind)
        conv = ops.snake_conv(module, placement, gain)
        signal = ops.instance_norm(x, lengths)  # whose statistics are computed once

        def once(conv: Any = conv, signal: Any = signal) -> None:
            conv.of_snake(signal, style, lengths, base)

        runs[kind] = recorded(once)
        kept.append(once)
    times: dict[str, list[float]] = {kind: [] for kind in runs}
    for _ in range(options.rounds):
        for kind, graph in runs.items():
            times[kind].append(timed(graph))
    flops = 2 * options.rows * size * channels * module.out_channels * module.kernel_size[0]
    medians = {kind: statistics.median(taken) for kind, taken in times.items()}
    return {
        "channels": channels,
        "taps": module.kernel_size[0],
        "dilation": module.dilation[0],
        "us": {kind: round(1e6 * median) for kind, median in medians.items()},
        "tflops": {kind: round(flops / median / 1e12) for kind, median in medians.items()},
    }


def recorded(once: Any) -> torch.cuda.CUDAGraph:
    once()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        once()
    return graph


def timed(graph: torch.cuda.CUDAGraph, times: int = 10) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    begin.record()
    for _ in range(times):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / times / 1e3


if __name__ == "__main__":
    main()
