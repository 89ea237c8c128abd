"""A real GPU on which something goes wrong, or which other programs use."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
pytest.importorskip("triton")

from kokoro_server.engine.cuda.engine import MAX_PADDED_FRAMES, CudaEngine  # noqa: E402
from kokoro_server.engine.cuda.graph_cache import BACKOFF  # noqa: E402
from kokoro_server.engine.torch_engine import TorchEngine, fp32_precision, set_fp32_precision  # noqa: E402
from tests.gpu.test_cuda_engine import DEVICE, row, snr  # noqa: E402

BALLAST = """\
import sys, torch
free, _ = torch.cuda.mem_get_info(0)
kept = torch.empty(free - int(sys.argv[1]), dtype=torch.uint8, device="cuda:0")
print("ready", flush=True)
sys.stdin.read()
"""
# In a process of its own: what this one has in its cache counts as free.
SQUEEZED = """\
import numpy as np, torch
from kokoro_server.engine.cuda.engine import CudaEngine
from kokoro_server.engine.model import reference
from kokoro_server.errors import SetupError
from tests.gpu.test_cuda_engine import DEVICE, row
try:
    engine = CudaEngine(reference.blank(), DEVICE)
    print("frames:", engine.limits.max_padded_frames, bool(engine.conditions[1].current))
    engine.warmup()
    print("finite:", all(np.isfinite(one.audio).all() for one in engine.synthesize([row(n, 40) for n in range(8)])))
except SetupError as error:
    print("ended:", error.message)
"""
POISONED = """\
import torch
from kokoro_server.engine.devices import kernel_trouble
from kokoro_server.errors import SetupError
torch.zeros(4, device="cuda")[torch.tensor([99], device="cuda")]
try:
    print("fell back:", kernel_trouble(torch.device("cuda", 0)))
except SetupError as error:
    print("ended:", error.message)
"""


@contextmanager
def other_program(leaves: int) -> Iterator[None]:
    """Another process that leaves this many bytes of the GPU's memory free."""
    torch.cuda.empty_cache()
    with subprocess.Popen(
        [sys.executable, "-c", BALLAST, str(leaves)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.stdin.close()
            process.wait(60)


def test_a_capture_that_fails_is_made_later(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = CudaEngine(model, DEVICE)
    now, failing = 0.0, True
    monkeypatch.setattr(engine._graphs, "_clock", lambda: now)
    step = engine._text_step

    def disturbed(rows: int, tokens: int) -> None:
        step(rows, tokens)
        if failing and torch.cuda.is_current_stream_capturing():
            torch.cuda.current_stream().synchronize()  # not allowed: CUDA gives the capture up

    monkeypatch.setattr(engine, "_text_step", disturbed)
    rows = [row(seed, 20) for seed in range(3)]
    wanted = engine.synthesize(rows)
    condition = engine.conditions[0]
    for _ in range(4):  # no graph of the text step, and it works all the same
        for before, after in zip(wanted, engine.synthesize(rows), strict=True):
            assert np.array_equal(before.durations, after.durations)
            assert snr(before.audio, after.audio) > 60
    assert condition.current
    captured = len(engine._graphs)

    failing, now = False, BACKOFF.first + 1
    for _ in range(3):
        for before, after in zip(wanted, engine.synthesize(rows), strict=True):
            assert np.array_equal(before.durations, after.durations)
            assert snr(before.audio, after.audio) > 60
    assert condition.current is None
    assert len(engine._graphs) == captured + 1


@pytest.mark.parametrize("count", [33, 48, 64])
def test_many_rows_in_single_precision_are_finite(count: int, model: Any) -> None:
    engine = CudaEngine(model, DEVICE, "fp32")
    rows = [row(seed, 3 + seed % 9) for seed in range(count)]
    wanted = engine.synthesize(rows)
    for _ in range(20):
        for before, after in zip(wanted, engine.synthesize(rows), strict=True):
            assert np.isfinite(after.audio).all()
            assert np.array_equal(before.durations, after.durations)
            assert snr(before.audio, after.audio) > 60


def squeezed(leaves: int) -> str:
    """The message of an engine that finds this many bytes of memory."""
    with other_program(leaves):
        return subprocess.run([sys.executable, "-c", SQUEEZED], stdout=subprocess.PIPE, text=True, timeout=300).stdout


def test_memory_that_others_have_is_not_planned_with() -> None:
    said = squeezed(leaves=6_000_000_000)
    found = re.search(r"frames: (\d+) True\nfinite: True", said)
    assert found, said
    assert int(found[1]) < MAX_PADDED_FRAMES / 2


def test_too_little_memory_says_what_is_needed() -> None:
    assert re.search(r"ended: .*(too little memory, \d\.\d GB needed|out of memory)", squeezed(leaves=1_500_000_000))


@pytest.mark.parametrize(("precision", "exact"), [("fp32", True), ("auto", False)])
def test_without_fast_kernels_convolutions_are_as_precise_as_is_said(
    precision: str,
    exact: bool,
    model: Any,
) -> None:
    with fp32_precision("ieee", "ieee", "ieee"):
        engine = TorchEngine.without_kernels(model, DEVICE, precision, "a test")
        assert engine.precision == ("fp32" if exact else "tf32")
        assert convolution_error() < 1e-5
        with engine._decoder_precision():
            assert (convolution_error() < 1e-5) == exact
        assert np.isfinite(engine.synthesize([row(1, 20), row(2, 5)])[0].audio).all()
        assert set_fp32_precision("ieee", "ieee", "ieee")[1] == "ieee"


def convolution_error() -> float:
    torch.manual_seed(0)
    conv = torch.nn.Conv1d(256, 256, 7, padding=3, device=DEVICE)
    x = torch.randn(4, 256, 500, device=DEVICE)
    with torch.inference_mode():
        expected = conv.double()(x.double())
        return float((conv.float()(x) - expected).norm() / expected.norm())


def test_a_poisoned_gpu_is_not_fallen_back_to() -> None:
    done = subprocess.run([sys.executable, "-c", POISONED], stdout=subprocess.PIPE, text=True, timeout=300, check=False)
    assert done.stdout.startswith("ended: cuda:0: the GPU has failed")
