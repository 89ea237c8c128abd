"""LSTMs on an NVIDIA GPU: one kernel holds the weights through all steps; its programs exchange their outputs.

A step takes 2 to 3.5 µs, against 7 to 15 with cuDNN; there are hundreds in a batch. Besides, cuDNN's steps, captured
for 48 rows, now and then gave numbers that were not finite on an H200: where it is used, its rows are few.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kokoro_server.engine.cuda import triton_lstm as kernels
from kokoro_server.engine.cuda.linear import SplitLinear, split_fp16
from kokoro_server.engine.model.layers import BiLSTM, Linear
from kokoro_server.engine.model.lengths import Lengths, Placement

AMPERE = (8, 0)  # the first with the tensor cores and shared memory that `_many` needs
FEW_ROWS = 8  # up to so many rows, each has its own programs
UNITS = (4, 8, 16)  # hidden units per program with few rows: fewer make a step faster and need more programs
RESIDENT = 2  # programs of UNITS[-1] units that fit in a multiprocessor's registers
GROUP = 16  # rows of a program, for many rows
GROUP_UNITS = (8, 16)
LAUNCHES = 4  # up to so many in sequence beat one call of cuDNN
CUDNN_ROWS = 32  # of one call of cuDNN, at most


class FusedLSTM(BiLSTM):
    """`split` lets many rows go through fp16 matrix products, three for one: 22 bits. Without it, cuDNN does them."""

    def __init__(self, module: Any, placement: Placement, *, split: bool = True) -> None:
        super().__init__(module, placement)

        def both(name: str) -> list[Tensor]:
            return [getattr(self.lstm, f"{name}_l0{direction}") for direction in ("", "_reverse")]

        bias = torch.cat(both("bias_ih")) + torch.cat(both("bias_hh"))
        linear = SplitLinear if split else Linear
        self.input = linear(torch.cat(both("weight_ih")), bias, placement)  # to (2 * 4 * hidden)
        self.recurrent = torch.stack(both("weight_hh")).contiguous()  # (2, 4 * hidden, hidden)
        self.hidden: int = self.lstm.hidden_size
        self.processors = torch.cuda.get_device_properties(placement.device).multi_processor_count
        self.split = split and torch.cuda.get_device_capability(placement.device) >= AMPERE
        self.split_weights = {units: self._split_weights(units) for units in GROUP_UNITS} if self.split else {}

    def __call__(self, x: Tensor, lengths: Lengths) -> Tensor:
        layer: Callable[[Tensor], Tensor] = self._few
        max_rows = min(FEW_ROWS, self._max_rows(UNITS[-1]))
        if len(x) > max_rows and self.split:
            layer, max_rows = self._many, self._groups(GROUP_UNITS[-1]) * GROUP
        flagged = self.flagged(x, lengths)
        if len(x) > max_rows * LAUNCHES * -(-len(x) // CUDNN_ROWS):
            return in_parts(lambda part: self.lstm(part)[0], flagged, CUDNN_ROWS)
        return in_parts(layer, self.input(flagged), max_rows)

    def _max_rows(self, units: int) -> int:
        """How many rows run at once with so many units per program. All must run at once: they wait for each other."""
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
        """How many groups of rows run at once, with so many units per program."""
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

    def _split_weights(self, units: int) -> tuple[Tensor, Tensor]:
        """The weights of each program: (2, hidden / units, hidden, units * 4), a unit's four gates side by side."""
        blocks = self.recurrent.view(2, 4, self.hidden // units, units, self.hidden)
        high, low = split_fp16(blocks.permute(0, 2, 4, 3, 1))
        return high.contiguous(), low.contiguous()


def in_parts(layer: Callable[[Tensor], Tensor], x: Tensor, max_rows: int) -> Tensor:
    parts = [layer(part) for part in torch.split(x, max_rows)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)
