"""The engine on an NVIDIA GPU: fused kernels, half precision where the ear cannot tell, CUDA graphs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from kokoro_server.degraded import Condition, Reason
from kokoro_server.engine.cuda import memory, output_buffer
from kokoro_server.engine.cuda.activity import StreamActivity
from kokoro_server.engine.cuda.graph_cache import Buckets, CudaGraphCache
from kokoro_server.engine.cuda.length_split import split_by_length
from kokoro_server.engine.cuda.ops import CudaOps, gaussian_noise
from kokoro_server.engine.cuda.pinned_buffers import PinnedBuffers
from kokoro_server.engine.cuda.static_io import POSITIONS, StaticIO
from kokoro_server.engine.model.kokoro import BatchedKokoro, TextFeatures
from kokoro_server.engine.model.lengths import DeviceLengths
from kokoro_server.engine.protocol import MAX_TOKENS, SAMPLES_PER_FRAME, STYLE_DIM, Gap, Limits, Result, Row
from kokoro_server.engine.torch_engine import TorchEngine, set_fp32_precision

log = logging.getLogger(__name__)

MAX_ROWS = 64  # more gain nothing: the device is full
MAX_GRAPHS = 512  # kept at most

ROWS = Buckets((4, 1), (8, 2), (16, 4), (32, 8), (MAX_ROWS, 16))
TOKENS = Buckets((128, 16), (256, 32), (POSITIONS, 64))
FRAMES = Buckets((256, 16), (512, 32), (1024, 64), (2048, 128))

# What warm-up captures: the shapes of most sentences, and of long ones beside few others.
COMMON_TOKENS = (32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 384, 512)
COMMON_FRAMES = (64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 768, 1024)
COMMON_LOAD = MAX_ROWS * 384  # the most rows × frames that are captured, and half as many rows × tokens
SHAPES = {"text": (TOKENS, COMMON_TOKENS), "decode": (FRAMES, COMMON_FRAMES)}
BUCKET_SLACK = 0.135  # how much longer a captured shape may take than the one that fits
RUNS_TO_CAPTURE = 2  # one to compile and choose kernels, one to capture

# Peak memory of one padded frame beyond the weights, in tensors of the generator's last stage. Measured on an H200: 6
# are alive at once, and graphs have a memory pool of their own beside that of steps not captured yet.
TENSORS_PER_FRAME = 14
LAST_STAGE = 120 * 128  # steps per frame × channels
MIN_PADDED_FRAMES = 2048  # the longest row at the usual speed
MAX_PADDED_FRAMES = 40_960  # 17 minutes of audio: a larger batch would only make its rows wait

# The share of a batch's time on an H200, without its fixed part, that grows with its padded frames; the rest grows with
# its real ones. Our convolutions leave padding out, the other kernels do not. Fitted to 1 to 64 rows, alike and mixed:
# 3 % off, 6 % at most.
PADDING_WEIGHT = 0.27
PASS_OVERHEAD_TOKENS = 3000  # padded tokens that take as long as another pass does beside a busy event loop

# Held around every step that is not replayed. It may be captured, which nothing that waits for the whole device must
# disturb, and it sets torch's fp32 precision, which is one for the whole process. So of several engines, only one at a
# time may run such a step.
CAPTURE_LOCK = threading.Lock()

PRECISIONS = {"fp16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "fp32": torch.float32}


class CudaEngine(TorchEngine):
    """`protocol.Engine`. The rows of a batch share one host buffer: it lives as long as any row's audio does.

    Two calls may be in flight. While one waits for its audio, the other's rows are staged and its kernels queued behind
    those of the first, so that the device does not wait for the host. The text step of the second overlaps with copying
    out the audio of the first.
    """

    kernels = "triton"

    def __init__(
        self,
        reference: Any,
        device: torch.device,
        precision: str = "fp16",
        memory_fraction: float = 0.9,
        engines_on_device: int = 1,
    ) -> None:
        """`memory_fraction` is what this process may take of the device, for `engines_on_device` engines."""
        if device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        plan = memory.plan(device, memory_fraction, engines_on_device)
        others = torch.cuda.memory_allocated(device)
        torch.cuda.set_per_process_memory_fraction(memory_fraction, device)
        dtype = PRECISIONS[precision]
        self.precision = precision
        ops = CudaOps(device, split=precision != "fp32")
        # Where `conv_fp32_activations` has a kernel of its own, only two convolutions of one channel are left to cuDNN.
        ieee = precision == "fp32" or (dtype.itemsize == 2 and ops.hopper)
        self._conv_precision = "ieee" if ieee else "tf32"
        with torch.cuda.device(device):
            super().__init__(BatchedKokoro(reference, device, dtype, torch.float32, ops=ops), MAX_ROWS)
            self._stream, self._copy_stream = torch.cuda.Stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self._activity = StreamActivity(self._stream)
            self._copy_done: torch.cuda.Event | None = None  # after it, `_audio` may be written again
            self._io_lock = threading.Lock()  # held by a batch until all of its work on the buffers is queued
            self._graphs = CudaGraphCache(MAX_GRAPHS)
            self._pinned = PinnedBuffers()
            self._io = StaticIO(MAX_ROWS, device)
            hidden = reference.text_encoder.embedding.embedding_dim
            self._for_prosody = torch.zeros(MAX_ROWS, POSITIONS, hidden + STYLE_DIM // 2, device=device)
            self._for_decoder = torch.zeros(MAX_ROWS, POSITIONS, hidden, device=device)
        own = torch.cuda.memory_allocated(device) - others
        frame = TENSORS_PER_FRAME * LAST_STAGE * dtype.itemsize  # bytes
        fitting = plan.frames(own, frame, MAX_PADDED_FRAMES, MIN_PADDED_FRAMES)
        shared = Condition(Reason.GPU_MEMORY)
        if shortage := plan.shortage(own, frame, MAX_PADDED_FRAMES):
            shared.set(shortage)
        self.conditions = (self._graphs.condition, shared)
        self._limits = Limits(
            max_tokens=MAX_TOKENS,
            max_rows=MAX_ROWS,
            max_padded_frames=fitting,
            row_buckets=tuple(ROWS.sizes),
            padding_weight=PADDING_WEIGHT if dtype.itemsize == 2 and ops.hopper else 1.0,
            max_in_flight=2,
        )
        room = output_buffer.line_width(self._limits.max_padded_frames) + output_buffer.line_width(0) * MAX_ROWS
        self._audio = torch.zeros(room, device=device)
        self._audio_views: dict[tuple[int, int], Tensor] = {}  # of `_audio`, for each shape of the decode step

    def warmup(self) -> None:
        """Capture graphs of the usual shapes. Takes seconds; the first time a minute, when kernels are compiled."""
        started = time.perf_counter()
        super().warmup()
        with memory.explain_errors(self.model.placement.device), torch.inference_mode(), self._on_stream():
            try:
                self._capture_common_shapes()
            except torch.cuda.OutOfMemoryError:
                self.free_memory()
                log.warning("too little memory for the graphs of all usual shapes; each is recorded when it is needed")
        log.info("graphs recorded=%d seconds=%.1f", len(self._graphs), time.perf_counter() - started)

    def _capture_common_shapes(self) -> None:
        for rows in reversed(ROWS.sizes):  # the largest first: the others fit into the memory that it took
            log.info("recording graphs rows=%d", rows)
            for tokens in largest_first(COMMON_TOKENS, COMMON_LOAD // 2 // rows):
                self._io.stage([], rows)
                for _ in range(RUNS_TO_CAPTURE):
                    self._run_text(rows, tokens)
            for frames in largest_first(COMMON_FRAMES, min(COMMON_LOAD, self._limits.max_padded_frames) // rows):
                self._io.frames.fill_(frames)
                for _ in range(RUNS_TO_CAPTURE):
                    self._run_decode(rows, frames)

    def busy_seconds(self) -> float:
        return self._activity.busy_seconds()

    def take_gaps(self) -> list[Gap]:
        return self._activity.take_gaps()

    def free_memory(self) -> None:
        """Give back what is not in use: captured graphs and cached blocks."""
        with self._io_lock:
            self._stream.synchronize()
            self._graphs.clear()
            torch.cuda.empty_cache()

    def _run(self, rows: Sequence[Row]) -> list[Result]:
        parts = split_by_length([len(row.tokens) for row in rows], ROWS, PASS_OVERHEAD_TOKENS)
        results: dict[int, Result] = {}
        with torch.inference_mode(), self._on_stream():
            launched = [(part, self._launch([rows[i] for i in part])) for part in parts]
            for part, finish in launched:
                results.update(zip(part, finish(), strict=True))
        return [results[i] for i in range(len(rows))]

    def _launch(self, rows: Sequence[Row]) -> Callable[[], list[Result]]:
        """Queue all work of a pass on the device. The function returned waits for its results."""
        size, io = ROWS.round_up(len(rows)), self._io
        with self._io_lock:
            io.stage(rows, size)
            tokens = self._bucket("text", size, max(len(row.tokens) for row in rows) + 2)
            with self._activity.step(first=True):
                self._run_text(size, tokens)
            io.fetch()
            if self._copy_done is not None:
                self._stream.wait_event(self._copy_done)
            self._stream.synchronize()  # how many frames there are decides what comes next
            counts, durations = io.host_frames[: len(rows)].tolist(), io.host_durations[: len(rows)].copy()
            frames = self._bucket("decode", size, max(counts))
            with self._activity.step():
                buffer = self._run_decode(size, frames)
            pinned, host = self._pinned.acquire(len(rows), buffer.shape[1])
            copy_done = self._copy_done = self._copy_out(buffer, pinned)

        def finish() -> list[Result]:
            copy_done.synchronize()
            self._activity.collect()
            results = zip(rows, output_buffer.unpack(host, counts), durations, strict=True)
            return [Result(audio, spoken[: len(row.tokens) + 2].copy(), pcm) for row, (audio, pcm), spoken in results]

        return finish

    def _copy_out(self, buffer: Tensor, pinned: Tensor) -> torch.cuda.Event:
        """Queue a copy to the host. The event is its end."""
        self._copy_stream.wait_stream(self._stream)
        with torch.cuda.stream(self._copy_stream):
            pinned.copy_(buffer[: len(pinned)], non_blocking=True)
            copy_done: torch.cuda.Event = self._copy_stream.record_event()
        return copy_done

    def _bucket(self, kind: str, rows: int, size: int) -> int:
        """The bucket for a size, or a larger one where only that has been captured.

        More frames cost less than a step that is launched kernel by kernel and then captured, which takes a tenth of a
        second or several, most of it in the interpreter.
        """
        buckets, common = SHAPES[kind]
        candidates = buckets.candidates(size, max(common[0], size * (1 + BUCKET_SLACK / self._limits.padding_weight)))
        keys = ((kind, rows, bucket) for bucket in candidates)
        # A step whose capture is to be tried again counts as captured: else a larger one would always do its work.
        found = next((key for key in keys if key in self._graphs or self._graphs.is_due(key)), None)
        return found[2] if found else candidates[0]

    def _run_text(self, rows: int, tokens: int) -> None:
        self._run_step(("text", rows, tokens), lambda: self._text_step(rows, tokens))

    def _run_decode(self, rows: int, frames: int) -> Tensor:
        """The buffer that the audio will be in. For shapes with buckets it is the same each time, as graphs require."""
        width = output_buffer.line_width(frames)
        if frames not in FRAMES or rows * width > len(self._audio):
            buffer = torch.empty(rows, width, device=self._audio.device)
            buffer.record_stream(self._copy_stream)
            with CAPTURE_LOCK:
                self._decode_step(rows, frames, buffer)
            return buffer
        if (rows, frames) not in self._audio_views:
            self._audio_views[rows, frames] = self._audio[: rows * width].view(rows, width)
        buffer = self._audio_views[rows, frames]
        self._run_step(("decode", rows, frames), lambda: self._decode_step(rows, frames, buffer))
        return buffer

    def _run_step(self, key: tuple[str, int, int], step: Callable[[], None]) -> None:
        with nullcontext() if key in self._graphs else CAPTURE_LOCK:
            self._graphs.run(key, step)

    def _text_step(self, rows: int, tokens: int) -> None:
        io = self._io
        lengths = DeviceLengths(io.counts[:rows], tokens, self.model.predictor_placement)
        ids = io.tokens[:rows, :tokens].contiguous()
        with self.fp32_mode():
            features = self.model.encode(ids, io.style[:rows], io.speed[:rows], lengths)
        io.durations[:rows].zero_()
        io.durations[:rows, :tokens] = features.durations
        io.frames[:rows] = features.durations.sum(1)
        self._for_prosody[:rows, :tokens] = features.for_prosody
        self._for_decoder[:rows, :tokens] = features.for_decoder

    def _decode_step(self, rows: int, frames: int, buffer: Tensor) -> None:
        io, model = self._io, self.model
        lengths = DeviceLengths(io.frames[:rows], frames, model.predictor_placement)
        text = TextFeatures(io.durations[:rows], self._for_prosody[:rows], self._for_decoder[:rows])
        features = text.aligned(io.style[:rows], lengths)
        with self.fp32_mode():
            prosody = model.prosody(features)
            prosody = prosody.transposed(model.voiced(prosody), io.semitones[:rows])
            audio = model.audio(features, prosody, gaussian_noise(io.seeds[:rows], frames * SAMPLES_PER_FRAME))
        output_buffer.pack(buffer, audio, io.frames[:rows])

    @contextmanager
    def _on_stream(self) -> Iterator[None]:
        """Work in here goes to this engine's device and stream."""
        with torch.cuda.device(self.model.placement.device), torch.cuda.stream(self._stream):
            yield

    def fp32_mode(self) -> AbstractContextManager[None]:
        """How torch computes with single precision here. Durations and F0 never go through TF32."""
        return fp32_precision("ieee", self._conv_precision, "ieee")


def largest_first(sizes: Sequence[int], most: int) -> list[int]:
    """The sizes up to `most`, largest first."""
    return [size for size in reversed(sizes) if size <= most]


@contextmanager
def fp32_precision(matmul: str, conv: str, rnn: str) -> Iterator[None]:
    """How torch computes with single precision in here; see `set_fp32_precision`."""
    before = set_fp32_precision(matmul, conv, rnn)
    try:
        yield
    finally:
        set_fp32_precision(*before)
