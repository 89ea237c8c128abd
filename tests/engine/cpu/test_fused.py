"""The fused kernels do what numpy says, on the processor that the tests run on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from kokoro_server.engine.cpu import decode
from kokoro_server.engine.cpu.fused import kernels, tile
from kokoro_server.engine.cpu.fused.kernels import Kernels
from kokoro_server.engine.cpu.fused.stage import Convolution, FusedStage, FusedUpsampling, Team, block_steps
from kokoro_server.engine.cpu.fused.weights import BLOCKS, CONVOLUTIONS, UPSAMPLING, ConvolutionWeights, load, save
from kokoro_server.engine.cpu.instructions import Instructions, _darwin_flags, classify, instructions
from kokoro_server.engine.cpu.numerics import EPSILON, SNAKE_TURNS, Moments
from kokoro_server.engine.cpu.quantization import GROUP_QUADS, quantize_in_groups
from kokoro_server.observability.conditions import Condition, Reason

Signal = NDArray[np.float32]
needs_kernels = pytest.mark.skipif(not instructions().has_kernels, reason="no kernels for this processor")

CHANNELS = 64


def weights(random: np.random.Generator, taps: int, dilation: int, in_groups: bool) -> ConvolutionWeights:
    """Random ones, whose groups keep to their limit if asked for; the norm's scales and shifts are the first styles."""
    depth = taps * CHANNELS
    matrix = random.integers(-127, 128, (depth, CHANNELS)).astype(np.int8)
    if in_groups:
        matrix, _ = quantize_in_groups(matrix.astype(np.float64), GROUP_QUADS)
    return ConvolutionWeights(
        matrix=matrix,
        scales=random.uniform(0.5, 1.5, CHANNELS).astype(np.float32) / np.float32(matrix.std() * np.sqrt(depth)),
        bias=random.standard_normal(CHANNELS, np.float32) / 10,
        shrink=random.uniform(0.5, 2, CHANNELS).astype(np.float32),
        geometry=np.array([taps, dilation, (taps - 1) * dilation // 2, 0, CHANNELS]),
    )


def convolved(x: Signal, given: ConvolutionWeights, styles: Signal) -> NDArray[np.float64]:
    """The norm, the snake and the convolution, in double precision."""
    taps, dilation, padding, *_ = (int(each) for each in given.geometry)
    wide = x.astype(np.float64)
    normed = (wide - wide.mean(0)) / np.sqrt(wide.var(0) + EPSILON) * styles[:CHANNELS] + styles[CHANNELS:]
    half_turns = normed * SNAKE_TURNS
    activated = half_turns + np.sin(np.pi * half_turns) ** 2 / np.pi
    padded = np.pad(activated * given.shrink, ((padding, padding), (0, 0)))
    matrix = (given.matrix * given.scales.astype(np.float64)).reshape(taps, CHANNELS, CHANNELS)
    steps = len(x)
    return sum(padded[tap * dilation :][:steps] @ matrix[tap] for tap in range(taps)) + given.bias


def decibels(wanted: NDArray[np.float64], got: NDArray[np.float32]) -> float:
    return float(10 * np.log10(np.square(wanted).sum() / max(np.square(got - wanted).sum(), 1e-30)))


def moments(x: Signal) -> NDArray[np.float64]:
    return np.stack([x.mean(0, dtype=np.float64), np.square(x, dtype=np.float64).mean(0)])


@needs_kernels
@pytest.mark.parametrize(("taps", "dilation"), [(3, 1), (7, 3), (11, 5)])
@pytest.mark.parametrize("steps", [1, 5, 191, 193, 700])
def test_a_convolution_is_what_double_precision_gives(compiled: Kernels, taps: int, dilation: int, steps: int) -> None:
    random = np.random.default_rng(steps)
    given, team = weights(random, taps, dilation, bool(compiled.shape.widening)), Team(2)
    x, base = (random.standard_normal((steps, CHANNELS), np.float32) for _ in range(2))
    styles = random.standard_normal(2 * CHANNELS, np.float32)
    y = np.empty_like(x)
    found = Convolution(given, compiled)(x, moments(x), styles, base, y, team)
    assert decibels(convolved(x, given, styles) + base, y) > 30
    assert found == pytest.approx(moments(y), rel=1e-4, abs=1e-5)


@needs_kernels
def test_a_stage_is_its_blocks_in_double_precision_whatever_the_number_of_threads(compiled: Kernels) -> None:
    random = np.random.default_rng(0)
    names = [f"{block}.{convolution}" for block in BLOCKS[0] for convolution in CONVOLUTIONS]
    in_groups = bool(compiled.shape.widening)
    given = {name: weights(random, 3 + 4 * (index % 3), 1 + index % 3, in_groups) for index, name in enumerate(names)}
    source, addend = (random.standard_normal((500, CHANNELS), np.float32) for _ in range(2))
    styles = random.standard_normal(2 * CHANNELS, np.float32)

    def block(name: str, x: Signal) -> Signal:
        for first, second in zip(CONVOLUTIONS[::2], CONVOLUTIONS[1::2], strict=True):
            hidden = convolved(x, given[f"{name}.{first}"], styles).astype(np.float32)
            x = (x + convolved(hidden, given[f"{name}.{second}"], styles)).astype(np.float32)
        return x

    noise, *others = BLOCKS[0]
    x = block(noise, source) + addend
    mean = np.mean([block(name, x) for name in others], 0, np.float64)
    for threads in (1, 2, 5):
        got = FusedStage(0, given, 0.1, compiled, Team(threads))(source, addend, styles)
        assert decibels(np.where(mean > 0, mean, 0.1 * mean), got) > 20


def test_stages_side_by_side_share_the_threads_and_not_the_parts() -> None:
    team, parts, threads = Team(6), list[tuple[int, int, int]](), set[int]()

    def work(part: int, begin: int, end: int) -> None:
        parts.append((part, begin, end))
        threads.add(threading.get_ident())

    wanted = [(part, 2 * part, 2 * part + 2) for part in range(6)]
    with team.at_work(), team.at_work(), team.at_work():
        team.share(12, work)
    assert sorted(parts) == wanted
    assert len(threads) <= 2
    parts.clear()
    team.share(12, work)
    assert sorted(parts) == wanted
    team.share(1, work)
    assert parts[6:] == [(5, 0, 1)]


@needs_kernels
@pytest.mark.parametrize(("begin", "end"), [(0, 700), (400, 1100), (900, 1500)])
def test_a_window_with_the_moments_of_the_whole_is_that_part_of_the_whole(
    compiled: Kernels, begin: int, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    names = [f"{block}.{convolution}" for block in BLOCKS[0] for convolution in CONVOLUTIONS]
    given = {name: weights(random, 3, 1 + index % 3, bool(compiled.shape.widening)) for index, name in enumerate(names)}
    source, addend = (random.standard_normal((1500, CHANNELS), np.float32) for _ in range(2))
    styles = random.standard_normal(2 * CHANNELS, np.float32)
    stage, seen, convolve = FusedStage(0, given, 0.1, compiled, Team(2)), [], Convolution.__call__

    def recorded(self: Convolution, x: Signal, before: Moments, *rest: Any) -> Moments:
        seen.append(before)
        return convolve(self, x, before, *rest)

    monkeypatch.setattr(Convolution, "__call__", recorded)
    whole = stage(source, addend, styles)
    known = [seen[at : at + len(CONVOLUTIONS)] for at in range(0, len(seen), len(CONVOLUTIONS))]
    assert np.array_equal(stage(source, addend, styles, known), whole)
    low, high = max(0, begin - stage.reach), min(len(source), end + stage.reach)
    window = stage(source[low:high], addend[low:high], styles, known)[begin - low : end - low]
    assert decibels(whole[begin:end].astype(np.float64), window) > 20


@needs_kernels
@pytest.mark.parametrize("steps", [1, 2, 191, 192, 193, 700])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_upsampling_between_the_stages_has_sixteen_bits(compiled: Kernels, steps: int, threads: int) -> None:
    if compiled.shape.widening:
        pytest.skip("onnxruntime makes it: sums in 16 bits take weights that are too coarse")
    random = np.random.default_rng(steps)
    taps, times, channels = 2, 4, 32
    given = weights(random, taps, 1, False)._replace(
        matrix=random.integers(-127, 128, (taps * CHANNELS, times * channels)).astype(np.int8),
        scales=random.uniform(0.5, 1.5, times * channels).astype(np.float32),
        bias=random.standard_normal(times * channels, np.float32) * 100,
        geometry=np.array([taps, 1, 1, 0, 0]),
    )
    x = random.standard_normal((steps, CHANNELS), np.float32)
    padded = np.pad(x * given.shrink.astype(np.float64), ((1, 1), (0, 0)))
    matrix = (given.matrix * given.scales.astype(np.float64)).reshape(taps, CHANNELS, -1)
    made = sum(padded[tap:][: steps + 1] @ matrix[tap] for tap in range(taps)) + given.bias
    kept = made.reshape(-1, channels)[times // 2 : -times // 2]
    wanted = np.concatenate([kept[1:2], kept])
    got = FusedUpsampling(given, channels, compiled, Team(threads))(x)
    assert got.shape == (steps * times + 1, channels)
    assert decibels(wanted, got) > 70


def test_blocks_are_as_many_for_every_thread() -> None:
    for steps in (1, 7, 192, 193, 1000, 4800):
        for threads in (1, 2, 3, 16):
            block = block_steps(steps, threads, 4)
            assert block <= kernels.MAX_BLOCK
            assert block % 4 == 0
            assert -(-steps // block) <= threads * -(-steps // (threads * kernels.MAX_BLOCK))


def test_weights_come_back_from_their_file(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    names = [f"{block}.{convolution}" for blocks in BLOCKS for block in blocks for convolution in CONVOLUTIONS]
    names.append(UPSAMPLING)
    written: Mapping[str, ConvolutionWeights] = {name: weights(random, 3, 1, False) for name in names}
    save(tmp_path / "kernels.npz", written, np.array([0.1, 0.01], np.float32))
    read, slopes = load(tmp_path / "kernels.npz")
    assert slopes.tolist() == pytest.approx([0.1, 0.01])
    assert read.keys() == written.keys()
    for name, each in written.items():
        assert all(np.array_equal(one, other) for one, other in zip(each, read[name], strict=True))


def test_processors_are_told_apart() -> None:
    avx512 = {"avx2", "avx512bw", "avx512vl", "avx512_vnni", "avx_vnni"}
    assert classify("x86_64", avx512) is Instructions.AVX512_VNNI
    assert classify("x86_64", avx512 | {"amx_tile", "amx_bf16"}) is Instructions.AVX512_VNNI
    assert classify("x86_64", avx512 | {"amx_tile", "amx_int8"}) is Instructions.AMX_INT8
    assert classify("amd64", {"avx2", "avx_vnni"}) is Instructions.AVX_VNNI
    assert classify("x86_64", {"avx2", "fma", "avx512f", "avx512bw", "avx512vl"}) is Instructions.AVX512_BW
    assert classify("x86_64", {"avx2", "fma", "avx512f"}) is Instructions.AVX2
    assert classify("x86_64", {"avx2", "fma", "avx"}) is Instructions.AVX2
    assert classify("x86_64", {"avx", "sse4_1"}) is Instructions.OTHER
    assert classify("arm64", {"asimddp", "i8mm"}) is Instructions.ARM_I8MM
    assert classify("aarch64", {"asimd", "asimddp"}) is Instructions.ARM_DOTPROD
    assert classify("aarch64", {"asimd"}) is Instructions.OTHER


@pytest.mark.parametrize("allowed", [True, False])
def test_matrices_are_used_where_the_system_lets_us(allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    flags = {"avx2", "avx512bw", "avx512vl", "avx512_vnni", "amx_tile", "amx_int8"}
    monkeypatch.setattr("kokoro_server.engine.cpu.instructions.flags", lambda: frozenset(flags))
    monkeypatch.setattr("kokoro_server.engine.cpu.instructions._may_use_matrices", lambda: allowed)
    which = instructions.__wrapped__()
    assert which is (Instructions.AMX_INT8 if allowed else Instructions.AVX512_VNNI)
    assert which.build is Instructions.AVX512_VNNI  # an image serves both


def test_a_macs_processor_says_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def sysctl(command: list[str], **_: object) -> SimpleNamespace:
        return SimpleNamespace(stdout="1\n" if command[-1].endswith(("FEAT_DotProd", "FEAT_I8MM")) else "0\n")

    monkeypatch.setattr("subprocess.run", sysctl)
    assert classify("arm64", _darwin_flags()) is Instructions.ARM_I8MM
    monkeypatch.setattr("subprocess.run", Mock(side_effect=FileNotFoundError))
    assert classify("arm64", _darwin_flags()) is Instructions.OTHER


@needs_kernels
@pytest.mark.parametrize("trouble", ["no numba", "wrong results", "wrong upsampling", "no numbers", "no code"])
def test_without_trustworthy_kernels_the_graphs_run_and_it_is_said_why(
    trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Graph:
        widths = {"source0": CHANNELS, "addend0": CHANNELS, "styles": 2 * CHANNELS}  # noqa: RUF012

        def __call__(self, source: Signal, addend: Signal, styles: Signal) -> Signal:
            return source + addend

    def wrong(source: Signal, addend: Signal, styles: Signal) -> Signal:
        return source - addend

    def failing(*_: object) -> list[Any]:
        raise RuntimeError("LLVM ERROR: unknown instruction")

    def right(source: Signal, addend: Signal, styles: Signal) -> Signal:
        return source + addend

    def nan(source: Signal, addend: Signal, styles: Signal) -> Signal:
        return source * np.float32(np.nan)

    stages = {"no numba": failing, "no code": failing, "wrong results": lambda *_: [right, wrong]}
    stages["wrong upsampling"] = lambda *_: [right, right, wrong]
    stages["no numbers"] = lambda *_: [right, nan]
    monkeypatch.setattr(decode, "_compiled", stages[trouble])
    if trouble == "no numba":
        monkeypatch.setattr(decode.importlib.util, "find_spec", lambda name: None)
    condition = Condition(Reason.CPU_KERNELS)
    assert decode._fused_stages(tmp_path, 1, [Graph()] * 3, condition) is None  # type: ignore[list-item]
    assert condition.current is not None
    expected = {"no numba": "pip install", "no code": "unknown instruction"}.get(trouble, "dB")
    assert expected in condition.current.message


COMPILE = """
import sys
from pathlib import Path
from kokoro_server.engine.cpu.fused.kernels import compile_all
from kokoro_server.engine.cpu.instructions import instructions
print(sum(sum(each.stats.cache_hits.values()) for each in compile_all(instructions(), Path(sys.argv[1]))[1:]))
"""


def compile_in_a_process(cache: Path, **environment: str) -> int:
    """The number of kernels that came from the cache."""
    command = [sys.executable, "-c", COMPILE, str(cache)]
    run = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


@needs_kernels
def test_a_second_start_compiles_nothing_and_writes_nothing(tmp_path: Path) -> None:
    assert compile_in_a_process(tmp_path) == 0
    files = sorted(tmp_path.rglob("*"))
    assert compile_in_a_process(tmp_path) == 5
    assert sorted(tmp_path.rglob("*")) == files


@needs_kernels
def test_a_processor_whose_name_llvm_does_not_know_gets_kernels(tmp_path: Path) -> None:
    """LLVM ends the process over an instruction that it does not expect there."""
    compile_in_a_process(tmp_path, NUMBA_CPU_NAME="generic")


@needs_kernels
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_damaged_cache_of_kernels_is_made_again(ending: str, tmp_path: Path) -> None:
    cache = decode._kernel_cache(tmp_path)
    assert cache is not None
    decode._kernels(cache)
    for path in cache.rglob(f"*.{ending}"):
        path.write_bytes(b"")
    decode._kernels.cache_clear()  # as in the next process
    assert decode._kernels(cache).shape is tile.SHAPES[instructions()]
    assert not cache.exists()


def test_a_folder_that_cannot_be_written_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "kernels").touch()
    assert decode._kernel_cache(tmp_path) is None
