"""LSTMs on an NVIDIA GPU: one kernel keeps the weights through all steps, and its programs exchange their outputs.

A step takes 2 to 3.5 µs, against 7 to 15 with cuDNN, and a batch has hundreds of steps. cuDNN's steps, captured for
48 rows on an H200, also sometimes gave numbers that were not finite, so cuDNN is not used. On a card with too few
multiprocessors for the rows, a step is a matrix product and some elementwise kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kokoro_server.engine.cuda.kernels import triton_lstm as kernels
from kokoro_server.engine.cuda.kernels.card import Card
from kokoro_server.engine.cuda.kernels.gate import checkpoint
from kokoro_server.engine.cuda.kernels.linear import SplitLinear, split_fp16
from kokoro_server.engine.model.layers import BiLSTM, Linear
from kokoro_server.engine.model.lengths import Lengths, Placement

FEW_ROWS = 8  # up to this number, each row has its own programs
UNITS = (4, 8, 16)  # hidden units per program with few rows: fewer make a step faster and need more programs
RESIDENT = 2  # programs of UNITS[-1] units that fit in a multiprocessor's registers
GROUP = 16  # rows of a program, for many rows
GROUP_UNITS = (8, 16)
GROUP_SHARED = 80 * 1024  # bytes of shared memory that a program for many rows needs
LAUNCHES = 8  # up to this number, launches in sequence beat one launch for each step


class FusedLSTM(BiLSTM):
    """`split` lets many rows go through fp16 matrix products, three for one: 22 bits."""

    def __init__(self, module: Any, placement: Placement, card: Card, *, split: bool = True) -> None:
        super().__init__(module, placement)

        def both(name: str) -> list[Tensor]:
            return [getattr(self.lstm, f"{name}_l0{direction}") for direction in ("", "_reverse")]

        bias = torch.cat(both("bias_ih")) + torch.cat(both("bias_hh"))
        linear = SplitLinear if split else Linear
        self.input = linear(torch.cat(both("weight_ih")), bias, placement)  # to (2 * 4 * hidden)
        self.recurrent = torch.stack(both("weight_hh")).contiguous()  # (2, 4 * hidden, hidden)
        self.hidden: int = self.lstm.hidden_size
        self.processors = card.processors
        self.split = split and card.has_ampere_products and card.shared_memory >= GROUP_SHARED
        self.split_weights = {units: self._split_weights(units) for units in GROUP_UNITS} if self.split else {}

    def __call__(self, x: Tensor, lengths: Lengths) -> Tensor:
        layer: Callable[[Tensor], Tensor] = self._few
        max_rows = min(FEW_ROWS, self._max_rows(UNITS[-1]))
        if len(x) > max_rows and self.split:
            layer, max_rows = self._many, self._groups(GROUP_UNITS[-1]) * GROUP
        gates = self.input(self.flagged(x, lengths))
        checkpoint()
        return in_parts(layer, gates, max_rows) if len(x) <= max_rows * LAUNCHES else self._stepwise(gates)

    def _max_rows(self, units: int) -> int:
        """The rows that run at once with `units` units per program. All must run at once: they wait for each other."""
        return self.processors * (RESIDENT if units == UNITS[-1] else 1) * units // (2 * self.hidden)

    def _few(self, gates: Tensor) -> Tensor:
        rows, time, _ = gates.shape
        units = next(units for units in UNITS if rows <= self._max_rows(units))
        y = gates.new_empty(rows, time, 2 * self.hidden)
        mailbox = torch.zeros(2, rows, time, self.hidden, dtype=torch.int64, device=gates.device)
        kernels.bilstm[(self.hidden // units, 2, rows)](
            gates, self.recurrent, y, mailbox, rows, time, self.hidden, units, launch_cooperative_grid=True
        )
        return y

    def _groups(self, units: int) -> int:
        """The groups of rows that run at once with `units` units per program."""
        return self.processors * units // (2 * self.hidden)

    def _many(self, gates: Tensor) -> Tensor:
        rows, time, _ = gates.shape
        groups = -(-rows // GROUP)
        units = next(units for units in GROUP_UNITS if groups <= self._groups(units))
        y = gates.new_empty(rows, time, 2 * self.hidden)
        mailbox = torch.zeros(2, rows, time, self.hidden, dtype=torch.int32, device=gates.device)
        kernels.bilstm_batched[(self.hidden // units, 2, groups)](
            gates, *self.split_weights[units], y, mailbox, rows, time, self.hidden, units, GROUP,
            launch_cooperative_grid=True,
        )  # fmt: skip
        return y

    def _stepwise(self, gates: Tensor) -> Tensor:
        """Both directions in one product per step, whatever the number of rows."""
        rows, time, _ = gates.shape
        ahead, back = gates.view(rows, time, 2, 4 * self.hidden).unbind(2)
        inputs = torch.stack([ahead, back.flip(1)]).transpose(1, 2).contiguous()  # (2, time, rows, 4 * hidden)
        weights = self.recurrent.transpose(1, 2)
        y = gates.new_empty(2, time, rows, self.hidden)
        h = cell = gates.new_zeros(2, rows, self.hidden)
        for step in range(time):
            i, f, g, o = torch.baddbmm(inputs[:, step], h, weights).chunk(4, 2)
            cell = torch.addcmul(torch.sigmoid(f) * cell, torch.sigmoid(i), torch.tanh(g))
            h = torch.sigmoid(o) * torch.tanh(cell)
            y[:, step] = h
        return torch.cat([y[0], y[1].flip(0)], 2).transpose(0, 1).contiguous()

    def _split_weights(self, units: int) -> tuple[Tensor, Tensor]:
        """The weights of each program: (2, hidden / units, hidden, units * 4), a unit's four gates side by side."""
        blocks = self.recurrent.view(2, 4, self.hidden // units, units, self.hidden)
        high, low = split_fp16(blocks.permute(0, 2, 4, 3, 1))
        return high.contiguous(), low.contiguous()


def in_parts(layer: Callable[[Tensor], Tensor], x: Tensor, max_rows: int) -> Tensor:
    parts = [layer(part) for part in torch.split(x, max_rows)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)
