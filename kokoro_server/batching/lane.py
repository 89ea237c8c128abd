"""The waiting entries of one priority: callers take turns, and each caller's entries go by age."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace
from operator import attrgetter

from kokoro_server.batching.entry import Entry

_turn = attrgetter("turn")

# A candidate for the next turn: its virtual time, its caller's number, the entry, and the caller's later entries.
QueuedTurn = tuple[float, int, Entry, Iterator[Entry]]


@dataclass(slots=True, eq=False)
class CallerQueue:
    """The entries of one caller, oldest first."""

    turn: tuple[float, int]  # virtual time of its next turn, and the number of its first entry ever: it decides a tie
    entries: OrderedDict[int, Entry] = field(default_factory=OrderedDict)
    frames: int = 0

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())


class Lane:
    """Start-time fair queueing in frames of audio: a caller's next turn is later by what it was given.

    Virtual time advances by what each waiting caller would get if all got the same. A caller that was not waiting
    starts at the present virtual time: it gains nothing by having been away, and ever new callers cannot hold off
    one that waits. Nothing is kept of a caller without entries. With one caller, entries go in order of arrival. Adding
    and removing take constant time but for finding a place among the callers.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[int, Entry] = OrderedDict()  # in order of arrival
        self._by_caller: dict[str, CallerQueue] = {}
        self._turns: list[CallerQueue] = []  # the same, sorted by turn
        self._time = 0.0  # virtual
        self.frames = 0
        self.skipped = 0  # batches in a row that were no turn of this lane while something waited

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """In order of turns."""
        return iter(self._turns[0]) if len(self._turns) == 1 else _merged(self._turns)

    @property
    def head(self) -> Entry:
        return next(iter(self._turns[0]))

    @property
    def oldest(self) -> Entry:
        return next(iter(self._entries.values()))

    def add(self, entry: Entry) -> None:
        queue = self._by_caller.get(entry.caller)
        if queue is None:
            self._time = max(self._time, self._turns[0].turn[0]) if self._turns else 0.0
            queue = CallerQueue((self._time, entry.number))
            self._join(entry.caller, queue)
        queue.entries[entry.number] = self._entries[entry.number] = entry
        queue.frames += entry.frames
        self.frames += entry.frames

    def discard(self, entry: Entry) -> bool:
        """Whether the entry was waiting. Its caller is not charged for it."""
        if entry.number not in self._entries:
            return False
        if not self._remove(entry).entries:
            self._drop(entry.caller)
        return True

    def take(self, entries: Sequence[Entry], group: Callable[[Entry], str], *, has_turn: bool = True) -> None:
        """Remove the entries of a batch, and count which entries of the same group it overtook.

        `has_turn` is false where they only fill up a batch of another lane: so few may be taken each time.
        """
        if entries:
            self._count_overtaken(entries, group)
            self._time += sum(entry.frames for entry in entries) / len(self._turns)
            self._charge(entries)
        self.skipped = 0 if (entries and has_turn) or not self._entries else self.skipped + 1

    def ahead_of(self, caller: str) -> tuple[int, float]:
        """At most how many entries, and frames, a new one of this caller would wait for.

        They are its own, and of each other caller as many and one more.
        """
        queue = self._by_caller.get(caller)
        rows, frames = (len(queue.entries), queue.frames) if queue else (0, 0)
        others = len(self._by_caller) - (queue is not None)
        if not others:
            return rows, frames
        usual = self.frames / len(self)
        return min(len(self), rows + others * (rows + 1)), min(self.frames, frames + others * (frames + usual))

    def _count_overtaken(self, taken: Sequence[Entry], group: Callable[[Entry], str]) -> None:
        left = set(taken)
        passed: dict[str, list[Entry]] = {}
        for entry in self:
            if entry not in left:
                passed.setdefault(group(entry), []).append(entry)
                continue
            for overtaken in passed.pop(group(entry), ()):
                overtaken.overtaken += 1
            left.remove(entry)
            if not left:
                return

    def _charge(self, taken: Sequence[Entry]) -> None:
        given: dict[str, int] = {}
        for entry in taken:
            self._remove(entry)
            given[entry.caller] = given.get(entry.caller, 0) + entry.frames
        for caller, frames in given.items():
            queue = self._drop(caller)
            if queue.entries:
                time, number = queue.turn
                queue.turn = time + frames, number
                self._join(caller, queue)

    def _remove(self, entry: Entry) -> CallerQueue:
        queue = self._by_caller[entry.caller]
        del self._entries[entry.number], queue.entries[entry.number]
        queue.frames -= entry.frames
        self.frames -= entry.frames
        return queue

    def _join(self, caller: str, queue: CallerQueue) -> None:
        self._by_caller[caller] = queue
        insort(self._turns, queue, key=_turn)

    def _drop(self, caller: str) -> CallerQueue:
        queue = self._by_caller.pop(caller)
        del self._turns[bisect_left(self._turns, queue.turn, key=_turn)]
        return queue


def _merged(queues: Iterable[CallerQueue]) -> Iterator[Entry]:
    """The entries of `queues`, which are sorted by turn. A caller's next turn is later by the frames of each entry."""
    turns: list[QueuedTurn] = []
    for queue in queues:
        while turns and turns[0] < queue.turn:
            yield _next(turns)
        entries = iter(queue)
        heappush(turns, (*queue.turn, next(entries), entries))
    while turns:
        yield _next(turns)


def _next(turns: list[QueuedTurn]) -> Entry:
    time, number, entry, others = turns[0]
    following = next(others, None)
    if following is None:
        heappop(turns)
    else:
        heapreplace(turns, (time + entry.frames, number, following, others))
    return entry
