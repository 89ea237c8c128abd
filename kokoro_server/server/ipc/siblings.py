"""The other processes of the server, as the shared state shows them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kokoro_server.errors import G2PUnavailable
from kokoro_server.observability import conditions as degraded
from kokoro_server.observability.conditions import Condition, Degradation, Reason
from kokoro_server.observability.metrics import Metrics, accumulated, left_over
from kokoro_server.observability.siblings import Cell, Family, Siblings
from kokoro_server.server.ipc.shared_state import FIRST_WORKER, SUPERVISOR, ProcessSlot, SharedState

log = logging.getLogger(__name__)

PUBLISH_INTERVAL = 1.0  # seconds
REFRESH_TIMEOUT = 0.25  # seconds; a process that is being restarted does not answer
REFRESH_POLL = 0.002
RETRY_AFTER = 1.0  # seconds; a G2P service that died is back in two or three


class SharedSiblings(Siblings):
    """All processes with a slot in the shared state, seen from the one whose slot is `own`."""

    def __init__(self, shared: SharedState, own: int, ask_for_refresh: Callable[[], object] = lambda: None) -> None:
        self._ask_for_refresh = ask_for_refresh
        self._own = shared.slots[own]
        self._others = [slot for slot in shared.slots if slot is not self._own]
        self._workers = [slot for slot in shared.slots[FIRST_WORKER:] if slot is not self._own]
        self._supervisor = shared.slots[SUPERVISOR]
        self._refreshing: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        # Calls meanwhile share it: every refresh costs all processes.
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())
        await asyncio.shield(self._refreshing)

    async def _refresh(self) -> None:
        awaited = {slot: slot.version for slot in self._others if slot is not self._supervisor}
        self._ask_for_refresh()
        started = time.monotonic()
        while any(slot.version == version for slot, version in awaited.items()):
            if time.monotonic() > started + REFRESH_TIMEOUT:
                break
            await asyncio.sleep(REFRESH_POLL)

    def metrics(self) -> list[Sequence[Family]]:
        return [families for slot in self._others if (families := slot.read().get("metrics"))]

    def degradations(self) -> list[Degradation]:
        return [
            Degradation(Reason(each["reason"]), each["message"], each["since"])
            for slot in self._others
            for each in slot.read().get("degraded", ())
        ]

    def streams(self) -> list[Mapping[str, int]]:
        return [slot.read().get("streams", {}) for slot in self._workers]

    def processes(self) -> list[dict[str, Any]]:
        processes: list[dict[str, Any]] = self._supervisor.read().get("processes", [])
        return processes

    @property
    def workers(self) -> int:
        return len(self._workers) + 1

    def total(self, cell: Cell) -> int:
        return sum(slot.cells[cell] for slot in self._workers)

    def fewest(self, cell: Cell) -> int:
        return min((slot.cells[cell] for slot in self._workers), default=0)

    def show(self, cell: Cell, value: int) -> None:
        self._own.cells[cell] = value

    def own(self, cell: Cell) -> int:
        return self._own.cells[cell]


FOR_SUCCESSOR = "for_successor"  # facts of a process that the next one in its slot takes over


class SharedG2P:
    """The G2P service that the supervisor runs for all API workers."""

    def __init__(self, shared: SharedState) -> None:
        self.condition = Condition(Reason.G2P)
        self._supervisor = shared.slots[SUPERVISOR]
        self._restarts: int | None = None  # their number when it was last seen running

    def notice_restart(self) -> None:
        """Clear the condition when the service has been restarted. Its next request may be far away."""
        if self.restarts != self._restarts and self.state == "running":
            self._restarts = self.restarts
            self.condition.clear()

    @property
    def state(self) -> str:
        return str(self._facts.get("state", "starting"))

    @property
    def restarts(self) -> int:
        return int(self._facts.get("restarts", 0))

    @property
    def url(self) -> str:
        """Its present address; raises G2PUnavailable while it has none."""
        if not (url := self._facts.get("url")):
            raise G2PUnavailable(f"the G2P service is {self.state}", retry_after=RETRY_AFTER)
        return str(url)

    @property
    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = self._supervisor.read().get("g2p", {})
        return facts


def retire(slot: ProcessSlot) -> None:
    """Keep the counters and facts of a process that has ended, from which its successor goes on, and nothing else."""
    slot.clear_cells()
    last = slot.read()
    slot.publish({"metrics": left_over(last.get("metrics", ())), FOR_SUCCESSOR: last.get(FOR_SUCCESSOR, {})})


class Publisher:
    """Publishes the metrics and conditions of this process.

    Counters go on where the last process in this slot left them.
    """

    def __init__(self, slot: ProcessSlot, metrics: Metrics, more: Callable[[], dict[str, Any]] = dict) -> None:
        self.conditions: Callable[[], Iterable[Condition]] = tuple
        self._slot = slot
        self._metrics = metrics
        self._more = more
        metrics.before = accumulated(slot.read().get("metrics", ()))
        slot.clear_cells()

    async def run(self) -> None:
        while True:
            self.publish()
            await asyncio.sleep(PUBLISH_INTERVAL)

    def publish(self) -> None:
        conditions = [asdict(each) for each in degraded.current(self.conditions())]
        document = {"metrics": self._metrics.families(), "degraded": conditions, **self._more()}
        try:
            self._slot.publish(document)
        except ValueError as error:  # a sign of life is needed all the same, or the process is taken for one that hangs
            log.error("the metrics of this process are not shown error=%s", error)
            self._slot.publish(document | {"metrics": []})
