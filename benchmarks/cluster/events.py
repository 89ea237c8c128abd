"""Replicas and the requests they answer, event by event. Times are in seconds."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.cluster.measured import STREAM, Machine

# As the queue has them: batching/policy.py, lanes.py and device.py.
BYPASS_BATCH_FACTOR = 1.75
LANE_SKIP_LIMIT = 4
NEXT_AGEING = 0.3
QUIET = 0.002
FORM_AHEAD = 0.003
ROWS_APART = 0.0002  # from one row of a request to the next
HOPS = 0.0028  # what a lone stream's first audio takes beyond the parts: network, client, waking up
NOTICED = 1.0  # seconds after which a lost machine gets no more requests, and those it had are asked elsewhere
FIRST, LATER, CLIPS = 0, 1, 2  # lanes: first pieces of streams, those after them, clips


@dataclass(slots=True, eq=False)
class Request:
    asked: float
    pieces: tuple[float, ...]
    replica: Replica | None = None
    front: int = 0
    first_audio: float | None = None
    ended: float = math.inf
    left: int = 0
    on_end: Callable[[Request], None] | None = None


@dataclass(slots=True, eq=False)
class Row:
    request: Request
    seconds: float  # of audio
    arrived: float


@dataclass(slots=True)
class Lane:
    rows: deque[Row] = field(default_factory=deque)
    seconds: float = 0.0
    skipped: int = 0

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self.seconds += row.seconds

    def take(self) -> Row:
        row = self.rows.popleft()
        self.seconds -= row.seconds
        return row


class Replica:
    """One machine: fronts, G2P workers, an engine process, a device."""

    def __init__(self, machine: Machine, zone: int) -> None:
        self.zone = zone
        self.alive = True
        self.fronts = [0.0] * machine.fronts  # until when each is busy
        self.workers = [0.0] * machine.g2p_workers  # the same, a heap
        self.engine_loop = 0.0
        self.lanes = [Lane(), Lane(), Lane()]
        self.device_until = -math.inf
        self.looks_at = math.inf  # when a batch is formed next
        self.pending = 0.0  # seconds of audio that were asked of it and are not made
        self.requests: set[Request] = set()
        self.busy = 0.0
        self.batches = self.rows = 0

    @property
    def queued_audio(self) -> float:
        return sum(lane.seconds for lane in self.lanes)

    @property
    def waiting(self) -> int:
        return sum(len(lane.rows) for lane in self.lanes)


class Simulation:
    """Runs events in order. Requests go to the replica with less audio pending, of two at random."""

    def __init__(self, machine: Machine, replicas: int, endpoint: str, *, zones: int = 1, seed: int = 0) -> None:
        self.now = 0.0
        self.machine = machine
        self.replicas = [Replica(machine, number % zones) for number in range(replicas)]
        self.answered: list[Request] = []
        self.broken_off = 0  # answers that had begun on a machine that was lost
        self.random = random.Random(seed)
        self._stream = endpoint == STREAM
        self._pieces = machine.stream_rows if self._stream else machine.clip_rows
        self._known = list(self.replicas)  # those that requests are sent to
        self._costs = machine.costs(endpoint)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, when: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), do))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, do = heapq.heappop(self._events)
            do()
        self.now = until

    def ask(self, on_end: Callable[[Request], None] | None = None, request: Request | None = None) -> None:
        """A new request, or one that must be asked again elsewhere."""
        if request is None:
            request = Request(self.now, self._pieces[self.random.randrange(len(self._pieces))], on_end=on_end)
        replica = self._choose()
        request.replica, request.left = replica, len(request.pieces)
        replica.pending += sum(request.pieces)
        replica.requests.add(request)
        request.front = self.random.randrange(len(replica.fronts))
        read = self._on_front(request, self.now + HOPS / 2, self._costs.front / 2)
        self.at(read, lambda: self._phonemize(request, replica))

    def lose_zone(self, zone: int) -> None:
        for replica in self.replicas:
            replica.alive = replica.alive and replica.zone != zone
        self.at(self.now + NOTICED, self._notice)

    def _notice(self) -> None:
        lost = [replica for replica in self._known if not replica.alive]
        self._known = [replica for replica in self._known if replica.alive]
        for request in (request for replica in lost for request in replica.requests):
            if request.first_audio is None:
                self.ask(request=request)
            else:
                self.broken_off += 1

    def _choose(self) -> Replica:
        if len(self._known) == 1:
            return self._known[0]
        one, other = self.random.sample(self._known, 2)
        return one if one.pending <= other.pending else other

    def _on_front(self, request: Request, when: float, seconds: float) -> float:
        assert request.replica
        fronts = request.replica.fronts
        fronts[request.front] = done = max(when, fronts[request.front]) + seconds
        return done

    def _phonemize(self, request: Request, replica: Replica) -> None:
        done = max(self.now, replica.workers[0]) + self._costs.g2p * sum(request.pieces) / self.machine.clip_seconds
        heapq.heapreplace(replica.workers, done)
        self.at(done + self._costs.g2p_parent, lambda: self._enqueue(request, replica))

    def _enqueue(self, request: Request, replica: Replica) -> None:
        first, *later = request.pieces
        replica.lanes[FIRST if self._stream else CLIPS].add(Row(request, first, self.now))
        self._wake(replica)
        for seconds in later:  # an idle device has taken the first by then
            self.at(self.now + ROWS_APART, lambda seconds=seconds: self._enqueue_later(request, replica, seconds))

    def _enqueue_later(self, request: Request, replica: Replica, seconds: float) -> None:
        replica.lanes[LATER].add(Row(request, seconds, self.now))
        self._wake(replica)

    def _wake(self, replica: Replica) -> None:
        if replica.device_until <= self.now:
            self._look(replica, self.now + (0.0 if self._stream else QUIET))
        else:
            self._look(replica, max(self.now, replica.device_until - FORM_AHEAD))

    def _look(self, replica: Replica, when: float) -> None:
        if when < replica.looks_at:
            replica.looks_at = when
            self.at(when, lambda: self._form(replica, when))

    def _form(self, replica: Replica, when: float) -> None:
        if replica.looks_at != when:
            return
        replica.looks_at = math.inf
        if not replica.waiting or not replica.alive:
            return
        if replica.device_until - FORM_AHEAD > self.now:
            self._look(replica, replica.device_until - FORM_AHEAD)
            return
        batch = self._batch(replica)
        seconds = self.machine.batch_seconds(sum(row.seconds for row in batch))
        waited = replica.device_until > self.now - self.machine.gap
        started = max(self.now, replica.device_until + self.machine.gap if waited else self.now)
        replica.device_until = done = started + seconds
        replica.busy += seconds
        replica.batches += 1
        replica.rows += len(batch)
        self.at(done + self.machine.host, lambda: self._deliver(replica, batch))
        self._look(replica, done - FORM_AHEAD)

    def _batch(self, replica: Replica) -> list[Row]:
        lanes = replica.lanes
        leading = self._leading(lanes)
        budget = math.inf
        if leading == FIRST:
            overhead, first = self.machine.overhead_audio, lanes[FIRST]
            budget = max(first.rows[0].seconds + overhead, BYPASS_BATCH_FACTOR * math.sqrt(overhead * first.seconds))
        batch: list[Row] = []
        taken = 0.0
        for number in sorted(range(len(lanes)), key=lambda number: (number != leading, number)):
            lane, before = lanes[number], len(batch)
            while lane.rows and len(batch) < self.machine.max_rows:
                if batch and taken + lane.rows[0].seconds > budget:
                    break
                taken += lane.rows[0].seconds
                batch.append(lane.take())
            lane.skipped = lane.skipped + 1 if lane.rows and len(batch) == before else 0
        return batch

    @staticmethod
    def _leading(lanes: list[Lane]) -> int:
        filled = [number for number, lane in enumerate(lanes) if lane.rows]
        starved = max(filled, key=lambda number: lanes[number].skipped)
        if lanes[starved].skipped >= LANE_SKIP_LIMIT:
            return starved
        first, later = lanes[filled[0]], lanes[LATER]
        overdue = later.rows and later.rows[0].arrived + NEXT_AGEING < first.rows[0].arrived
        return LATER if overdue and not first.skipped else filled[0]

    def _deliver(self, replica: Replica, batch: list[Row]) -> None:
        if not replica.alive:
            return
        replica.engine_loop = max(replica.engine_loop, self.now)
        for row in batch:
            request = row.request
            share = row.seconds / sum(request.pieces)
            replica.engine_loop += self._costs.engine_loop * share
            replica.pending -= row.seconds
            sent = self._on_front(request, replica.engine_loop, self._costs.front / 2 * share) + HOPS / 2
            if request.first_audio is None:
                request.first_audio = sent
            request.left -= 1
            if not request.left:
                request.ended = sent
                replica.requests.discard(request)
                self.answered.append(request)
                if request.on_end:
                    self.at(sent, lambda request=request: request.on_end(request))


def closed(machine: Machine, endpoint: str, clients: int, seconds: float) -> Simulation:
    """So many clients, each of which asks again when it is answered, as in `serve_bench`."""
    simulation = Simulation(machine, 1, endpoint)

    def again(_request: Request) -> None:
        simulation.ask(again)

    for number in range(clients):
        simulation.at(number * 0.001, lambda: simulation.ask(again))
    simulation.run(seconds)
    return simulation


def open_loop(simulation: Simulation, listeners: float) -> None:
    """Listeners who hear a sentence and then ask for the next: together they ask at random times."""
    rate = listeners / simulation.machine.clip_seconds

    def arrive() -> None:
        simulation.ask()
        simulation.at(simulation.now + simulation.random.expovariate(rate), arrive)

    simulation.at(simulation.now, arrive)
