"""Which kernel the rows of an LSTM go to, with doubles of the kernels."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import kokoro_server.engine.cuda
from kokoro_server.engine.model.lengths import Lengths, Placement

CPU = Placement(torch.device("cpu"), torch.float32)
H200, T4 = (132, (9, 0)), (40, (7, 5))  # multiprocessors, capability


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`cuda.lstm`, without Triton."""
    for name in ("triton_lstm", "triton_kernels"):
        monkeypatch.setitem(sys.modules, f"kokoro_server.engine.cuda.{name}", ModuleType(name))
        monkeypatch.setattr(kokoro_server.engine.cuda, name, ModuleType(name), raising=False)
    for name in ("lstm", "linear"):
        monkeypatch.delitem(sys.modules, f"kokoro_server.engine.cuda.{name}", raising=False)
    yield importlib.import_module("kokoro_server.engine.cuda.lstm")
    for name in ("lstm", "linear"):
        sys.modules.pop(f"kokoro_server.engine.cuda.{name}", None)
        if hasattr(kokoro_server.engine.cuda, name):
            delattr(kokoro_server.engine.cuda, name)


@pytest.fixture
def calls() -> list[tuple[str, int]]:
    """The kernels that were called, and the rows of each call."""
    return []


@pytest.fixture
def make(module: Any, monkeypatch: pytest.MonkeyPatch, calls: list[tuple[str, int]]) -> Any:
    def lstm_on(gpu: tuple[int, tuple[int, int]], *, split: bool) -> Any:
        properties = type("Properties", (), {"multi_processor_count": gpu[0]})
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: properties)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: gpu[1])
        torch.manual_seed(0)
        made = module.FusedLSTM(nn.LSTM(8, 256, batch_first=True, bidirectional=True), CPU, split=split)
        if not split:
            made.input = lambda x: x
        cudnn = made.lstm

        def noted(name: str) -> Any:
            def run(x: Tensor) -> Any:
                calls.append((name, len(x)))
                output = cudnn(x)
                return output if name == "cudnn" else output[0]

            return run

        made.lstm, made._few, made._many = noted("cudnn"), noted("few"), noted("many")
        return made

    return lstm_on


@pytest.mark.parametrize(
    ("gpu", "rows", "expected"),
    [
        (H200, 8, [("few", 8)]),
        (H200, 32, [("few", 8)] * 4),
        (H200, 48, [("few", 8)] * 6),
        (H200, 64, [("few", 8)] * 8),
        (T4, 8, [("few", 2)] * 4),
        (T4, 16, [("cudnn", 16)]),
        (T4, 48, [("cudnn", 32), ("cudnn", 16)]),
        (T4, 64, [("cudnn", 32)] * 2),
    ],
)
def test_cudnn_never_gets_more_rows_than_it_can_be_trusted_with(
    make: Any, calls: list[tuple[str, int]], gpu: Any, rows: int, expected: list[tuple[str, int]]
) -> None:
    lstm = make(gpu, split=False)
    x = torch.randn(rows, 3, 8)
    lengths = Lengths((3,) * rows, 3, CPU)
    output = lstm(x, lengths)
    assert calls == expected
    torch.manual_seed(0)
    plain = nn.LSTM(8, 256, batch_first=True, bidirectional=True)
    assert torch.allclose(output, plain(x)[0], atol=1e-5)


@pytest.mark.parametrize(("rows", "expected"), [(8, [("few", 8)]), (9, [("many", 9)]), (64, [("many", 64)])])
def test_half_precision_goes_the_way_it_went(
    module: Any, make: Any, calls: list[tuple[str, int]], rows: int, expected: list[tuple[str, int]]
) -> None:
    lstm = make(H200, split=True)
    lstm.input = lambda x: x
    lstm(torch.randn(rows, 3, 8), Lengths((3,) * rows, 3, CPU))
    assert calls == expected
