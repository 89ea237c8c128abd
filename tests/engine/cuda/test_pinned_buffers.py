"""Buffers are reused, and given back when they were not needed for some time."""

from __future__ import annotations

import gc
import threading

import pytest
import torch

from kokoro_server.engine.cuda.pinned_buffers import IDLE_SECONDS, LEFT_BEHIND, SMALLEST, PinnedBuffers


class Host:
    """Stands in for pinned memory: counts what was allocated, and how often torch was asked to give memory back."""

    def __init__(self) -> None:
        self.allocated: list[int] = []
        self.emptied = 0
        self.now = 100.0

    def allocate(self, samples: int) -> torch.Tensor:
        self.allocated.append(samples)
        return torch.zeros(samples)

    def empty_cache(self) -> None:
        self.emptied += 1

    def buffers(self, limit: int = 2**30) -> PinnedBuffers:
        return PinnedBuffers(limit, self.allocate, self.empty_cache, now=lambda: self.now)


@pytest.fixture
def host() -> Host:
    return Host()


def kept(buffers: PinnedBuffers) -> int:
    gc.collect()
    return sum(map(len, buffers._free.values()))


def test_a_buffer_is_reused_once_nobody_looks_at_it(host: Host) -> None:
    buffers = host.buffers()
    tensor, view = buffers.acquire(2, 300)
    tensor[1, 5] = 7.0
    row = view[1, :10]
    assert row[5] == 7.0
    del tensor, view
    other, _ = buffers.acquire(2, 300)
    assert host.allocated == [SMALLEST] * 2
    assert row[5] == 7.0
    del row, other, _
    tensor, view = buffers.acquire(1, 10)
    assert len(host.allocated) == 2
    assert view.shape == tensor.shape == (1, 10)


def test_what_a_crowd_left_behind_is_given_back(host: Host) -> None:
    buffers = host.buffers()
    crowd = [buffers.acquire(4, SMALLEST) for _ in range(20)]
    assert kept(buffers) == 0
    del crowd
    assert kept(buffers) == 20
    for _ in range(10):  # two at a time are in use from now on
        pair = [buffers.acquire(4, SMALLEST) for _ in range(2)]
        del pair
        host.now += IDLE_SECONDS / 4
    assert kept(buffers) == 2
    assert len(host.allocated) == 20
    assert host.emptied == 1


def test_sizes_that_are_not_asked_for_any_more_are_given_back(host: Host) -> None:
    buffers = host.buffers()
    for rows in (1, 4, 16):
        buffers.acquire(rows, SMALLEST)
    assert kept(buffers) == 3
    host.now += IDLE_SECONDS + 1
    buffers.acquire(1, SMALLEST)
    assert (kept(buffers), host.emptied) == (1, 0)
    buffers.acquire(1, SMALLEST)
    assert (kept(buffers), host.emptied) == (1, 1)
    buffers.acquire(1, SMALLEST)
    assert host.emptied == 1


def test_the_thread_that_drops_the_last_view_frees_nothing(host: Host) -> None:
    buffers = host.buffers()
    held = [buffers.acquire(1, 10)]
    host.now += IDLE_SECONDS + 1
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert (kept(buffers), host.emptied) == (1, 0)


BLOCK_BYTES = SMALLEST * 4


def test_no_more_is_pinned_than_the_limit_allows(host: Host) -> None:
    buffers = host.buffers(limit=3 * BLOCK_BYTES)
    crowd = [buffers.acquire(1, SMALLEST) for _ in range(5)]
    assert len(host.allocated) == 3
    assert buffers.bytes == 3 * BLOCK_BYTES
    for number, (tensor, view) in enumerate(crowd):  # those beyond it work all the same
        tensor[0, 7] = number
        assert view[0, 7] == number
    del crowd, tensor, view
    assert kept(buffers) == 3


def test_free_buffers_of_other_sizes_make_room(host: Host) -> None:
    buffers = host.buffers(limit=3 * BLOCK_BYTES)
    crowd = [buffers.acquire(1, SMALLEST) for _ in range(3)]
    del crowd
    gc.collect()
    large = buffers.acquire(2, SMALLEST)
    assert host.allocated == [SMALLEST] * 3 + [2 * SMALLEST]
    assert buffers.bytes == 3 * BLOCK_BYTES
    del large


def test_what_is_given_back_does_not_count(host: Host) -> None:
    buffers = host.buffers()
    buffers.acquire(1, 10)
    gc.collect()
    host.now += IDLE_SECONDS + 1
    buffers.acquire(4, SMALLEST)
    assert buffers.bytes == 4 * BLOCK_BYTES


def test_what_is_closed_keeps_nothing_but_what_is_looked_at(host: Host) -> None:
    buffers = host.buffers()
    first, second = (buffers.acquire(2, 300)[1] for _ in range(2))
    del first
    gc.collect()
    assert kept(buffers) == 1
    buffers.close()
    assert kept(buffers) == buffers.bytes == 0
    second[0, 0] = 7.0
    assert second[0, 0] == 7.0
    thread = threading.Thread(target=lambda view: None, args=(second,))
    del second
    thread.start()
    thread.join()
    del thread
    gc.collect()
    assert len(LEFT_BEHIND) == 1  # not freed by whichever thread looked last
    others = host.buffers()
    others.acquire(1, 10)
    assert len(LEFT_BEHIND) == 0
    others.acquire(1, 10)
    assert host.emptied == 1


def test_nothing_is_given_back_while_somebody_would_have_to_wait_for_it(host: Host) -> None:
    buffers = host.buffers()
    for _ in range(2):
        buffers.acquire(1, SMALLEST)
    gc.collect()
    host.now += 10 * IDLE_SECONDS
    for _ in range(2):
        buffers.acquire(1, 2 * SMALLEST, may_free=False)
    assert (kept(buffers), host.emptied) == (2, 0)
    for _ in range(2):
        buffers.acquire(1, 2 * SMALLEST)
    assert host.emptied == 1
