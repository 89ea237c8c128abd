# mypy: ignore-errors
"""The Triton kernels of the LSTMs: all steps in one launch, by programs that exchange their outputs through memory."""

from __future__ import annotations

import triton.language as tl
from triton.language.extra import libdevice

from kokoro_server.engine.cuda.kernels.compiling import kernel


@kernel("rows", "time")
def bilstm(gates, weights, y, mailbox, rows, time, HIDDEN: tl.constexpr, UNITS: tl.constexpr):
    """Both directions of an LSTM, from its inputs' share of the gates (rows, time, 2, 4, HIDDEN).

    Each program keeps the weights of UNITS units in registers through all steps. It receives the outputs of the others
    through `mailbox` (2, rows, time, HIDDEN), zeros at first: the upper half of a word says that the lower has been
    written. All programs must run at the same time.
    """
    direction, row = tl.program_id(1), tl.program_id(2)
    unit, k = tl.program_id(0) * UNITS + tl.arange(0, UNITS), tl.arange(0, HIDDEN)
    square: tl.constexpr = HIDDEN * HIDDEN
    w = weights + direction * 4 * square + unit[:, None] * HIDDEN + k[None, :]
    wi, wf, wg, wo = tl.load(w), tl.load(w + square), tl.load(w + 2 * square), tl.load(w + 3 * square)
    cell = tl.zeros((UNITS,), tl.float32)
    outputs = mailbox + (direction * rows + row) * time * HIDDEN
    for step in range(0, time):
        t = tl.where(direction == 0, step, time - 1 - step)
        at = gates + ((row * time + t) * 2 + direction) * 4 * HIDDEN + unit
        i, f = tl.load(at), tl.load(at + HIDDEN)
        g, o = tl.load(at + 2 * HIDDEN), tl.load(at + 3 * HIDDEN)
        if step > 0:
            inbox = outputs + (step - 1) * HIDDEN + k
            word = tl.load(inbox, volatile=True)
            while tl.min((word >> 32).to(tl.int32)) == 0:
                word = tl.load(inbox, volatile=True)
            h = (word & 0xFFFFFFFF).to(tl.uint32).to(tl.float32, bitcast=True)[None, :]
            i += tl.sum(wi * h, 1)
            f += tl.sum(wf * h, 1)
            g += tl.sum(wg * h, 1)
            o += tl.sum(wo * h, 1)
        cell = tl.sigmoid(f) * cell + tl.sigmoid(i) * libdevice.tanh(g)
        h = tl.sigmoid(o) * libdevice.tanh(cell)
        tl.store(outputs + step * HIDDEN + unit, h.to(tl.uint32, bitcast=True).to(tl.int64) | (1 << 32))
        tl.store(y + ((row * time + t) * 2 + direction) * HIDDEN + unit, h)


@kernel("rows", "time")
def bilstm_batched(
    gates, high, low, y, mailbox, rows, time, HIDDEN: tl.constexpr, UNITS: tl.constexpr, GROUP: tl.constexpr
):
    """`bilstm` for GROUP rows per program, by matrix products. The weights are (2, HIDDEN / UNITS, HIDDEN, UNITS * 4).

    A word of `mailbox` holds the two halves of a number; 0 says that it has not been written, so 0 is sent as -0.
    """
    block, direction = tl.program_id(0), tl.program_id(1)
    r, unit = tl.program_id(2) * GROUP + tl.arange(0, GROUP), block * UNITS + tl.arange(0, UNITS)
    k, gate = tl.arange(0, HIDDEN), tl.arange(0, UNITS * 4)
    ok = (r < rows)[:, None]
    at_weights = ((direction * (HIDDEN // UNITS) + block) * HIDDEN + k)[:, None] * (UNITS * 4) + gate[None, :]
    w_high, w_low = tl.load(high + at_weights), tl.load(low + at_weights)
    cell = tl.zeros((GROUP, UNITS), tl.float32)
    outputs = mailbox + ((direction * rows + r) * time * HIDDEN)[:, None]
    for step in range(0, time):
        t = tl.where(direction == 0, step, time - 1 - step)
        at = gates + (((r * time + t) * 2 + direction) * 4 * HIDDEN)[:, None] + unit[None, :]
        i, f = tl.load(at, mask=ok, other=0.0), tl.load(at + HIDDEN, mask=ok, other=0.0)
        g, o = tl.load(at + 2 * HIDDEN, mask=ok, other=0.0), tl.load(at + 3 * HIDDEN, mask=ok, other=0.0)
        if step > 0:
            inbox = outputs + (step - 1) * HIDDEN + k[None, :]
            word = tl.load(inbox, mask=ok, other=1, volatile=True)
            while tl.min((word != 0).to(tl.int32)) == 0:
                word = tl.load(inbox, mask=ok, other=1, volatile=True)
            h_high = (word >> 16).to(tl.int16).to(tl.float16, bitcast=True)
            h_low = (word & 0xFFFF).to(tl.int16).to(tl.float16, bitcast=True)
            total = tl.dot(h_high, w_high)
            total += tl.dot(h_high, w_low, tl.dot(h_low, w_high))
            one, two = tl.split(total.reshape(GROUP, UNITS, 2, 2))
            hi, hg = tl.split(one)
            hf, ho = tl.split(two)
            i, f, g, o = i + hi, f + hf, g + hg, o + ho
        cell = tl.sigmoid(f) * cell + tl.sigmoid(i) * libdevice.tanh(g)
        h = tl.sigmoid(o) * libdevice.tanh(cell)
        h_high = h.to(tl.float16)
        h_low = (h - h_high.to(tl.float32)).to(tl.float16)
        upper, lower = h_high.to(tl.uint16, bitcast=True), h_low.to(tl.uint16, bitcast=True)
        pair = (upper.to(tl.uint32) << 16) | lower.to(tl.uint32)
        pair = tl.where(pair == 0, 1 << 31, pair).to(tl.int32, bitcast=True)
        tl.store(outputs + step * HIDDEN + unit[None, :], pair, mask=ok)
        tl.store(y + ((r * time + t) * 2 + direction)[:, None] * HIDDEN + unit[None, :], h, mask=ok)
