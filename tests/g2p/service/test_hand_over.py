"""What the service's clients notice of its workers: slow ones, stuck ones, dead ones, and texts that fill the pipes."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple

import httpx
import pytest

from tests.g2p.conftest import children, service

linux = pytest.mark.skipif(sys.platform != "linux", reason="forks")


class Scripted(NamedTuple):
    process: Popen[str]
    http: httpx.Client
    background: ThreadPoolExecutor

    def batch(self, *texts: str) -> list[str]:
        answer = self.http.post("/convert/batch", json={"texts": texts})
        assert answer.status_code == 200, answer.text
        return [result["phonemes"] for result in answer.json()["results"]]

    def status(self, text: str) -> int:
        return self.http.post("/convert", json={"text": text}).status_code

    def until_health(self, status: int) -> Any:
        deadline = time.monotonic() + 30
        while (answer := self.http.get("/health")).status_code != status:
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.05)
        return answer.json()


@pytest.fixture
def scripted(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scripted]:
    log = tmp_path / "service.log"
    with (
        service(log, request.param, "tests.services.scripted_g2p") as (process, url),
        httpx.Client(base_url=url, timeout=60, trust_env=False) as http,
        ThreadPoolExecutor(4) as background,
    ):
        yield Scripted(process, http, background)
        process.kill()  # so that no request in the background is waited for


def workers(count: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("scripted", [count], indirect=True)


@linux
@workers(2)
def test_a_slow_text_holds_up_neither_its_own_call_nor_others(scripted: Scripted, tmp_path: Path) -> None:
    done, never = tmp_path / "done", tmp_path / "never"
    # The first text ends when the last has begun: in rounds of two that would never be.
    assert scripted.batch(f"wait {done}", *"abcdefg", f"touch {done}")[1:8] == [*"abcdefg"]
    slow = scripted.background.submit(scripted.batch, f"wait {never}", "b", "c")
    assert [scripted.batch("a", "b") for _ in range(10)] == [["a", "b"]] * 10
    assert not slow.done()
    never.touch()
    assert slow.result(30)[1:] == ["b", "c"]


@linux
@workers(2)
def test_long_texts_that_fill_the_socket_are_all_converted(scripted: Scripted) -> None:
    texts = [str(number) + "😀" * 9_990 for number in range(40)]
    assert scripted.batch(*texts) == texts


@workers(1)
def test_texts_of_a_client_that_has_gone_are_not_converted(scripted: Scripted) -> None:
    with pytest.raises(httpx.ReadTimeout):
        scripted.http.post("/convert/batch", json={"texts": ["nap"] * 250}, timeout=0.3)
    before, after = 0, 250
    while after > before + 1:  # until nothing but these calls is begun
        (before,), (after,) = ([int(count) for count in scripted.batch("count")] for _ in range(2))
    assert after < 250


@linux
@workers(2)
def test_a_text_that_breaks_a_worker_costs_no_other(scripted: Scripted) -> None:
    answer = scripted.http.post("/convert/batch", json={"texts": ["a", "break it", "b"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "g2p_failed")
    assert scripted.batch("a", "b") == ["a", "b"]


@workers(1)
def test_a_stuck_service_shows_in_its_health(scripted: Scripted, tmp_path: Path) -> None:
    end = tmp_path / "end"
    stuck = scripted.background.submit(scripted.status, f"wait {end}")
    assert scripted.until_health(503)["status"] == "stuck"
    end.touch()
    assert stuck.result(30) == 200
    scripted.until_health(200)


@linux
@workers(2)
def test_a_worker_that_hangs_is_replaced_and_its_text_converted(scripted: Scripted, tmp_path: Path) -> None:
    hanging = scripted.background.submit(scripted.batch, f"hang {tmp_path / 'begun'}", "b")
    assert [scripted.batch("a", "b") for _ in range(10)] == [["a", "b"]] * 10
    assert hanging.result(30)[1] == "b"
    scripted.until_health(200)


@linux
@workers(2)
def test_a_worker_that_is_killed_costs_no_text(scripted: Scripted, tmp_path: Path) -> None:
    end = tmp_path / "end"
    others = [scripted.background.submit(scripted.batch, f"wait {end}", *"abcdef") for _ in range(4)]
    for worker in until_two_workers(scripted.process.pid):
        os.kill(worker, signal.SIGKILL)
        until_two_workers(scripted.process.pid, without=worker)
    end.touch()
    assert [other.result(30)[1:] for other in others] == [[*"abcdef"]] * 4
    assert scripted.process.poll() is None


@linux
@workers(2)
def test_a_text_that_ends_every_worker_is_given_up(scripted: Scripted) -> None:
    answer = scripted.http.post("/convert/batch", json={"texts": ["a", "die now", "b"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "g2p_failed")
    assert "'die now'" in answer.json()["error"]["message"]
    assert scripted.batch("a", "b") == ["a", "b"]
    assert scripted.process.poll() is None


@linux
@workers(2)
def test_without_the_process_that_forks_workers_the_service_ends(scripted: Scripted) -> None:
    (nursery,) = children(scripted.process.pid)
    os.kill(nursery, signal.SIGKILL)
    assert scripted.process.wait(30) == 0


def until_two_workers(service_pid: int, without: int = 0) -> list[int]:
    deadline = time.monotonic() + 30
    while True:
        (nursery,) = children(service_pid)
        if len(found := children(nursery)) == 2 and without not in found:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.01)
