"""An engine on its own CUDA stream: its buffers on the device, its CUDA graphs, its passes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor

from kokoro_server.engine.cuda import memory, output_buffer
from kokoro_server.engine.cuda.activity import StreamActivity
from kokoro_server.engine.cuda.backlog import CaptureBacklog
from kokoro_server.engine.cuda.graph_cache import CudaGraphCache
from kokoro_server.engine.cuda.kernels.compiling import only_compiling
from kokoro_server.engine.cuda.kernels.gate import checkpoint
from kokoro_server.engine.cuda.kernels.ops import gaussian_noise
from kokoro_server.engine.cuda.length_split import split_by_length
from kokoro_server.engine.cuda.pinned_buffers import PinnedBuffers
from kokoro_server.engine.cuda.shapes import FRAMES, ROWS, GraphShape, GraphShapes
from kokoro_server.engine.cuda.static_io import POSITIONS, StaticIO
from kokoro_server.engine.model.kokoro import BatchedKokoro, TextFeatures
from kokoro_server.engine.model.lengths import DeviceLengths
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, STYLE_DIM, EngineLimits, Gap, Result, Row
from kokoro_server.engine.rows import warmup_row
from kokoro_server.engine.torch_engine import TorchEngine, fp32_precision
from kokoro_server.runtime.machine import thread_count

log = logging.getLogger(__name__)

RUNS_TO_CAPTURE = 2  # one to choose kernels, one to capture
COMPILE_THREADS = 32  # each takes a core and some hundred megabytes for seconds
PASS_OVERHEAD_TOKENS = 3000  # padded tokens that take as long as one more pass beside a busy event loop

# Held around every step that is not replayed. The step may be captured, and then nothing may wait for the whole device.
# It also sets torch's fp32 precision for the whole process. So only one engine at a time may run such a step.
CAPTURE_LOCK = threading.Lock()


class StreamEngine(TorchEngine):
    """`protocol.Engine`. The rows of a batch share one host buffer, which lives as long as any row's audio.

    Two calls may be in flight. While the first waits for its audio, the rows of the second are staged and its kernels
    queued, so that the device does not wait for the host. The second's text step overlaps with copying out the first's
    audio.
    """

    kernels = "triton"

    def __init__(
        self, model: BatchedKokoro, rows: int, hidden: int, max_graphs: int, max_pinned_bytes: int, priority: int = 0
    ) -> None:
        """Call it on the device, then `set_limits`. Streams of lower `priority` are served first."""
        super().__init__(model, rows)
        device = model.placement.device
        self._stream = torch.cuda.Stream(priority=priority)  # type: ignore[no-untyped-call]
        self._copy_stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._activity = StreamActivity(self._stream)
        self._copy_done: torch.cuda.Event | None = None  # after it, `_audio` may be written again
        self._io_lock = threading.RLock()  # held by a batch until all of its work on the buffers is queued
        self._graphs = CudaGraphCache(max_graphs)
        self._pinned = PinnedBuffers(max_pinned_bytes)
        self._warm_threads: set[int] = set()
        self.conditions = (self._graphs.condition,)
        self.hidden = hidden
        self._io = StaticIO(rows, device)
        self._for_prosody = torch.zeros(rows, POSITIONS, hidden + STYLE_DIM // 2, device=device)
        self._for_decoder = torch.zeros(rows, POSITIONS, hidden, device=device)

    def set_limits(self, limits: EngineLimits, room: int) -> None:
        """`room` is the padded frames that memory is planned for, more than the predicted ones of a batch."""
        self._limits = limits
        self._room = room
        self._shapes = GraphShapes(room, limits.padding_weight, limits.max_rows)
        self._backlog = CaptureBacklog(self._shapes, self._graphs)
        samples = output_buffer.line_width(room) + output_buffer.line_width(0) * limits.max_rows
        self._audio = torch.zeros(samples, device=self.model.placement.device)
        self._audio_views: dict[tuple[int, int], Tensor] = {}  # of `_audio`, for each shape of the decode step

    def warmup(self) -> None:
        """Take the memory of the largest batch, and capture what a lone request needs. `background_step` captures the
        rest: a server that was started again answers seconds earlier.
        """
        started = time.perf_counter()
        super().warmup()
        with memory.explain_errors(self.model.placement.device), torch.inference_mode(), self._on_stream():
            try:
                self._run_dummies(self._shapes.largest("decode"), captured=False)
                for shape in [shape for shape in self._shapes.first() if shape.rows == 1]:
                    for _ in range(RUNS_TO_CAPTURE):
                        self._run_dummies(shape)
                self._backlog.add(self._usual_shapes())
            except torch.cuda.OutOfMemoryError:
                self.free_memory()
                log.warning("too little memory for the graphs of all usual shapes; each is recorded when it is needed")
        log.info("graphs recorded=%d seconds=%.1f", len(self._graphs), time.perf_counter() - started)

    def compile_kernels(self) -> None:
        """Compile the kernels of ordinary requests in parallel. Those in Triton's cache take no time."""
        with torch.inference_mode(), self._on_stream(), only_compiling(min(COMPILE_THREADS, thread_count())):
            for shape in self._shapes.to_compile():
                self._run_dummies(shape, captured=False)
            self._stream.synchronize()

    def background_step(self) -> bool:
        """`protocol.HasBackgroundWork`: capture what is missing, one run of one step at a time."""
        if threading.get_ident() not in self._warm_threads:
            self._warm_threads.add(threading.get_ident())
            self.synthesize([warmup_row()])
            return len(self._backlog) > 0
        with torch.inference_mode(), self._on_stream(), self._io_lock:
            shape = self._backlog.next()
            if shape is None:
                return False
            try:
                self._run_dummies(shape)
                self._stream.synchronize()
            except torch.cuda.OutOfMemoryError:
                self._backlog.clear()
                log.warning("too little memory for the graphs of all usual shapes; each is recorded when it is needed")
        return len(self._backlog) > 0

    def _run_dummies(self, shape: GraphShape, *, captured: bool = True) -> None:
        """Run a step on dummy rows. With `captured`, the second run of a shape captures it, as for any step."""
        kind, rows, size = shape
        if self._copy_done is not None:
            self._stream.wait_event(self._copy_done)
        if kind == "text":
            self._io.stage([], rows)
        else:
            self._io.frames.fill_(1)
        if not captured:
            step = self._text_step if kind == "text" else self._decode_step
            self._graphs.run_eagerly(lambda: step(rows, size))
        elif kind == "text":
            self._run_text(rows, size)
        else:
            self._run_decode(rows, size)

    def resources(self) -> dict[str, float]:
        """`protocol.ReportsResources`."""
        device = self.model.placement.device
        return {
            "graphs": len(self._graphs),
            "graphs_pending": len(self._backlog),
            "graph_captures": self._graphs.captures,
            "graph_evictions": self._graphs.evictions,
            "graph_bytes": self._graphs.pool_bytes,
            "device_bytes": torch.cuda.memory_allocated(device),
            "device_reserved_bytes": torch.cuda.memory_reserved(device),
            "pinned_bytes": self._pinned.bytes,
        }

    def busy_seconds(self) -> float:
        return self._activity.busy_seconds()

    def take_gaps(self) -> list[Gap]:
        return self._activity.take_gaps()

    def free_memory(self) -> None:
        """Free captured graphs and cached blocks."""
        with self._io_lock, self._on_stream():
            self._stream.synchronize()
            self._graphs.clear()
            torch.cuda.empty_cache()
            self._backlog.add(self._usual_shapes())

    def close(self) -> None:
        """`protocol.Closable`: free its memory on the device and its pinned memory on the host.

        Graphs go first: the memory that they use must not be freed while they could run. Torch then holds the memory,
        and `memory.release` releases it.
        """
        with self._io_lock, self._on_stream():
            self._stream.synchronize()
            self._copy_stream.synchronize()
            self._backlog.clear()
            self._graphs.clear()
            self._pinned.close()
        self._audio_views.clear()
        del self._audio, self._io, self._for_prosody, self._for_decoder, self._copy_done, self._activity, self.model

    def _usual_shapes(self) -> list[GraphShape]:
        """The shapes worth a graph before a batch asks for them."""
        return [*self._shapes.first(), *self._shapes.common()]

    def _run(self, rows: Sequence[Row]) -> list[Result]:
        parts = split_by_length([len(row.tokens) for row in rows], ROWS, PASS_OVERHEAD_TOKENS)
        with torch.inference_mode(), self._on_stream():
            return self._launch_parts(rows, parts)()

    def _launch_parts(self, rows: Sequence[Row], parts: Sequence[Sequence[int]]) -> Callable[[], list[Result]]:
        """`_launch` for each of `parts`, which are indices of `rows`."""
        launched = [(part, self._launch([rows[i] for i in part])) for part in parts]

        def finish() -> list[Result]:
            results = dict[int, Result]()
            for part, finish_part in launched:
                results.update(zip(part, finish_part(), strict=True))
            return [results[i] for i in range(len(rows))]

        return finish

    def _launch(self, rows: Sequence[Row]) -> Callable[[], list[Result]]:
        """Queue all work of a pass on the device. The function returned waits for its results.

        Only the text step shows how long the audio is. If memory is not planned for that, the pass is made in two.
        """
        io = self._io
        with self._io_lock:
            self._before_host_work()
            shape = self._shape("text", len(rows), max(len(row.tokens) for row in rows) + 2)
            io.stage(rows, shape.rows)
            with self._activity.step(first=True):
                self._run_text(shape.rows, shape.size)
            io.fetch()
            if self._copy_done is not None:
                self._stream.wait_event(self._copy_done)
            self._stream.synchronize()  # the number of frames decides the shape of the next step
            self._before_host_work()
            counts, durations = io.host_frames[: len(rows)].tolist(), io.host_durations[: len(rows)].copy()
            shape = self._shape("decode", len(rows), max(counts))
            if shape.load > self._room and len(rows) > 1:
                by_length = sorted(range(len(rows)), key=counts.__getitem__)
                return self._launch_parts(rows, (by_length[: len(rows) // 2], by_length[len(rows) // 2 :]))
            with self._activity.step():
                buffer = self._run_decode(shape.rows, shape.size)
            may_free = self._may_free_host_memory()
            pinned, host = self._pinned.acquire(len(rows), buffer.shape[1], may_free=may_free)
            copy_done = self._copy_done = self._copy_out(buffer, pinned)

        def finish() -> list[Result]:
            copy_done.synchronize()
            self._before_host_work()
            self._activity.collect()
            results = zip(rows, output_buffer.unpack(host, counts), durations, strict=True)
            return [Result(audio, spoken[: len(row.tokens) + 2].copy(), pcm) for row, (audio, pcm), spoken in results]

        return finish

    def _copy_out(self, buffer: Tensor, pinned: Tensor) -> torch.cuda.Event:
        """Queue a copy to the host. Returns the event of its end."""
        self._copy_stream.wait_stream(self._stream)
        with torch.cuda.stream(self._copy_stream):
            pinned.copy_(buffer[: len(pinned)], non_blocking=True)
            copy_done: torch.cuda.Event = self._copy_stream.record_event()
        return copy_done

    def _shape(self, kind: str, rows: int, size: int) -> GraphShape:
        """The shape to compute a step in. If it fits badly, a better one is captured when the device is idle."""
        # A step whose capture is due for another attempt counts as captured: else a larger one would always be used.
        shape, good = self._shapes.choose(
            kind, rows, size, lambda shape: shape in self._graphs or self._graphs.is_due(shape)
        )
        if not good:
            self._backlog.ask_for(self._shapes.fitting(kind, rows, size))
        return shape

    def _run_text(self, rows: int, tokens: int) -> None:
        self._run_step(GraphShape("text", rows, tokens), lambda: self._text_step(rows, tokens))

    def _run_decode(self, rows: int, frames: int) -> Tensor:
        """Queue the decode step. Returns the buffer of its audio, which is fixed for shapes in buckets."""
        if frames not in FRAMES or rows * output_buffer.line_width(frames) > len(self._audio):
            buffer = torch.empty(rows, output_buffer.line_width(frames), device=self._audio.device)
            buffer.record_stream(self._copy_stream)
            self._before_launch()
            with CAPTURE_LOCK:
                self._graphs.run_eagerly(lambda: self._decode_step(rows, frames, buffer))
            return buffer
        self._run_step(GraphShape("decode", rows, frames), lambda: self._decode_step(rows, frames))
        return self._static_audio(rows, frames)

    def _static_audio(self, rows: int, frames: int) -> Tensor:
        if (rows, frames) not in self._audio_views:
            width = output_buffer.line_width(frames)
            self._audio_views[rows, frames] = self._audio[: rows * width].view(rows, width)
        return self._audio_views[rows, frames]

    def _run_step(self, shape: GraphShape, step: Callable[[], None]) -> None:
        if shape in self._graphs:
            self._before_replay()
            self._graphs.run(shape, step)
            return
        self._before_launch()
        with CAPTURE_LOCK:
            self._graphs.run(shape, step)

    def _may_free_host_memory(self) -> bool:
        """Whether freeing memory, which waits for all work of the device, disturbs nobody."""
        return True

    def _before_host_work(self) -> None:
        """Called before rows are sent or read, which takes the GIL."""

    def _before_replay(self) -> None:
        """Called before a step is replayed."""

    def _before_launch(self) -> None:
        """Called before a step is launched kernel by kernel, under CAPTURE_LOCK."""

    def _checked(self, rows: int) -> AbstractContextManager[None]:  # noqa: ARG002
        """A context for the kernels of a step of `rows` rows, in which they may have to stop at a gate."""
        return nullcontext()

    def _text_step(self, rows: int, tokens: int) -> None:
        io = self._io
        lengths = DeviceLengths(io.counts[:rows], tokens, self.model.predictor_placement)
        ids = io.tokens[:rows, :tokens].contiguous()
        with self._checked(rows), fp32_precision("ieee", "ieee", "ieee"):
            features = self.model.read(ids, io.style[:rows], io.speed[:rows], lengths)
        # Including the rows beyond these: the decode step may have more.
        io.durations.zero_()
        io.durations[:rows, :tokens] = features.durations
        io.frames.fill_(1)
        io.frames[:rows] = features.durations.sum(1)
        self._for_prosody[:rows, :tokens] = features.for_prosody
        self._for_decoder[:rows, :tokens] = features.for_decoder

    def _decode_step(self, rows: int, frames: int, buffer: Tensor | None = None) -> None:
        io, model = self._io, self.model
        lengths = DeviceLengths(io.frames[:rows], frames, model.predictor_placement)
        text = TextFeatures(io.durations[:rows], self._for_prosody[:rows], self._for_decoder[:rows])
        features = text.aligned(io.style[:rows], lengths)
        with self._checked(rows), fp32_precision("ieee", "ieee", "ieee"):  # F0, like durations, never goes through TF32
            prosody = model.prosody(features)
            prosody = prosody.transposed(model.voiced(prosody), io.semitones[:rows])
        with self._checked(rows), self.fp32_mode():
            audio = model.audio(features, prosody, gaussian_noise(io.seeds[:rows], frames * SAMPLES_PER_FRAME))
            checkpoint()
        output_buffer.pack(self._static_audio(rows, frames) if buffer is None else buffer, audio, io.frames[:rows])

    @contextmanager
    def _on_stream(self) -> Iterator[None]:
        """Work inside goes to this engine's device and stream."""
        with torch.cuda.device(self.model.placement.device), torch.cuda.stream(self._stream):
            yield

    def fp32_mode(self) -> AbstractContextManager[None]:
        """Torch's single precision in the decoder: TF32 only where that is the engine's precision."""
        return fp32_precision("ieee", "tf32" if self.precision == "tf32" else "ieee", "ieee")
