"""The waiting entries, in lanes by priority, and the ageing that keeps them from starving."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence, Set
from dataclasses import dataclass
from operator import attrgetter

from kokoro_server.batching.entry import ALL, Entry, Priority
from kokoro_server.batching.lane import Lane

# The first entries, in batches' worth, among which a batch is formed. With more candidates, more entries are overtaken
# until they must go together whatever their lengths, which costs more than the choice gains.
CANDIDATE_BATCHES = 2
LANE_SKIP_LIMIT = 4  # batches in a row that a lane where something waits has no turn in
OVERTAKE_LIMIT = 4  # batches that may overtake an entry for a better fit in length
# Seconds by which a NEXT entry must be older than the first BYPASS entry to go before it. Its listener still has more
# audio than that to hear.
NEXT_AGEING = 0.25


@dataclass(slots=True, eq=False)
class Share:
    """The entries and expected requests of one caller, or of all."""

    entries: int = 0
    frames: int = 0
    expected: int = 0  # requests admitted whose entries are not yet here

    @property
    def size(self) -> int:
        return self.entries + self.expected


class Shares:
    """The shares of all callers in some of the lanes."""

    def __init__(self) -> None:
        self._by_caller: dict[str, Share] = {}  # without callers that have nothing here
        self.total = Share()

    def __len__(self) -> int:
        return len(self._by_caller)

    @property
    def callers(self) -> Set[str]:
        return self._by_caller.keys()

    def of(self, caller: str) -> Share:
        """For a look; it changes with the queue."""
        return self._by_caller.get(caller) or Share()

    def add(self, caller: str, *, entries: int = 0, frames: int = 0, expected: int = 0) -> None:
        own = self._by_caller.setdefault(caller, Share())
        for share in (own, self.total):
            share.entries += entries
            share.frames += frames
            share.expected += expected
        if not own.size:
            del self._by_caller[caller]

    def ahead_of(self, caller: str) -> int:
        """About how many expected requests one of this caller's would wait for: callers take turns."""
        own, others = self.of(caller).expected, len(self) - (caller in self._by_caller)
        return min(self.total.expected, own + others * (own + 1))


class PriorityLanes:
    """All lanes, and the count of requests that are expected in them.

    Bulk is counted apart: it goes behind all other lanes, so it must not cause other requests to be refused.
    """

    def __init__(self, *, by_voice: bool = False) -> None:
        """`by_voice`: only entries of the same voice overtake each other, as other voices cannot share their batch."""
        self._group: Callable[[Entry], str] = (lambda entry: entry.voice) if by_voice else (lambda _: "")
        self._lanes = {priority: Lane() for priority in Priority}
        self._size = 0
        self._urgent, self._bulk = Shares(), Shares()
        self.voices: Counter[str] = Counter()
        self.last_activity = float("-inf")  # when an entry last arrived, or a request ceased to be expected
        self.last_stream = float("-inf")  # when the first piece of a stream last arrived

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Entry]:
        for lane in self._lanes.values():
            yield from lane

    @property
    def frames(self) -> int:
        return sum(lane.frames for lane in self._lanes.values())

    @property
    def callers(self) -> int:
        return len(self._urgent.callers | self._bulk.callers)

    @property
    def expected(self) -> int:
        """Requests admitted whose entries are not yet here."""
        return self._urgent.total.expected + self._bulk.total.expected

    def lane(self, priority: Priority) -> Lane:
        return self._lanes[priority]

    def shares(self, priority: Priority) -> Shares:
        """Of bulk, or of all other lanes."""
        return self._bulk if priority == Priority.BULK else self._urgent

    def expect(self, caller: str, priority: Priority) -> None:
        """A request was admitted; `arrived` must follow."""
        self.shares(priority).add(caller, expected=1)

    def arrived(self, caller: str, priority: Priority, now: float) -> None:
        self.shares(priority).add(caller, expected=-1)
        self.last_activity = now  # its entry is about to arrive, if in a task not yet started

    def add(self, entry: Entry) -> None:
        self._lanes[entry.priority].add(entry)
        self._size += 1
        self.voices[entry.voice] += 1
        self.shares(entry.priority).add(entry.caller, entries=1, frames=entry.frames)
        self.last_activity = max(self.last_activity, entry.arrival)
        if entry.priority is Priority.BYPASS:
            self.last_stream = max(self.last_stream, entry.arrival)

    def discard(self, entry: Entry) -> bool:
        """Whether the entry was still waiting."""
        found = self._lanes[entry.priority].discard(entry)
        if found:
            self._uncount(entry)
        return found

    def promote(self, is_needed: Callable[[Entry], bool]) -> None:
        """Move the AHEAD entries that are needed into the lanes they asked for, and those that their listeners need
        before them.
        """
        waiting = sorted(self._lanes[Priority.AHEAD], key=attrgetter("number"))
        latest: dict[str, float] = {}  # by caller: the latest time at which one that is needed must be there
        needed = list[Entry]()
        for entry in reversed(waiting):
            if entry.runs_out <= latest.get(entry.caller, -math.inf) or is_needed(entry):
                latest[entry.caller] = max(latest.get(entry.caller, -math.inf), entry.runs_out)
                needed.append(entry)
        for entry in reversed(needed):
            self.discard(entry)
            entry.priority = entry.needed_lane
            self.add(entry)

    def oldest_arrival(self) -> float:
        return min(lane.oldest.arrival for lane in self._lanes.values() if lane)

    @property
    def urgent(self) -> int:
        """The entries that are not bulk."""
        return self._size - len(self._lanes[Priority.BULK])

    def leader(self, of: Container[Priority] = ALL) -> Entry:
        """The entry that the next batch is formed around: the head of a starved lane, else of the highest priority.

        In one of these lanes an entry must wait.
        """
        lanes = [lane for priority, lane in self._lanes.items() if lane and priority in of]
        # AHEAD does not starve: its entries go over into another lane in time.
        starved = max(lanes, key=lambda lane: -1 if lane is self._lanes[Priority.AHEAD] else lane.skipped)
        if starved is not self._lanes[Priority.AHEAD] and starved.skipped >= LANE_SKIP_LIMIT:
            return starved.head
        first, following = lanes[0].head, self._lanes[Priority.NEXT]
        if following not in lanes or following.head.arrival + NEXT_AGEING >= first.arrival:
            return first
        # A crowd of old NEXT entries delays another caller's first piece by one batch and no more.
        others_turn = lanes[0].skipped and following.head.caller != first.caller
        return first if others_turn else following.head

    def candidates(self, size: int, leader: Entry, of: Container[Priority] = ALL) -> list[Entry]:
        """The entries of these lanes that a batch may be formed from: at most `size`, by lane, in order of turns.

        A NORMAL leader has its turn once in a while, so its lane comes first.
        """
        has_turn = leader.priority is Priority.NORMAL
        found: list[Entry] = []
        for priority in sorted(self._lanes, key=lambda lane: (has_turn and lane is not Priority.NORMAL, lane)):
            if priority in of and len(found) < size:
                found.extend(itertools.islice(self._lanes[priority], size - len(found)))
        return found

    def take(self, entries: Sequence[Entry]) -> None:
        """Remove the entries of a batch, the leader first, and age those left behind."""
        taken: dict[Priority, list[Entry]] = {priority: [] for priority in Priority}
        for entry in entries:
            self._uncount(entry)
            taken[entry.priority].append(entry)
        for priority, lane in self._lanes.items():
            fills_up = priority is Priority.NORMAL and priority is not entries[0].priority
            lane.take(taken[priority], self._group, has_turn=not fills_up)

    def ahead_of(self, priority: Priority, caller: str | None) -> tuple[int, float, int]:
        """About what a new entry would wait for: entries, their frames, and expected requests.

        Without `caller`, all of its priority and above.
        """
        lanes = [self._lanes[lane] for lane in Priority if lane <= priority]
        shares = [self._urgent, self._bulk] if priority == Priority.BULK else [self._urgent]
        if caller is None:
            expected = sum(each.total.expected for each in shares)
            return sum(map(len, lanes)), sum(lane.frames for lane in lanes), expected
        ahead = [lane.ahead_of(caller) for lane in lanes]
        expected = sum(each.ahead_of(caller) for each in shares)
        return sum(rows for rows, _ in ahead), sum(frames for _, frames in ahead), expected

    def _uncount(self, entry: Entry) -> None:
        self._size -= 1
        self.voices[entry.voice] -= 1
        if not self.voices[entry.voice]:
            del self.voices[entry.voice]
        self.shares(entry.priority).add(entry.caller, entries=-1, frames=-entry.frames)
