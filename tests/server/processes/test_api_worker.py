from __future__ import annotations

from pathlib import Path

import pytest

from kokoro_server.config.settings import Settings
from kokoro_server.observability.metrics import Metrics
from kokoro_server.observability.siblings import Cell
from kokoro_server.server.ipc.shared_state import FIRST_WORKER, SharedState
from kokoro_server.server.ipc.siblings import Publisher, SharedSiblings
from kokoro_server.server.processes.api_worker import ApiWorker, ShownConnections, share


async def test_what_a_scrape_has_shown_survives_the_front_that_answered_it(tmp_path: Path) -> None:
    state = SharedState.create(FIRST_WORKER + 1)
    slot, metrics = state.slots[FIRST_WORKER], Metrics()
    worker = ApiWorker(Settings(), 0, state, tmp_path / "engine")
    worker.queue.publish = Publisher(slot, metrics).publish
    metrics.requests.labels("/tts", "ok").inc(3)
    await worker.siblings.refresh()
    shown = metrics.render(worker.siblings.metrics())
    successor = Metrics()  # of a process that is started because this one was killed
    Publisher(slot, successor)
    line = b'tts_requests_total{endpoint="/tts",outcome="ok"} 3.0'
    assert line in shown
    assert line in successor.render()
    state.close()


@pytest.mark.parametrize(("limit", "workers", "shares"), [(3, 2, [2, 1]), (32, 4, [8] * 4), (32, 5, [7, 7, 6, 6, 6])])
def test_workers_share_what_all_may_have(limit: int, workers: int, shares: list[int]) -> None:
    assert [share(limit, number, workers) for number in range(workers)] == shares


def test_each_front_has_some() -> None:
    assert [share(1, number, 3) for number in range(3)] == [1, 1, 1]


def test_other_workers_see_at_once_how_many_connections_one_has() -> None:
    state = SharedState.create(FIRST_WORKER + 2)
    one, other = (SharedSiblings(state, FIRST_WORKER + number) for number in range(2))
    connections = ShownConnections(one)
    seen = []
    for change, what in ((connections.add, "a"), (connections.add, "b"), (connections.discard, "a"),
                         (connections.discard, "a"), (connections.remove, "b")):  # fmt: skip
        change(what)
        seen.append(other.total(Cell.CONNECTIONS))
    assert seen == [1, 2, 1, 1, 0]
    state.close()
