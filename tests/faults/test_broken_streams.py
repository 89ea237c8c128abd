"""Streams that break off midway: each has one line in the log, and no traceback."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.servers import FAULTY, Server, running
from tests.services.faulty import NAN

STREAMS = 8
END = f'<prosody rate="{100 * NAN:.0f}%">Its end fails.</prosody>'
BODY = {"text": f"<speak>{'Hello there, world. ' * 20}{END}</speak>", "ssml": True, "format": "pcm"}


def test_a_stream_that_breaks_off_is_one_line_of_the_log(tmp_path: Path, shared_g2p: str) -> None:
    with (
        running(FAULTY, tmp_path / "log", G2P_SERVICE_URL=shared_g2p) as server,
        ThreadPoolExecutor(STREAMS) as pool,
    ):
        assert all(pool.map(lambda _: is_broken_off(server), range(STREAMS)))
        assert server.stop() == 0
        assert server.lines().count("stream broken off") == STREAMS
        assert "internal_error" not in server.lines()
        assert "Traceback" not in server.lines()


def is_broken_off(server: Server) -> bool:
    with httpx.stream("POST", f"{server.url}/tts/stream", json=BODY, timeout=300) as response:
        try:
            for _ in response.iter_bytes():
                pass
        except httpx.RemoteProtocolError:
            return True
    return False
