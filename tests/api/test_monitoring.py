from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from kokoro_server.app import create_app
from kokoro_server.config import Settings
from kokoro_server.parts import Parts
from tests import tiny

SETTINGS = Settings.load({"G2P_SERVICE_URL": "http://localhost:9", "MAX_QUEUE_SIZE": "1"}, dotenv=None)


async def test_the_self_test_keeps_to_the_queues_size(tmp_path: Path) -> None:
    app = create_app(SETTINGS, load=lambda _settings: tiny.load(tmp_path))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        parts: Parts = app.state.parts
        parts.queue.hold()
        first = asyncio.create_task(client.post("/test/batching"))
        while not parts.queue.snapshot()["queue_status"]["current_size"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        others = await asyncio.gather(*(client.post("/test/batching") for _ in range(20)))
        assert parts.queue.snapshot()["queue_status"]["current_size"] == 1
        assert {answer.status_code for answer in others} == {429}
        assert all("retry-after" in answer.headers for answer in others)
        parts.queue.release()
        assert (await first).json()["successful"] == 1
