"""The shapes to capture while the device is idle."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from kokoro_server.engine.cuda.graph_cache import CudaGraphCache
from kokoro_server.engine.cuda.shapes import GraphShape, GraphShapes

ATTEMPTS = 2  # runs that a thread needs to capture a step; after that, a batch may ask again


class CaptureBacklog:
    """Shapes that batches have asked for come first, in that order; then the usual shapes.

    A usual shape is captured only while no other graph has to make room.
    """

    def __init__(self, shapes: GraphShapes, graphs: CudaGraphCache) -> None:
        self._shapes = shapes
        self._graphs = graphs
        self._asked: OrderedDict[GraphShape, int] = OrderedDict()  # attempts so far
        self._usual: OrderedDict[GraphShape, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._asked) + len(self._usual)

    def ask_for(self, shape: GraphShape) -> None:
        """Note a shape that a batch could have used."""
        self._asked.setdefault(shape, 0)

    def add(self, shapes: Iterable[GraphShape]) -> None:
        """Note usual shapes."""
        self._usual.update((shape, 0) for shape in shapes if shape not in self._graphs)

    def clear(self) -> None:
        self._asked.clear()
        self._usual.clear()

    def next(self) -> GraphShape | None:
        """The shape to run a step in now. Returned again until it is captured, ATTEMPTS times at most."""
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
        """Whether another shape now serves the batch that asked for this one."""
        return waiting is self._asked and self._shapes.choose(*shape, self._graphs.__contains__)[1]
