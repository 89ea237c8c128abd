"""Replicas and the requests they answer, event by event. Times are in seconds."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from benchmarks.cluster.measured import STREAM, Machine
from kokoro_server.batching import BatchingOptions, Priority
from kokoro_server.batching.cost import FRAME_SECONDS, CostModel, ForwardPass
from kokoro_server.batching.devices.device import FORM_AHEAD, FORM_AHEAD_ERROR, FORM_AHEAD_SHARE
from kokoro_server.batching.entry import Entry
from kokoro_server.batching.lanes import PriorityLanes
from kokoro_server.batching.policy import Batch, Policy
from kokoro_server.engine.protocol import STYLE_DIM, Row

QUIET = 0.002
ROWS_APART = 0.0002  # from one row of a request to the next
HOPS = 0.0028  # what a lone stream's first audio takes beyond the parts: network, client, waking up
NOTICED = 1.0  # seconds after which a lost machine gets no more requests, and those it had are asked elsewhere
ROW = Row((1,), np.zeros(STYLE_DIM, dtype=np.float32))
PIECES = (Priority.BYPASS, Priority.NEXT, Priority.NORMAL)  # of a stream: the first, the second, all others


@dataclass(slots=True, eq=False)
class Request:
    asked: float
    pieces: tuple[float, ...]
    stream: bool
    replica: Replica | None = None
    front: int = 0
    first_audio: float | None = None
    ended: float = math.inf
    left: int = 0
    on_end: Callable[[Request], None] | None = None


@dataclass(slots=True, eq=False)
class Piece(Entry):
    """A row of a request, in the queue's own terms. Nobody awaits its future."""

    request: Request | None = None
    seconds: float = 0.0  # of audio


class Replica:
    """One machine: fronts, G2P workers, an engine process, a device."""

    def __init__(self, machine: Machine, zone: int) -> None:
        self.zone = zone
        self.alive = True
        self.fronts = [0.0] * machine.fronts  # until when each is busy
        self.workers = [0.0] * machine.g2p_workers  # the same, a heap
        self.engine_loop = 0.0
        self.waiting = PriorityLanes()
        self.policy = Policy(BatchingOptions(), machine.limits)
        self.device_costs = CostModel()
        self.device_until = -math.inf
        self.looks_at = math.inf  # when a batch is formed next
        self.pending = 0.0  # seconds of audio that were asked of it and are not made
        self.requests: set[Request] = set()
        self.busy = 0.0
        self.batches = self.rows = 0
        self.running = 0.0  # seconds that the last batch is predicted to take

    @property
    def queued_audio(self) -> float:
        return self.waiting.frames * FRAME_SECONDS

    @property
    def looks_again(self) -> float:
        """When the next batch is formed, behind the one that runs: see `Device.available_at`."""
        ahead = max(FORM_AHEAD, FORM_AHEAD_ERROR * self.running)
        return self.device_until - min(ahead, FORM_AHEAD_SHARE * self.running)


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

    def ask(
        self,
        on_end: Callable[[Request], None] | None = None,
        request: Request | None = None,
        *,
        stream: bool | None = None,
    ) -> None:
        """A new request, or one that must be asked again elsewhere. `stream`: of the other endpoint, maybe."""
        if request is None:
            stream = self._stream if stream is None else stream
            rows = self.machine.stream_rows if stream else self.machine.clip_rows
            request = Request(self.now, rows[self.random.randrange(len(rows))], stream, on_end=on_end)
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
        for index, seconds in enumerate(request.pieces):  # an idle device has taken the first when the next comes
            lane = PIECES[min(index, 2)] if request.stream else Priority.NORMAL
            self.at(self.now + index * ROWS_APART, partial(self._add, replica, request, seconds, lane))

    def _add(self, replica: Replica, request: Request, seconds: float, lane: Priority) -> None:
        frames = max(1, round(seconds / FRAME_SECONDS))
        identity = next(self._numbers), "", ROW, "", lane, frames, self.now, math.inf
        replica.waiting.add(Piece(*identity, future=cast(Any, None), request=request, seconds=seconds))
        self._wake(replica, 0.0 if request.stream else QUIET)

    def _wake(self, replica: Replica, quiet: float) -> None:
        if replica.device_until <= self.now:
            self._look(replica, self.now + quiet)
        else:
            self._look(replica, max(self.now, replica.looks_again))

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
        if replica.looks_again > self.now:
            self._look(replica, replica.looks_again)
            return
        costs, policy = replica.device_costs, replica.policy
        cap, overhead = policy.max_padded_frames, costs.overhead_frames
        batch = policy.form_batch(replica.waiting, cap=cap, overhead=overhead)
        replica.waiting.take(batch.entries)
        seconds = self.machine.batch_seconds(batch.cost)
        replica.running = costs.batch_seconds(batch.cost)
        costs.learn(_forward(batch, seconds))
        waited = replica.device_until > self.now - self.machine.gap
        started = max(self.now, replica.device_until + self.machine.gap if waited else self.now)
        replica.device_until = done = started + seconds
        replica.busy += seconds
        replica.batches += 1
        replica.rows += len(batch.entries)
        self.at(done + self.machine.host, lambda: self._deliver(replica, cast(list[Piece], batch.entries)))
        self._look(replica, replica.looks_again)

    def _deliver(self, replica: Replica, batch: list[Piece]) -> None:
        if not replica.alive:
            return
        replica.engine_loop = max(replica.engine_loop, self.now)
        for row in batch:
            request = row.request
            assert request
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


def _forward(batch: Batch, seconds: float) -> ForwardPass:
    frames = sum(entry.frames for entry in batch.entries)
    padded = len(batch.entries) * max(entry.frames for entry in batch.entries)
    return ForwardPass(len(batch.entries), frames, padded, batch.cost, seconds)


def closed(
    machine: Machine, endpoint: str, clients: int, seconds: float, *, clips: int = 0, seed: int = 0
) -> Simulation:
    """So many clients, each of which asks again when it is answered, as in `serve_bench`; and `clips` more, of CLIP."""
    simulation = Simulation(machine, 1, endpoint, seed=seed)

    def client(stream: bool) -> None:
        simulation.ask(lambda _: client(stream), stream=stream)

    for number in range(clients + clips):
        stream = endpoint == STREAM and number < clients
        simulation.at(number * 0.001, partial(client, stream))
    simulation.run(seconds)
    return simulation


def open_loop(simulation: Simulation, listeners: float) -> None:
    """Listeners who hear a sentence and then ask for the next: together they ask at random times."""
    rate = listeners / simulation.machine.clip_seconds

    def arrive() -> None:
        simulation.ask()
        simulation.at(simulation.now + simulation.random.expovariate(rate), arrive)

    simulation.at(simulation.now, arrive)
