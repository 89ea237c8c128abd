"""The engine on an NVIDIA GPU: fused kernels, half precision where it is inaudible, CUDA graphs."""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from kokoro_server.engine.cuda import express, memory
from kokoro_server.engine.cuda.express import ExpressEngine
from kokoro_server.engine.cuda.kernels.card import Card
from kokoro_server.engine.cuda.kernels.gate import Gate
from kokoro_server.engine.cuda.kernels.ops import CudaOps
from kokoro_server.engine.cuda.shapes import MAX_ROWS, ROWS, largest_load
from kokoro_server.engine.cuda.stream_engine import StreamEngine
from kokoro_server.engine.model.kokoro import BatchedKokoro
from kokoro_server.engine.protocol import MAX_TOKENS, EngineLimits
from kokoro_server.observability.conditions import Condition, Reason

log = logging.getLogger(__name__)

MAX_GRAPHS = 384  # default limit; a graph takes some megabytes on host and device
MAX_PINNED_BYTES = 2 * 2**30  # default limit of host memory for audio

# Peak memory of one padded frame beyond the weights, in tensors of the generator's last stage. On an H200 the pool that
# all steps share takes 13.6 for the largest step, and then stops growing.
TENSORS_PER_FRAME = 14
LAST_STAGE = 120 * 128  # steps per frame × channels
MIN_PADDED_FRAMES = 2048  # the longest row at the usual speed
MAX_PADDED_FRAMES = 40_960  # 17 minutes of audio: a larger batch would only make its rows wait
PREDICTED_SHARE = 7 / 8  # of these frames, for a batch as it is predicted: audio may turn out longer, and is rounded up
EXPRESS_SHARE = 0.25  # of the frames that fit, at most, for an express engine

# Of a batch's time on an H200, without its fixed part, this share grows with the padded frames and the rest with the
# real ones: our convolutions leave out padding, the other kernels do not. Fitted to 1 to 64 rows, alike and mixed: 3 %
# off, 6 % at most.
PADDING_WEIGHT = 0.27
EXPRESS_HOST = 0.02  # seconds: the longest that the host leaves other rows alone while express rows are made
EXPRESS_REST = 5.0  # seconds after an express batch in which another is likely
GATED_ROWS = 12  # a batch of at least this many rows takes so long that an express batch may stop it

HALF = {"fp16": torch.float16, "bf16": torch.bfloat16, "int8": torch.float16}  # int8: of what is not in 8 bits
PRECISIONS = HALF | {"tf32": torch.float32, "fp32": torch.float32}


class CudaEngine(StreamEngine):
    """`protocol.Engine`. It has an express engine where memory allows, and no other engine is on the device."""

    def __init__(
        self,
        reference: Any,
        device: torch.device,
        precision: str = "fp16",
        memory_fraction: float = 0.9,
        engines_on_device: int = 1,
        max_graphs: int = MAX_GRAPHS,
        max_pinned_bytes: int = MAX_PINNED_BYTES,
        with_express: bool = True,
        card: Card | None = None,
        *,
        halo: bool = True,
    ) -> None:
        """`memory_fraction` is the share of the device that this process may take, for `engines_on_device` engines.

        `card` makes the engine use the device as if it were a lesser one. `halo` is `CudaOps`'.
        """
        if device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        plan = memory.plan(device, memory_fraction, engines_on_device)
        allocated_before = torch.cuda.memory_allocated(device)
        torch.cuda.set_per_process_memory_fraction(memory_fraction, device)
        dtype = PRECISIONS[precision]
        card = card or Card.of(device)
        in_bytes = precision == "int8" and card.has_descriptors
        if precision == "int8" and not in_bytes:
            log.warning("int8 needs a GPU of compute capability 9.0 or later; this one computes in fp16")
            precision = "fp16"
        self.precision = precision
        ops = CudaOps(card, split=precision != "fp32", in_bytes=in_bytes, halo=halo)
        hidden = reference.text_encoder.embedding.embedding_dim
        with torch.cuda.device(device):
            model = BatchedKokoro(reference, device, dtype, torch.float32, ops=ops)
            super().__init__(model, MAX_ROWS, hidden, max_graphs, max_pinned_bytes)
            self._gate = Gate(device)
        own = torch.cuda.memory_allocated(device) - allocated_before
        frame = TENSORS_PER_FRAME * LAST_STAGE * dtype.itemsize  # bytes
        fitting = plan.frames(own, frame, MAX_PADDED_FRAMES + express.PADDED_FRAMES, MIN_PADDED_FRAMES)
        has_express = with_express and engines_on_device == 1 and EXPRESS_SHARE * fitting >= express.PADDED_FRAMES
        shared = Condition(Reason.GPU_MEMORY)
        if shortage := plan.shortage(own, frame, MAX_PADDED_FRAMES):
            shared.set(shortage)
        room = largest_load(min(MAX_PADDED_FRAMES, fitting - has_express * express.PADDED_FRAMES))
        limits = EngineLimits(
            max_tokens=MAX_TOKENS,
            max_rows=MAX_ROWS,
            max_padded_frames=int(room * PREDICTED_SHARE),
            row_buckets=tuple(ROWS.sizes),
            padding_weight=PADDING_WEIGHT if dtype.itemsize == 2 and card.has_descriptors else 1.0,
            max_in_flight=2,
        )
        with torch.cuda.device(device):
            self.set_limits(limits, room)
            self.express = ExpressEngine(self, self._gate) if has_express else None
        self.conditions = (*self.conditions, shared, *(self.express.conditions if self.express else ()))

    def warmup(self) -> None:
        super().warmup()
        if self.express is not None:
            self.express.warmup()

    def free_memory(self) -> None:
        if self.express is not None:
            self.express.free_memory()
        super().free_memory()

    def close(self) -> None:
        if self.express is not None:
            self.express.close()
            self.express = None
        super().close()
        del self._gate

    def _may_free_host_memory(self) -> bool:
        return self.express is None or time.monotonic() - self.express.last_used > EXPRESS_REST

    def _before_host_work(self) -> None:
        if self.express is not None:
            self.express.pauses_nobody.wait(EXPRESS_HOST)

    def _checked(self, rows: int) -> AbstractContextManager[None]:
        return self._gate.checked() if rows >= GATED_ROWS and self.express is not None else nullcontext()
