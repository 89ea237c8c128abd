"""Documents whose reader cannot start, is killed, or would be overrun: an honest answer, and nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import servers
from tests.longform.books.documents.test_docx import docx, paragraph
from tests.longform.books.documents.test_untrusted import small
from tests.servers import Server, wait_for, without_files
from tests.soak.process import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

PATIENCE = 120  # seconds
TEXT = {"file": ("ships.txt", b"The sea was calm.")}
SLOW = {"file": ("slow.html", b"<p>The sea was calm.</p>" * 100_000)}
BOMB = 50_000_000  # bytes


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It has no G2P: what is asked of it here needs none."""
    log = tmp_path_factory.mktemp("documents") / "log"
    with servers.running(servers.TINY, log, G2P_SERVICE_URL="http://127.0.0.1:9") as server:
        yield server
        assert "Traceback" not in server.lines()


def folders(server: Server) -> set[Path]:
    return {path for path in (server.log.parent / "jobs").iterdir() if path.is_dir() and path.name != "spool"}


@servers.in_one_process
def test_a_server_without_descriptors_says_when_to_come_back(server: Server) -> None:
    statuses = []
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        assert client.post("/jobs/preview", files=TEXT).status_code == 200
        for spare in range(8):
            with without_files(server, spare):
                answer = client.post("/jobs/preview", files=TEXT)
            statuses.append(answer.status_code)
            assert answer.status_code == 200 or int(answer.headers["retry-after"]) >= 1, answer.text
        assert client.post("/jobs/preview", files=TEXT).status_code == 200
    assert statuses[0] == 503
    assert set(statuses) <= {200, 503}


def test_a_reader_that_is_killed_is_no_fault_of_the_document(server: Server) -> None:
    def kill() -> None:
        wait_for(lambda: processes(server.process.pid)["reader"])
        for pid in processes(server.process.pid)["reader"]:
            os.kill(pid, signal.SIGKILL)

    before = folders(server)
    killer = threading.Thread(target=kill)
    killer.start()
    answer = httpx.post(f"{server.url}/jobs/preview", files=SLOW, timeout=PATIENCE)
    killer.join()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable"), answer.text
    assert "slow.html" in answer.text
    assert int(answer.headers["retry-after"]) >= 1
    assert folders(server) <= before


def test_bombs_harm_nobody(server: Server) -> None:
    before = folders(server)
    bombs = {
        "text.epub": small(text=b"<p>" + b"a" * BOMB),
        "many.epub": small() + b"PK\x01\x02" * 30_000,
        "text.docx": docx(paragraph("a" * BOMB)),
        "cover.epub": small({"OPS/c.jpg": bytes(BOMB)}, c='href="c.jpg" media-type="image/jpeg"'),
    }
    codes = {}
    for name, content in bombs.items():
        answer = httpx.post(f"{server.url}/jobs/preview", files={"file": (name, content)}, timeout=PATIENCE)
        codes[name] = answer.json().get("error", {}).get("code")
    assert codes.pop("cover.epub") is None  # it is read without its cover
    assert set(codes.values()) == {"unreadable_document"}
    assert folders(server) <= before
