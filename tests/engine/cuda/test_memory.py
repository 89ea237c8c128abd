"""How much of a GPU an engine takes, with doubles of what CUDA says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kokoro_server.engine.cuda import memory
from kokoro_server.engine.cuda.memory import OUTSIDE_BYTES, explain_errors
from kokoro_server.errors import SetupError

GB = 10**9
GPU = torch.device("cuda", 0)
FRAME = 500_000  # bytes


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def described(free: float, total: float, reserved: float = 0) -> None:
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (int(free * GB), int(total * GB)))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device: int(reserved * GB))

    return described


def test_an_empty_gpu_gives_the_fraction_of_its_total(gpu: Callable[..., None]) -> None:
    gpu(79, 80)
    plan = memory.plan(GPU, 0.5, 1)
    assert plan.share == 40 * GB
    assert plan.frames(GB, FRAME, 40_000, 2000) == 40_000
    assert plan.shortage(GB, FRAME, 40_000) is None


def test_what_others_have_taken_is_not_planned_with(gpu: Callable[..., None]) -> None:
    gpu(10, 80)
    plan = memory.plan(GPU, 0.9, 1)
    assert plan.share == 10 * GB - OUTSIDE_BYTES
    assert plan.frames(GB, FRAME, 40_000, 2000) == int((plan.share - GB) / FRAME) < 18_000
    shortage = plan.shortage(GB, FRAME, 40_000)
    assert shortage
    assert "other programs use cuda:0" in shortage
    assert "10.0 of 80.0 GB were free" in shortage


def test_two_engines_share_what_is_free(gpu: Callable[..., None]) -> None:
    gpu(20, 80)
    first = memory.plan(GPU, 0.9, 2)
    gpu(17, 80, reserved=3)  # the first engine is there now
    second = memory.plan(GPU, 0.9, 2)
    assert first.share == second.share == (20 * GB - OUTSIDE_BYTES) / 2


def test_a_small_gpu_that_is_free_is_not_called_degraded(gpu: Callable[..., None]) -> None:
    gpu(3.6, 4)
    assert memory.plan(GPU, 0.9, 1).shortage(0.4 * GB, FRAME, 40_000) is None


def test_too_little_says_what_is_needed(gpu: Callable[..., None]) -> None:
    gpu(1.2, 80)
    plan = memory.plan(GPU, 0.9, 1)
    with pytest.raises(SetupError) as refusal:
        plan.frames(0.4 * GB, FRAME, 40_000, 2000)
    message = refusal.value.message
    assert message.startswith("cuda:0: too little memory, 1.4 GB needed; 1.2 of 80.0 GB were free")
    assert "KOKORO_GPU_MEMORY_FRACTION" in message


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (torch.cuda.OutOfMemoryError("CUDA out of memory. Tried\nmore"), r"cuda:0: out of memory .*Tried\); end what"),
        (
            RuntimeError("CUDA error: an illegal memory access was encountered\nx"),
            r"cuda:0: the GPU has failed .*again",
        ),
    ],
)
def test_what_only_another_start_can_mend_is_said(error: Exception, message: str) -> None:
    with pytest.raises(SetupError, match=message) as raised, explain_errors(GPU):
        raise error
    assert "\n" not in raised.value.message


def test_other_errors_are_left_alone() -> None:
    with pytest.raises(ValueError, match="no"), explain_errors(GPU):
        raise ValueError("no")
