"""The shapes in which steps are captured, and the choice of one for a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kokoro_server.engine.cuda.graph_cache import Buckets
from kokoro_server.engine.cuda.static_io import POSITIONS

MAX_ROWS = 64  # more gain nothing: they fill the device

ROWS = Buckets((4, 1), (8, 2), (16, 4), (32, 8), (MAX_ROWS, 16))
TOKENS = Buckets((128, 16), (256, 32), (POSITIONS, 64))
FRAMES = Buckets((256, 16), (512, 32), (1024, 64), (2048, 128))
BUCKETS = {"text": TOKENS, "decode": FRAMES}

# Captured before the first request. Any ordinary batch fits into one of these at little cost.
FIRST_ROWS = (1, 2, 4, 8, 16, 32, 64)
FIRST = {"text": (64, 128, 192, 256, 512), "decode": (96, 160, 256, 384, 512, 1024)}
COMPILE_ROWS = (64, 32, 8, 2, 1)  # the LSTMs have a different kernel for each
# Captured while the device is idle: the shapes of most sentences, and of long ones in small batches.
COMMON = {
    "text": (32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 384, 512),
    "decode": (64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 768, 1024),
}
COMMON_LOAD = {"text": MAX_ROWS * 192, "decode": MAX_ROWS * 384}  # the largest rows × size that is captured unasked

BUCKET_SLACK = 0.135  # a captured shape may take longer by this share than the one that fits

# A step that is not captured is launched kernel by kernel, which takes 20 to 50 ms of the interpreter. Padding of this
# size, in tokens and in frames, takes an H200 less than that.
EAGER_COST = {"text": 8000, "decode": 4000}


class GraphShape(NamedTuple):
    kind: str  # "text" or "decode"
    rows: int
    size: int  # tokens or frames

    @property
    def load(self) -> int:
        return self.rows * self.size


def largest_load(frames: int) -> int:
    """The padded frames of the largest shape that `frames` allow. No other one has larger tensors.

    The pool keeps the tensors' memory in pieces of their sizes. A shape of larger ones would take as much again.
    """
    return max(size * MAX_ROWS for size in FRAMES.sizes if size * MAX_ROWS <= frames)


class GraphShapes:
    def __init__(self, max_padded_frames: int, padding_weight: float, max_rows: int = MAX_ROWS) -> None:
        self._max_padded_frames = max_padded_frames
        self._padding_weight = padding_weight
        self._max_rows = max_rows

    def first(self) -> list[GraphShape]:
        """The shapes that warm-up captures. The largest comes first: the rest fit into its memory."""
        sizes = [size for size in FRAMES.sizes if size * self._max_rows <= self._max_padded_frames]
        largest = GraphShape("decode", self._max_rows, sizes[-1]) if sizes else None
        shapes = {*self._all(FIRST_ROWS, FIRST), *([largest] if largest else [])}
        return sorted(shapes, key=lambda shape: (shape.load, shape), reverse=True)

    def to_compile(self) -> list[GraphShape]:
        """A few shapes that together use all kernels, the largest first."""
        first = self.first()
        largest = [self.largest(kind) for kind in BUCKETS]
        smallest = [GraphShape(kind, rows, FIRST[kind][0]) for rows in COMPILE_ROWS for kind in BUCKETS]
        return largest + [shape for shape in smallest if shape in first]

    def largest(self, kind: str) -> GraphShape:
        """The first shape of its kind. No step needs more memory than the largest decode step."""
        return next(shape for shape in self.first() if shape.kind == kind)

    def common(self) -> list[GraphShape]:
        """The shapes worth a graph before a batch asks for them, small ones first."""
        return sorted(self._all(ROWS.sizes, COMMON), key=lambda shape: (shape.load, shape))

    def _all(self, row_counts: Sequence[int], sizes: Mapping[str, tuple[int, ...]]) -> list[GraphShape]:
        counts = [rows for rows in row_counts if rows <= self._max_rows]
        shapes = [GraphShape(kind, rows, size) for rows in counts for kind in sizes for size in sizes[kind]]
        most = COMMON_LOAD | {"decode": min(COMMON_LOAD["decode"], self._max_padded_frames)}
        return [shape for shape in shapes if shape.load <= most[shape.kind]]

    @staticmethod
    def fitting(kind: str, rows: int, size: int) -> GraphShape:
        """The smallest shape in buckets that holds the batch."""
        return GraphShape(kind, ROWS.round_up(rows), BUCKETS[kind].round_up(size))

    def choose(self, kind: str, rows: int, size: int, usable: Callable[[GraphShape], bool]) -> tuple[GraphShape, bool]:
        """The shape to compute a batch in, and whether it is good enough for good.

        That is the bucket that fits, or one a little larger where only that is `usable`. A much larger one, also of
        more rows, serves for now if it takes less time than launching all kernels one by one.
        """
        buckets = BUCKETS[kind]
        slack = size * (1 + BUCKET_SLACK / self._padding_weight)
        candidates = buckets.candidates(size, max(COMMON[kind][0], slack))
        fitting = self.fitting(kind, rows, size)
        for bucket in candidates:
            if usable(shape := fitting._replace(size=bucket)):
                return shape, True
        if fitting.size not in buckets or (kind == "decode" and fitting.load > self._max_padded_frames):
            return fitting, True  # never captured
        weight = self._padding_weight if kind == "decode" else 1.0
        most = fitting.load + EAGER_COST[kind] / weight
        larger = [
            shape
            for count in ROWS.sizes
            if count >= rows
            for bucket in buckets.sizes
            if bucket >= size and count * bucket <= most and usable(shape := GraphShape(kind, count, bucket))
        ]
        return min(larger, key=lambda shape: shape.load, default=fitting), False
