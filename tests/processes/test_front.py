from __future__ import annotations

from pathlib import Path

from kokoro_server.config import Settings
from kokoro_server.link.board import FIRST_FRONT, Board
from kokoro_server.link.siblings import Publisher
from kokoro_server.metrics import Metrics
from kokoro_server.processes.front import Front


async def test_what_a_scrape_has_shown_survives_the_front_that_answered_it(tmp_path: Path) -> None:
    board = Board.create(FIRST_FRONT + 1)
    slot, metrics = board.slots[FIRST_FRONT], Metrics()
    front = Front(Settings(), 0, board, tmp_path / "engine")
    front.queue.publish = Publisher(slot, metrics).publish
    metrics.requests.labels("/tts", "ok").inc(3)
    await front.siblings.refresh()
    shown = metrics.render(front.siblings.metrics())
    successor = Metrics()  # of a process that is started because this one was killed
    Publisher(slot, successor)
    line = b'tts_requests_total{endpoint="/tts",outcome="ok"} 3.0'
    assert line in shown
    assert line in successor.render()
    board.close()
