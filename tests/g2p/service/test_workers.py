"""English in several processes: the real service, with real ones, some of them killed."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.g2p.conftest import children, service
from tests.g2p.test_child import is_alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and looks for the processes in /proc")

TEXTS = ["Hello there.", "Dr. Smith paid $5.20 in 1999.", "Qxzyvian rhododendrons?", "The wind was cold."]


def all_gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 20
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(is_alive(pid) for pid in pids)


def test_workers_convert_as_a_single_process_does_and_end_with_the_service(tmp_path: Path, http: httpx.Client) -> None:
    log = tmp_path / "service.log"
    with service(log, 2) as (process, url), httpx.Client(base_url=url, timeout=60, trust_env=False) as several:
        assert several.get("/health").json()["workers"] == 2
        assert http.get("/health").json()["workers"] == 1
        (nursery,) = children(process.pid)
        pids = children(nursery)
        assert len(pids) == 2
        body = {"texts": TEXTS * 10, "lang": "en-US"}
        expected = http.post("/convert/batch", json=body).json()
        assert several.post("/convert/batch", json=body).json() == expected
        assert len(expected["results"]) == 40

        def convert(text: str) -> str:
            answer = several.post("/convert", json={"text": text, "lang": "en-GB"})
            phonemes: str = answer.json()["phonemes"]
            return phonemes

        alone = [http.post("/convert", json={"text": text, "lang": "en-GB"}).json()["phonemes"] for text in TEXTS]
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(convert, TEXTS * 10)) == alone * 10
        other = {"text": "Bonjour.", "lang": "fr-FR"}
        assert several.post("/convert", json=other).json() == http.post("/convert", json=other).json()
        process.kill()
        process.wait(20)
        assert all_gone([nursery, *pids])
    assert "ERROR" not in log.read_text()


def test_a_worker_that_is_killed_is_replaced_though_nobody_asks(tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    with service(log, 2, "tests.services.scripted_g2p") as (process, url):
        (nursery,) = children(process.pid)
        first, second = children(nursery)
        os.kill(first, signal.SIGKILL)
        assert all_gone([first])
        deadline = time.monotonic() + 20
        while len(now := children(nursery)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert second in now
        assert httpx.get(f"{url}/health").json()["workers"] == 2
    assert all_gone([nursery, *now])
    assert "a g2p worker has ended and is replaced" in log.read_text()


def test_the_end_of_what_starts_workers_is_noticed_though_a_worker_was_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    with service(log, 2, "tests.services.scripted_g2p") as (process, url):
        (nursery,) = children(process.pid)
        pids = children(nursery)
        os.kill(nursery, signal.SIGSTOP)
        os.kill(pids[0], signal.SIGKILL)
        wait_for(log, "a g2p worker has ended and is replaced", 1)
        assert httpx.get(f"{url}/health").status_code == 200  # by then it has asked
        os.kill(nursery, signal.SIGKILL)
        process.wait(20)
        assert all_gone([nursery, *pids])
    assert "the process that starts g2p workers has ended, and so does the service" in log.read_text()


def test_a_worker_that_starts_while_no_descriptor_is_free_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    with service(log, 2, "tests.services.scripted_g2p") as (process, url):
        assert httpx.get(f"{url}/health").status_code == 200
        (nursery,) = children(process.pid)
        soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (0, hard))
        os.kill(children(nursery)[0], signal.SIGKILL)
        wait_for(log, "a g2p worker has ended and is replaced", 2)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda text: httpx.post(f"{url}/convert", json={"text": text}), TEXTS * 4)
            assert [answer.status_code for answer in answers] == [200] * 16
    assert "Exception in callback" not in log.read_text()


def wait_for(log: Path, line: str, times: int) -> None:
    deadline = time.monotonic() + 20
    while log.read_text().count(line) < times:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)
