"""Readers of `POST /tts/bulk` that stop reading, or leave: a real server makes a few clips ahead of them, no more."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from kokoro_server.longform.bulk.clips import read_clips
from tests import servers
from tests.servers import Server, wait_for

PATIENCE = 120  # seconds
SMALL_BUFFER = 32_768  # bytes that the client's system takes before the client reads
CLIPS = 20
AHEAD = 2 * 2  # two batches
LOST_IN_BUFFERS = 8  # clips that the systems of both sides hold
SECONDS = 40
BYTES = SECONDS * 48_000  # of a clip at least
LONG = "wˈʌn. " + "[pause:10s]" * (SECONDS // 10)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It has no G2P: what is asked of it here needs none."""
    log = tmp_path_factory.mktemp("bulk") / "log"
    with servers.running(
        servers.TINY, log, G2P_SERVICE_URL="http://127.0.0.1:9", KOKORO_MAX_BATCH_SIZE="2", MAX_SILENCE="600"
    ) as server:
        yield server
        assert "Traceback" not in server.lines()


@contextmanager
def bulk(server: Server, bodies: list[dict[str, Any]]) -> Iterator[HTTPResponse]:
    """An answer of which only the head has been read."""
    url = urlsplit(server.url)
    connection = HTTPConnection("localhost")
    connection.sock = socket.socket()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    connection.sock.settimeout(PATIENCE)
    connection.sock.connect((url.hostname, url.port))
    try:
        connection.request("POST", "/tts/bulk", json.dumps({"requests": bodies}), {"Content-Type": "application/json"})
        yield connection.getresponse()
    finally:
        connection.close()


def queue(server: Server) -> dict[str, Any]:
    state: dict[str, Any] = httpx.get(f"{server.url}/health/batching", timeout=PATIENCE).json()
    return state


def made(server: Server) -> int:
    """The rows that have been made, once nothing more is in work."""
    quiet = 0
    while quiet < 10:
        state = queue(server)["queue_status"]
        quiet = 0 if state["current_size"] or state["running_rows"] or state["preparing"] else quiet + 1
        time.sleep(0.05)
    rows: int = queue(server)["performance"]["total_requests"]
    return rows


def streams(server: Server) -> int:
    used: int = httpx.get(f"{server.url}/health/streaming", timeout=PATIENCE).json()["stream_slots"]["used"]
    return used


def test_few_clips_are_made_for_a_reader_that_waits_and_all_when_it_goes_on(server: Server) -> None:
    before = made(server)
    with bulk(server, [{"phonemes": LONG}] * CLIPS) as answer:
        assert answer.status == 200
        assert made(server) - before <= AHEAD + LOST_IN_BUFFERS
        found = list(read_clips(iter(lambda: answer.read(1 << 16), b"")))
    assert sorted(head["index"] for _, head, _ in found) == list(range(CLIPS))
    assert {head["bytes"] for _, head, _ in found} == {len(audio) for _, _, audio in found}
    assert min(len(audio) for _, _, audio in found) > BYTES
    assert made(server) - before == CLIPS


def test_two_clips_of_many_rows_are_made_ahead(server: Server) -> None:
    """The text is long for what it takes to make."""
    before = made(server)
    with bulk(server, [{"phonemes": "wˈʌn. " + "[pause:0.4s]" * 100}] * CLIPS):
        assert made(server) - before <= 2 + LOST_IN_BUFFERS


def test_what_a_reader_that_leaves_has_not_read_is_not_made(server: Server) -> None:
    before = made(server)
    with bulk(server, [{"phonemes": LONG}] * CLIPS):
        pass
    wait_for(lambda: streams(server) == 0)
    assert made(server) - before <= AHEAD + LOST_IN_BUFFERS


def test_a_wrong_clip_takes_no_place_from_the_rest(server: Server) -> None:
    bodies = [{"phonemes": "wˈʌn.", "speed": 99}, "no object", {"text": "x" * 200_000}] * 10 + [{"phonemes": "tˈu."}]
    answer = httpx.post(f"{server.url}/tts/bulk", json={"requests": bodies}, timeout=PATIENCE)
    heads = [head for _, head, _ in read_clips(iter([answer.content]))]
    assert sorted(head["index"] for head in heads) == list(range(31))
    assert [head["index"] for head in heads if not head.get("error")] == [30]
