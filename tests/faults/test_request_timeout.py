"""X-Request-Timeout bounds the wait for the first piece of a text: what has begun is finished."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests import servers
from tests.servers import Server
from tests.services.faulty import ROW_SLOWNESS, SLOW_ROW

FAULTY = ("-m", "tests.services.faulty")
TIMEOUT = 3.0  # seconds
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
    with servers.running(FAULTY, log, KOKORO_MAX_BATCH_SIZE="1", G2P_SERVICE_URL=quick_g2p) as running:
        yield running


@pytest.mark.parametrize(("path", "body"), REQUESTS)
def test_what_takes_longer_than_the_timeout_is_whole(server: Server, path: str, body: dict[str, Any]) -> None:
    assert PIECES * ROW_SLOWNESS > TIMEOUT
    headers = {"X-Request-Timeout": str(TIMEOUT)}
    response = httpx.post(f"{server.url}{path}", json=body, headers=headers, timeout=120)
    assert response.status_code == 200, response.text
    assert response.headers.get("x-failed-requests", "0") == "0"
    assert response.elapsed.total_seconds() > TIMEOUT
