"""The entries that wait, in lanes by priority, oldest first in each; and the ageing that keeps them from starving."""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence

from kokoro_server.batching.entry import Entry, Priority

# The oldest entries, in batches' worth, among which a batch is formed. With more candidates, more entries are overtaken
# until they must go together whatever their lengths, which costs more than the choice gains.
CANDIDATE_BATCHES = 2
LANE_SKIP_LIMIT = 4  # batches in a row that may take nothing from a lane where something waits
OVERTAKE_LIMIT = 4  # batches that may overtake an entry for a better fit in length
# Seconds by which a NEXT entry must be older than the first BYPASS entry to go before it. The audio that its listener
# still has to hear lasts longer.
NEXT_AGEING = 0.3


class Lane:
    """Entries of one priority in order of arrival. Adding and removing take constant time."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self.frames = 0
        self.skipped = 0  # batches in a row that took nothing from here while something waited

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    @property
    def head(self) -> Entry:
        return next(iter(self))

    def add(self, entry: Entry) -> None:
        self._entries[entry.number] = entry
        self.frames += entry.frames

    def discard(self, entry: Entry) -> bool:
        found = self._entries.pop(entry.number, None) is not None
        if found:
            self.frames -= entry.frames
        return found

    def age(self, taken: Sequence[Entry], group: Callable[[Entry], str]) -> None:
        """Count whom a batch skipped or overtook. `taken` are this lane's entries in it, already removed."""
        self.skipped = 0 if taken or not self._entries else self.skipped + 1
        newest: dict[str, int] = {}
        for entry in taken:
            newest[group(entry)] = max(entry.number, newest.get(group(entry), -1))
        last = max(newest.values(), default=-1)
        for entry in itertools.takewhile(lambda entry: entry.number < last, self):
            entry.overtaken += entry.number < newest.get(group(entry), -1)


class PriorityLanes:
    """All lanes, and the count of requests that are on their way into them."""

    def __init__(self, *, by_voice: bool = False) -> None:
        """`by_voice`: only entries of the same voice overtake each other, as other voices cannot share their batch."""
        self._group: Callable[[Entry], str] = (lambda entry: entry.voice) if by_voice else (lambda _: "")
        self._lanes = {priority: Lane() for priority in Priority}
        self._size = 0
        self.voices: Counter[str] = Counter()
        self.last_activity = float("-inf")  # when an entry last arrived, or a request ceased to be on its way
        self.expected = 0  # requests admitted whose entries are not yet here

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Entry]:
        for lane in self._lanes.values():
            yield from lane

    @property
    def frames(self) -> int:
        return sum(lane.frames for lane in self._lanes.values())

    def lane(self, priority: Priority) -> Lane:
        return self._lanes[priority]

    def add(self, entry: Entry) -> None:
        self._lanes[entry.priority].add(entry)
        self._size += 1
        self.voices[entry.voice] += 1
        self.last_activity = entry.arrival

    def discard(self, entry: Entry) -> bool:
        """Whether the entry was still waiting."""
        found = self._lanes[entry.priority].discard(entry)
        if found:
            self._size -= 1
            self.voices[entry.voice] -= 1
            if not self.voices[entry.voice]:
                del self.voices[entry.voice]
        return found

    def oldest_arrival(self) -> float:
        return min(lane.head.arrival for lane in self._lanes.values() if lane)

    def leader(self) -> Entry:
        """The entry that the next batch is formed around: the head of a starved lane, else of the highest priority."""
        lanes = [lane for lane in self._lanes.values() if lane]
        starved = max(lanes, key=lambda lane: lane.skipped)
        if starved.skipped >= LANE_SKIP_LIMIT:
            return starved.head
        following = self._lanes[Priority.NEXT]
        if following and following.head.arrival + NEXT_AGEING < lanes[0].head.arrival:
            return following.head
        return lanes[0].head

    def candidates(self, size: int) -> list[Entry]:
        """The entries that a batch may be formed from: at most `size`, by lane, oldest first."""
        found: list[Entry] = []
        for lane in self._lanes.values():
            found.extend(itertools.islice(lane, size - len(found)))
        return found

    def take(self, entries: Iterable[Entry]) -> None:
        """Remove the entries of a batch and age those left behind."""
        taken: dict[Priority, list[Entry]] = {priority: [] for priority in Priority}
        for entry in entries:
            self.discard(entry)
            taken[entry.priority].append(entry)
        for priority, lane in self._lanes.items():
            lane.age(taken[priority], self._group)
