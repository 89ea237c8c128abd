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

import kokoro_server.engine.cuda.kernels
from kokoro_server.engine.cuda.kernels.card import Card
from kokoro_server.engine.model.layers import Linear
from kokoro_server.engine.model.lengths import Lengths, Placement

CPU = Placement(torch.device("cpu"), torch.float32)
H200, L4 = Card((9, 0), 132, 227 * 1024), Card((8, 9), 58, 99 * 1024)
RTX_3060, T4 = Card((8, 6), 28, 99 * 1024), Card((7, 5), 40, 64 * 1024)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`kernels.lstm`, without Triton."""
    for name in ("triton_lstm", "triton_kernels"):
        monkeypatch.setitem(sys.modules, f"kokoro_server.engine.cuda.kernels.{name}", ModuleType(name))
        monkeypatch.setattr(kokoro_server.engine.cuda.kernels, name, ModuleType(name), raising=False)
    for name in ("lstm", "linear"):
        monkeypatch.delitem(sys.modules, f"kokoro_server.engine.cuda.kernels.{name}", raising=False)
    yield importlib.import_module("kokoro_server.engine.cuda.kernels.lstm")
    for name in ("lstm", "linear"):
        sys.modules.pop(f"kokoro_server.engine.cuda.kernels.{name}", None)
        if hasattr(kokoro_server.engine.cuda.kernels, name):
            delattr(kokoro_server.engine.cuda.kernels, name)


@pytest.fixture
def calls() -> list[tuple[str, int]]:
    """The kernels that were called, and the rows of each call."""
    return []


@pytest.fixture
def make(module: Any, calls: list[tuple[str, int]]) -> Any:
    def lstm_on(card: Card, *, split: bool) -> Any:
        torch.manual_seed(0)
        made = module.FusedLSTM(nn.LSTM(8, 256, batch_first=True, bidirectional=True), CPU, card, split=split)
        by_steps = made._stepwise
        made.input = Linear(made.input.weight, made.input.bias, CPU)

        def noted(name: str) -> Any:
            def run(gates: Tensor) -> Any:
                calls.append((name, len(gates)))
                return by_steps(gates)

            return run

        made._few, made._many, made._stepwise = noted("few"), noted("many"), noted("steps")
        made.lstm = None  # cuDNN's
        return made

    return lstm_on


@pytest.mark.parametrize(
    ("card", "split", "rows", "expected"),
    [
        (H200, True, 8, [("few", 8)]),
        (H200, True, 9, [("many", 9)]),
        (H200, True, 64, [("many", 64)]),
        (H200, False, 8, [("few", 8)]),
        (H200, False, 48, [("few", 8)] * 6),
        (H200, False, 64, [("few", 8)] * 8),
        (L4, True, 3, [("few", 3)]),
        (L4, True, 33, [("many", 16), ("many", 16), ("many", 1)]),
        (L4, True, 64, [("many", 16)] * 4),
        (L4, False, 64, [("steps", 64)]),
        (RTX_3060, True, 1, [("few", 1)]),
        (RTX_3060, True, 2, [("steps", 2)]),
        (T4, True, 8, [("few", 2)] * 4),
        (T4, True, 64, [("steps", 64)]),
    ],
)
def test_rows_go_to_kernels_that_the_card_has_room_for_and_never_to_cudnn(
    make: Any, calls: list[tuple[str, int]], card: Card, split: bool, rows: int, expected: list[tuple[str, int]]
) -> None:
    x = torch.randn(rows, 5, 8)
    output = make(card, split=split)(x, Lengths((5,) * rows, 5, CPU))
    assert calls == expected
    torch.manual_seed(0)
    plain = nn.LSTM(8, 256, batch_first=True, bidirectional=True)
    assert torch.allclose(output, plain(x)[0], atol=1e-5)
