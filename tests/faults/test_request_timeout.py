"""X-Request-Timeout bounds the wait for the first piece of a text: what has begun is finished.

Without it, a text that was let in is kept, also where the server then becomes slower than QUEUE_TIMEOUT allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests import servers
from tests.servers import Server
from tests.services.faulty import ROW_SLOWNESS, SLOW, SLOW_ROW, SLOWNESS

FAULTY = ("-m", "tests.services.faulty")
TIMEOUT = 3.0  # seconds
QUEUE_TIMEOUT = 2 * SLOWNESS  # seconds
PIECES = 7
TEXT = "[pause:10ms]".join(f"Number {n}." for n in range(PIECES))
BODY: dict[str, Any] = {"text": TEXT, "speed": SLOW_ROW}
OPENAI: dict[str, Any] = {"input": TEXT, "speed": SLOW_ROW, "model": "kokoro", "voice": "af_heart"}
REQUESTS = [
    ("/tts", BODY),
    ("/tts/stream", BODY),
    ("/tts/batch", {"requests": [{"text": f"Number {n}.", "speed": SLOW_ROW} for n in range(PIECES)]}),
    pytest.param("/tts/captioned", BODY, marks=pytest.mark.slow),
    ("/v1/audio/speech", OPENAI),
    pytest.param("/v1/audio/speech", OPENAI | {"stream_format": "sse"}, marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, quick_g2p: str) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("slow") / "log"
    settings = {"KOKORO_MAX_BATCH_SIZE": "1", "QUEUE_TIMEOUT": str(QUEUE_TIMEOUT), "G2P_SERVICE_URL": quick_g2p}
    with servers.running(FAULTY, log, **settings) as running:
        yield running


@pytest.mark.parametrize(("path", "body"), REQUESTS)
def test_what_takes_longer_than_the_timeout_is_whole(server: Server, path: str, body: dict[str, Any]) -> None:
    assert PIECES * ROW_SLOWNESS > TIMEOUT
    headers = {"X-Request-Timeout": str(TIMEOUT)}
    response = httpx.post(f"{server.url}{path}", json=body, headers=headers, timeout=120)
    assert response.status_code == 200, response.text
    assert response.headers.get("x-failed-requests", "0") == "0"
    assert response.elapsed.total_seconds() > TIMEOUT


async def test_what_was_let_in_is_kept_when_the_server_becomes_slow(server: Server) -> None:
    """Before, it was answered with 504 after QUEUE_TIMEOUT, for a wait that nobody had predicted."""
    async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:

        async def post(speed: float) -> httpx.Response:
            return await client.post("/tts", json={"text": "One more, please.", "speed": speed})

        for _ in range(3):  # until one has waited so long: on a busy machine all but the first may be refused
            for _ in range(3):
                assert (await post(1.0)).status_code == 200
            answers = await asyncio.gather(*(post(SLOW) for _ in range(5)))
            refused = [answer for answer in answers if answer.status_code != 200]
            assert {answer.status_code for answer in refused} <= {429}
            assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
            if any(float(answer.headers.get("x-queue-time-ms", 0)) > 1000 * QUEUE_TIMEOUT for answer in answers):
                break
