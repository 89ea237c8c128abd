"""The shapes that are still to be captured while the device is idle."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from kokoro_server.engine.cuda.graph_cache import CudaGraphCache
from kokoro_server.engine.cuda.shapes import GraphShape, GraphShapes

ATTEMPTS = 2  # runs of a step that a thread needs to capture it; if it is not captured then, a batch may ask again


class CaptureBacklog:
    """What batches have asked for comes first, the latest last; then what is usual.

    What is usual is captured only as long as no other graph has to go for it.
    """

    def __init__(self, shapes: GraphShapes, graphs: CudaGraphCache) -> None:
        self._shapes = shapes
        self._graphs = graphs
        self._asked: OrderedDict[GraphShape, int] = OrderedDict()  # attempts so far
        self._usual: OrderedDict[GraphShape, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._asked) + len(self._usual)

    def ask_for(self, shape: GraphShape) -> None:
        """A batch could have used it."""
        self._asked.setdefault(shape, 0)

    def add(self, shapes: Iterable[GraphShape]) -> None:
        """These are usual."""
        self._usual.update((shape, 0) for shape in shapes if shape not in self._graphs)

    def clear(self) -> None:
        self._asked.clear()
        self._usual.clear()

    def next(self) -> GraphShape | None:
        """The shape to run a step in now. It comes again until it is captured, or has been often enough."""
        if len(self._graphs) >= self._graphs.limit:
            self._usual.clear()
        for waiting in (self._asked, self._usual):
            while waiting:
                shape, attempts = next(iter(waiting.items()))
                if attempts < ATTEMPTS and shape not in self._graphs and not self._is_served(shape, waiting):
                    waiting[shape] += 1
                    return shape
                del waiting[shape]
        return None

    def _is_served(self, shape: GraphShape, waiting: OrderedDict[GraphShape, int]) -> bool:
        """Whether a batch that asked for it does well enough now with another."""
        return waiting is self._asked and self._shapes.choose(*shape, self._graphs.__contains__)[1]
