"""Streams that break off midway: each has one line in the log, and no traceback."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.servers import TINY, Server, running

STREAMS = 8
BODY = {"phonemes": "hˈIlO ðˈɛɹ, wˈɜɹld. " * 60, "format": "pcm"}


def test_a_stream_that_breaks_off_is_one_line_of_the_log(tmp_path: Path) -> None:
    """Its later pieces may wait for only a tenth of a second, and those of many streams wait longer."""
    environ = {"G2P_SERVICE_URL": "http://localhost:9", "BULK_QUEUE_TIMEOUT": "0.1", "QUEUE_TIMEOUT": "600"}
    with running(TINY, tmp_path / "log", **environ) as server, ThreadPoolExecutor(STREAMS) as pool:
        broken = sum(pool.map(lambda _: is_broken_off(server), range(STREAMS)))
        assert server.stop() == 0
        assert broken
        assert server.lines().count("stream broken off") == broken
        assert "Traceback" not in server.lines()


def is_broken_off(server: Server) -> bool:
    with httpx.stream("POST", f"{server.url}/tts/stream", json=BODY, timeout=300) as response:
        try:
            for _ in response.iter_bytes():
                pass
        except httpx.RemoteProtocolError:
            return True
    return False
