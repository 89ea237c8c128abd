"""Which shape a batch is computed in, and what is captured while the device is idle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from kokoro_server.engine.cuda.backlog import CaptureBacklog
from kokoro_server.engine.cuda.shapes import BUCKETS, MAX_ROWS, ROWS, GraphShape, GraphShapes, largest_load

H200 = GraphShapes(40_960, 0.27)
SLOW_PADDING = GraphShapes(40_960, 1.0)


@dataclass
class Graphs:
    """Stands in for the cache: a shape that has been run twice is captured."""

    limit: int = 384
    captured: set[GraphShape] = field(default_factory=set)

    def __contains__(self, shape: object) -> bool:
        return shape in self.captured

    def __len__(self) -> int:
        return len(self.captured)


def batches() -> Iterator[tuple[str, int, int]]:
    for rows in (1, 2, 3, 5, 7, 12, 20, 33, 48, 64):
        for kind, sizes in {"text": (5, 30, 70, 130), "decode": (40, 100, 200, 330)}.items():
            yield from ((kind, rows, size) for size in sizes)


@pytest.mark.parametrize("shapes", [H200, SLOW_PADDING, GraphShapes(2048, 1.0)])
def test_no_shape_is_larger_than_memory_allows(shapes: GraphShapes) -> None:
    frames = [shape.load for shape in (*shapes.first(), *shapes.common()) if shape.kind == "decode"]
    assert 0 < max(frames) <= shapes._max_padded_frames
    assert shapes.first()[0].load == max(shape.load for shape in shapes.first())


def test_the_first_takes_the_memory_that_all_others_need() -> None:
    assert H200.first()[0] == GraphShape("decode", MAX_ROWS, 640)
    assert len(H200.first()) < 80
    assert set(H200.to_compile()) <= set(H200.first())


@pytest.mark.parametrize("frames", [2048, 9_000, 21_504, 40_960])
def test_the_largest_load_is_that_of_the_first_shape(frames: int) -> None:
    assert 0.8 * frames < largest_load(frames) <= frames
    assert GraphShapes(frames, 1.0).largest("decode").load == largest_load(frames)


def test_with_the_first_graphs_an_ordinary_batch_is_never_launched_kernel_by_kernel() -> None:
    captured = set(H200.first())
    for kind, rows, size in batches():
        shape, _ = H200.choose(kind, rows, size, captured.__contains__)
        assert shape in captured
        assert shape.rows >= rows
        assert shape.size >= size


def test_when_all_is_captured_nothing_is_asked_for() -> None:
    captured = {*H200.first(), *H200.common()}
    assert all(H200.choose(kind, rows, size, captured.__contains__)[1] for kind, rows, size in batches())


def test_what_fits_best_is_taken() -> None:
    captured = {GraphShape("decode", 4, 160), GraphShape("decode", 4, 256), GraphShape("decode", 8, 160)}
    assert H200.choose("decode", 3, 150, captured.__contains__) == (GraphShape("decode", 4, 160), False)
    assert H200.choose("decode", 4, 150, captured.__contains__) == (GraphShape("decode", 4, 160), True)
    assert H200.choose("decode", 7, 100, captured.__contains__) == (GraphShape("decode", 8, 160), False)


def test_padding_that_would_take_longer_than_the_launches_is_not_taken() -> None:
    captured = {GraphShape("decode", 64, 640)}
    for shapes in (H200, SLOW_PADDING):
        assert shapes.choose("decode", 1, 100, captured.__contains__) == (GraphShape("decode", 1, 112), False)
    assert H200.choose("decode", 48, 600, captured.__contains__)[0] == GraphShape("decode", 64, 640)


def test_what_can_never_be_captured_is_not_asked_for() -> None:
    assert H200.choose("decode", 1, 3000, lambda _: False) == (GraphShape("decode", 1, 3000), True)
    assert H200.choose("decode", 64, 1000, lambda _: False) == (GraphShape("decode", 64, 1024), True)


@pytest.fixture
def graphs() -> Graphs:
    return Graphs()


@pytest.fixture
def backlog(graphs: Graphs) -> CaptureBacklog:
    return CaptureBacklog(H200, graphs)  # type: ignore[arg-type]


def work_off(backlog: CaptureBacklog, graphs: Graphs) -> list[GraphShape]:
    """Capture all that is to be captured. Returns the runs."""
    runs: list[GraphShape] = []
    while (shape := backlog.next()) is not None:
        if shape in runs:
            graphs.captured.add(shape)
        runs.append(shape)
    return runs


def test_each_is_run_and_then_captured(backlog: CaptureBacklog, graphs: Graphs) -> None:
    graphs.captured.update(H200.first())
    backlog.add(H200.common())
    runs = work_off(backlog, graphs)
    assert len(backlog) == 0
    assert {*H200.first(), *H200.common()} == graphs.captured
    assert len(runs) == 2 * len(set(runs))


def test_what_a_batch_asked_for_comes_first(backlog: CaptureBacklog, graphs: Graphs) -> None:
    backlog.add([GraphShape("text", 1, 32)])
    backlog.ask_for(asked := GraphShape("decode", 3, 64))
    backlog.ask_for(asked)
    assert len(backlog) == 2
    assert work_off(backlog, graphs) == [asked, asked, GraphShape("text", 1, 32), GraphShape("text", 1, 32)]


def test_what_another_shape_now_does_is_not_captured(backlog: CaptureBacklog, graphs: Graphs) -> None:
    backlog.ask_for(GraphShape("decode", 3, 64))
    graphs.captured.add(GraphShape("decode", 3, 80))
    assert work_off(backlog, graphs) == []


def test_a_capture_that_fails_is_not_tried_for_ever(backlog: CaptureBacklog) -> None:
    backlog.add([GraphShape("text", 1, 32)])
    assert [backlog.next() is not None for _ in range(4)] == [True, True, False, False]


def test_no_graph_in_use_goes_for_one_that_nobody_asked_for(backlog: CaptureBacklog, graphs: Graphs) -> None:
    graphs.limit = 1
    graphs.captured.add(GraphShape("text", 1, 512))
    backlog.add(H200.common())
    assert backlog.next() is None
    backlog.ask_for(GraphShape("decode", 3, 64))
    assert backlog.next() == GraphShape("decode", 3, 64)


def test_every_shape_is_of_buckets() -> None:
    for shape in (*H200.first(), *H200.common()):
        assert shape.rows in ROWS
        assert shape.size in BUCKETS[shape.kind]
