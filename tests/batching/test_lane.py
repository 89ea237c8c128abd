"""Any interleaving of adding, taking and discarding: sizes hold, a caller's entries go by age, nobody starves."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kokoro_server.batching.entry import Entry, Priority
from kokoro_server.batching.lane import Lane
from kokoro_server.engine.protocol import STYLE_DIM, Row

ROW = Row((1,), np.zeros(STYLE_DIM, np.float32))
frames = st.integers(1, 200)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abcd"), frames),
        st.tuples(st.just("take"), st.lists(st.integers(0, 7), min_size=1, max_size=4)),
        st.tuples(st.just("discard"), st.integers(0, 100)),
    ),
    max_size=60,
)


class World:
    """A lane and, as plainly as can be, what must be in it."""

    def __init__(self) -> None:
        self.lane = Lane()
        self.waiting: list[Entry] = []
        self.numbers = itertools.count()

    def add(self, caller: str, frames: int) -> Entry:
        future: Any = None  # the lane does not look at it
        entry = Entry(next(self.numbers), caller, ROW, "af_heart", Priority.NORMAL, frames, 0.0, 1.0, future)
        self.lane.add(entry)
        self.waiting.append(entry)
        return entry

    def take(self, places: list[int]) -> list[Entry]:
        """A batch of entries at these places of the order, as far as there are so many."""
        order = list(self.lane)
        taken = [order[place] for place in sorted(set(places)) if place < len(order)]
        self.lane.take(taken, lambda _: "")
        self.waiting = [entry for entry in self.waiting if entry not in taken]
        return taken

    def discard(self, which: int) -> None:
        if self.waiting:
            entry = self.waiting.pop(which % len(self.waiting))
            assert self.lane.discard(entry)
            assert not self.lane.discard(entry)

    def check(self) -> None:
        order = list(self.lane)
        assert sorted(entry.number for entry in order) == [entry.number for entry in self.waiting]
        assert (len(self.lane), self.lane.frames) == (len(order), sum(entry.frames for entry in order))
        if order:
            assert self.lane.head is order[0]
            assert self.lane.oldest is self.waiting[0]
        for caller in "abcd":
            own = [entry.number for entry in order if entry.caller == caller]
            assert own == sorted(own)
        assert set(self.lane._by_caller) == {entry.caller for entry in order}
        assert len(self.lane._turns) == len(self.lane._by_caller)


@given(script=actions)
def test_sizes_hold_and_a_callers_entries_go_by_age(script):
    world = World()
    for action, *details in script:
        getattr(world, action)(*details)
        world.check()


@given(script=actions)
def test_one_caller_alone_is_served_in_order_of_arrival(script):
    world = World()
    for action, *details in script:
        getattr(world, action)(*("a", *details[1:]) if action == "add" else details)
        assert list(world.lane) == world.waiting


@given(script=actions, newcomers=st.lists(frames, min_size=1, max_size=3), rows=st.integers(1, 4))
def test_everyone_is_served_though_new_callers_never_stop_coming(script, newcomers, rows):
    world = World()
    for action, *details in script:
        getattr(world, action)(*details)
    before = list(world.waiting)
    # What waits now, and for each of its frames one of each newcomer at most that is let in before it.
    work = sum(entry.frames for entry in before) + 200
    limit = work * (len(newcomers) + 4)
    for turn in range(limit):
        if not any(entry in world.waiting for entry in before):
            return
        for index, size in enumerate(newcomers[:rows]):
            world.add(f"new {turn} {index}", size)
        world.take([*range(rows)])
    raise AssertionError("an entry starves")


@given(lengths=st.lists(st.lists(frames, min_size=1, max_size=40), min_size=2, max_size=4), rows=st.integers(1, 4))
def test_callers_that_keep_waiting_get_the_same_to_within_two_entries(lengths, rows):
    world = World()
    callers = "abcd"[: len(lengths)]
    for caller, sizes in zip(callers, lengths, strict=True):
        for size in sizes:
            world.add(caller, size)
    longest = max(max(sizes) for sizes in lengths)
    served = dict.fromkeys(callers, 0)
    while {entry.caller for entry in world.waiting} == set(callers):
        assert max(served.values()) - min(served.values()) <= 2 * longest
        for entry in world.take([*range(rows)]):
            served[entry.caller] += entry.frames


def test_what_is_ahead_of_a_new_entry():
    world = World()
    assert world.lane.ahead_of("b") == (0, 0)
    for _ in range(100):
        world.add("a", 10)
    assert world.lane.ahead_of("a") == (100, 1000)
    assert world.lane.ahead_of("b") == (1, 10)
    for _ in range(5):
        world.add("b", 10)
    assert world.lane.ahead_of("b") == (11, 110)
    assert world.lane.ahead_of("a") == (105, 1050)
