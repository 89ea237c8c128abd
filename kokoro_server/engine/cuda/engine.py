"""The engine on an NVIDIA GPU: fused kernels, half precision where the ear cannot tell, CUDA graphs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from kokoro_server.engine.cuda import output_buffer
from kokoro_server.engine.cuda.graph_cache import Graphs, Ladder
from kokoro_server.engine.cuda.length_split import divided
from kokoro_server.engine.cuda.ops import Fused, draw
from kokoro_server.engine.cuda.pinned_buffers import HostBuffers
from kokoro_server.engine.cuda.static_io import POSITIONS, Desk
from kokoro_server.engine.model.kokoro import BatchedKokoro, Reading
from kokoro_server.engine.model.lengths import DeviceSpan
from kokoro_server.engine.protocol import MAX_TOKENS, SAMPLES_PER_FRAME, STYLE_DIM, Limits, Result, Row
from kokoro_server.engine.torch_engine import TorchEngine

log = logging.getLogger(__name__)

MAX_ROWS = 64  # more gain nothing: the device is full
GRAPHS = 512  # recorded steps kept at most

ROWS = Ladder((4, 1), (8, 2), (16, 4), (32, 8), (MAX_ROWS, 16))
TOKENS = Ladder((128, 16), (256, 32), (POSITIONS, 64))
FRAMES = Ladder((256, 16), (512, 32), (1024, 64), (2048, 128))

# What warm-up records: the shapes of most sentences, and of long ones beside few others.
COMMON_TOKENS = (32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 384, 512)
COMMON_FRAMES = (64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 768, 1024)
COMMON_LOAD = MAX_ROWS * 384  # rows × frames at most; half as many tokens
SHAPES = {"read": (TOKENS, COMMON_TOKENS), "speak": (FRAMES, COMMON_FRAMES)}
SLACK = 0.135  # how much longer a recorded shape may take than the one that fits
RUNS_TO_RECORD = 2  # one to compile and choose kernels, one to record

# Peak memory of one padded frame beyond the weights, in tensors of the generator's last stage. Measured on an H200: 6
# are alive at once, and graphs have a memory pool of their own beside that of steps not recorded yet.
TENSORS_PER_FRAME = 14
LAST_STAGE = 120 * 128  # steps per frame × channels
MAX_PADDED_FRAMES = 40_960  # 17 minutes of audio: a larger batch would only make its rows wait

# Of a batch's time on an H200, beside what is fixed, the share that goes by its frames with padding: our convolutions
# leave padding out, the rest does not. Fitted to 1 to 64 rows, alike and mixed: 3 % off, 6 % at most.
PADDING = 0.27
PASS = 3000  # tokens, padding among them, that take as long as another pass beside a busy event loop

# Whatever is not played back: it may be recorded, which nothing that waits for the whole device must disturb, and it
# sets torch's precision, which is one for the whole process. So of several engines, one at a time.
LAUNCHING = threading.Lock()

PRECISIONS = {"fp16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "fp32": torch.float32}


class CudaEngine(TorchEngine):
    """`protocol.Engine`. The rows of a batch share one host buffer: it lives as long as any row's audio does.

    Two calls may be under way: while one waits for its audio, the other's rows are laid out and its kernels queued
    behind those of the first, so that the device does not wait for the host. The text side of the second overlaps with
    copying out the audio of the first.
    """

    def __init__(
        self,
        reference: Any,
        device: torch.device,
        precision: str = "fp16",
        memory_fraction: float = 0.9,
        sharers: int = 1,
    ) -> None:
        """`memory_fraction` is what this process may take of the device, and `sharers` how many engines it is for."""
        if device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        memory = torch.cuda.get_device_properties(device).total_memory * memory_fraction / sharers
        memory += torch.cuda.memory_allocated(device)  # by the others
        torch.cuda.set_per_process_memory_fraction(memory_fraction, device)
        dtype = PRECISIONS[precision]
        self.precision = precision
        kernels = Fused(device, split=precision != "fp32")
        # Where `fine_conv` has kernels of its own, the rest is two convolutions of one channel.
        by_the_book = precision == "fp32" or (dtype.itemsize == 2 and kernels.hopper)
        self._convolutions = "ieee" if by_the_book else "tf32"
        with torch.cuda.device(device):
            super().__init__(BatchedKokoro(reference, device, dtype, torch.float32, kernels=kernels), MAX_ROWS)
            self._stream, self._copying = torch.cuda.Stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self._copied: torch.cuda.Event | None = None  # when the room for audio is free again
            self._turn = threading.Lock()  # whose the desk is, until all of its batch's work is queued
            self._graphs = Graphs(GRAPHS)
            self._buffers = HostBuffers()
            self._desk = Desk(MAX_ROWS, device)
            hidden = reference.text_encoder.embedding.embedding_dim
            self._prosody = torch.zeros(MAX_ROWS, POSITIONS, hidden + STYLE_DIM // 2, device=device)
            self._text = torch.zeros(MAX_ROWS, POSITIONS, hidden, device=device)
        memory -= torch.cuda.memory_allocated(device)
        fitting = int(memory / (TENSORS_PER_FRAME * LAST_STAGE * dtype.itemsize))
        self._limits = Limits(
            max_tokens=MAX_TOKENS,
            max_rows=MAX_ROWS,
            max_padded_frames=min(MAX_PADDED_FRAMES, fitting),
            row_buckets=tuple(ROWS.rungs),
            padding_weight=PADDING if dtype.itemsize == 2 and kernels.hopper else 1.0,
            max_in_flight=2,
        )
        room = output_buffer.width(self._limits.max_padded_frames) + output_buffer.width(0) * MAX_ROWS
        self._audio = torch.zeros(room, device=device)
        self._rooms: dict[tuple[int, int], Tensor] = {}  # views of it that a step's audio is left in

    def warmup(self) -> None:
        """Records graphs for the usual shapes; seconds, or a minute the first time, when kernels are compiled."""
        started = time.perf_counter()
        super().warmup()
        with torch.inference_mode(), self._session():
            for rows in reversed(ROWS.rungs):  # the largest first: the others fit into the memory that it took
                log.info("recording graphs rows=%d", rows)
                for tokens in largest_first(COMMON_TOKENS, COMMON_LOAD // 2 // rows):
                    self._desk.lay_out([], rows)
                    for _ in range(RUNS_TO_RECORD):
                        self._reading(rows, tokens)
                for frames in largest_first(COMMON_FRAMES, min(COMMON_LOAD, self._limits.max_padded_frames) // rows):
                    self._desk.frames.fill_(frames)
                    for _ in range(RUNS_TO_RECORD):
                        self._speaking(rows, frames)
        log.info("graphs recorded=%d seconds=%.1f", len(self._graphs), time.perf_counter() - started)

    def free_memory(self) -> None:
        """Give back what is not in use: recorded graphs and cached blocks."""
        with self._turn:
            self._stream.synchronize()
            self._graphs.clear()
            torch.cuda.empty_cache()

    def _run(self, rows: Sequence[Row]) -> list[Result]:
        parts = divided([len(row.tokens) for row in rows], ROWS, PASS)
        results: dict[int, Result] = {}
        with torch.inference_mode(), self._session():
            begun = [(part, self._begin([rows[i] for i in part])) for part in parts]
            for part, finish in begun:
                results.update(zip(part, finish(), strict=True))
        return [results[i] for i in range(len(rows))]

    def _begin(self, rows: Sequence[Row]) -> Callable[[], list[Result]]:
        """Have the device speak; the function waits for the audio."""
        size, desk = ROWS.up(len(rows)), self._desk
        with self._turn:
            desk.lay_out(rows, size)
            self._reading(size, self._rung("read", size, max(len(row.tokens) for row in rows) + 2))
            desk.fetch()
            if self._copied is not None:
                self._stream.wait_event(self._copied)
            self._stream.synchronize()  # how many frames there are decides what comes next
            counts, durations = desk.seen_frames[: len(rows)].tolist(), desk.seen_durations[: len(rows)].copy()
            block = self._speaking(size, self._rung("speak", size, max(counts)))
            sound, seen = self._buffers.take(len(rows), block.shape[1])
            copied = self._copied = self._copy_out(block, sound)

        def finish() -> list[Result]:
            copied.synchronize()
            found = zip(rows, output_buffer.rows(seen, counts), durations, strict=True)
            return [
                Result(audio, lengths[: len(row.tokens) + 2].copy(), ready) for row, (audio, ready), lengths in found
            ]

        return finish

    def _copy_out(self, block: Tensor, sound: Tensor) -> torch.cuda.Event:
        """When `sound` will be there."""
        self._copying.wait_stream(self._stream)
        with torch.cuda.stream(self._copying):
            sound.copy_(block[: len(sound)], non_blocking=True)
            copied: torch.cuda.Event = self._copying.record_event()
        return copied

    def _rung(self, kind: str, rows: int, size: int) -> int:
        """The rung for a size, or one of the next where only that is recorded.

        More frames cost less than a step that is launched kernel by kernel and then recorded, which takes a tenth of a
        second or several, most of it the interpreter's.
        """
        ladder, common = SHAPES[kind]
        rungs = ladder.near(size, max(common[0], size * (1 + SLACK / self._limits.padding_weight)))
        return next((rung for rung in rungs if (kind, rows, rung) in self._graphs), rungs[0])

    def _reading(self, rows: int, tokens: int) -> None:
        self._play(("read", rows, tokens), lambda: self._read(rows, tokens))

    def _speaking(self, rows: int, frames: int) -> Tensor:
        """The block that the audio will be in: for shapes on the ladders the same each time, as recorded."""
        width = output_buffer.width(frames)
        if frames not in FRAMES or rows * width > len(self._audio):
            block = torch.empty(rows, width, device=self._audio.device)
            block.record_stream(self._copying)
            with LAUNCHING:
                self._speak(rows, frames, block)
            return block
        if (rows, frames) not in self._rooms:
            self._rooms[rows, frames] = self._audio[: rows * width].view(rows, width)
        block = self._rooms[rows, frames]
        self._play(("speak", rows, frames), lambda: self._speak(rows, frames, block))
        return block

    def _play(self, key: tuple[str, int, int], step: Callable[[], None]) -> None:
        with nullcontext() if key in self._graphs else LAUNCHING:
            self._graphs.run(key, step)

    def _read(self, rows: int, tokens: int) -> None:
        desk = self._desk
        span = DeviceSpan(desk.counts[:rows], tokens, self.model.exact)
        ids = desk.tokens[:rows, :tokens].contiguous()
        with self.arithmetic():
            reading = self.model.read(ids, desk.style[:rows], desk.speed[:rows], span)
        desk.durations[:rows].zero_()
        desk.durations[:rows, :tokens] = reading.durations
        desk.frames[:rows] = reading.durations.sum(1)
        self._prosody[:rows, :tokens] = reading.prosody
        self._text[:rows, :tokens] = reading.text

    def _speak(self, rows: int, frames: int, block: Tensor) -> None:
        desk, model = self._desk, self.model
        span = DeviceSpan(desk.frames[:rows], frames, model.exact)
        reading = Reading(desk.durations[:rows], self._prosody[:rows], self._text[:rows])
        plan = reading.aligned(desk.style[:rows], span)
        with self.arithmetic():
            curves = model.curves(plan)
            curves = curves.transposed(model.voiced(curves), desk.semitones[:rows])
            audio = model.audio(plan, curves, draw(desk.seeds[:rows], frames * SAMPLES_PER_FRAME))
        output_buffer.fill(block, audio, desk.frames[:rows])

    @contextmanager
    def _session(self) -> Iterator[None]:
        """On this engine's device and stream."""
        with torch.cuda.device(self.model.place.device), torch.cuda.stream(self._stream):
            yield

    def arithmetic(self) -> AbstractContextManager[None]:
        """How this engine has torch compute with single precision: whatever decides durations and F0, by the book."""
        return single_precision("ieee", self._convolutions, "ieee")


def largest_first(sizes: Sequence[int], most: int) -> list[int]:
    """Those not beyond `most`."""
    return [size for size in reversed(sizes) if size <= most]


@contextmanager
def single_precision(products: str, convolutions: str, recurrences: str) -> Iterator[None]:
    """How torch computes with single precision in here: "ieee", or "tf32", which is faster and rounds to 11 bits."""
    backends = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)  # type: ignore[attr-defined]
    before = [backend.fp32_precision for backend in backends]

    def apply(modes: Iterable[str]) -> None:
        for backend, mode in zip(backends, modes, strict=True):
            backend.fp32_precision = mode

    apply((products, convolutions, recurrences))
    try:
        yield
    finally:
        apply(before)
