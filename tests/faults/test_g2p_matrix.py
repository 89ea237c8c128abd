"""Rows of the fault matrix: a G2P service that is down, slow, wrong or dead. Who sends phonemes notices nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests import servers
from tests.faults.checks import injected
from tests.servers import Server
from tests.services import fake_g2p

REQUESTS = 4


@pytest.fixture(scope="module")
def g2p() -> Iterator[ExitStack]:
    """Holds the G2P service that runs now."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def server(g2p: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    url = g2p.enter_context(fake_g2p.running())
    log = tmp_path_factory.mktemp("g2p") / "log"
    settings = {"G2P_SERVICE_URL": url, "G2P_TIMEOUT": "2", "QUEUE_TIMEOUT": "600"}
    with servers.running(servers.TINY, log, **settings) as running:
        yield running


@pytest.mark.parametrize(
    ("name", "cue", "status"),
    [
        ("G2P slow", fake_g2p.SLOW, 503),
        ("G2P answers garbage", fake_g2p.GARBAGE, 502),
        ("G2P answers in another form", fake_g2p.WRONG_FORM, 502),
        ("G2P answers too few texts", fake_g2p.TOO_FEW, 502),
        ("G2P breaks off its answer", fake_g2p.CUT_OFF, 502),
        ("G2P's answer has no end", fake_g2p.ENDLESS, 502),
        ("G2P's answer is huge", fake_g2p.HUGE, 502),
    ],
)
async def test_a_wrong_answer_is_told(server: Server, name: str, cue: str, status: int) -> None:
    async with injected(server, name, f"a fake G2P service that reads {cue!r} in the text") as fault:
        answers = await asyncio.gather(*(fault.post(text=f"He speaks {cue}.") for _ in range(REQUESTS)))
        assert [answer.status_code for answer in answers] == [status] * REQUESTS
        assert all("Traceback" not in answer.text for answer in answers)


async def test_a_service_that_is_down_is_waited_for(server: Server, g2p: ExitStack) -> None:
    async with injected(server, "G2P down", "the G2P service's process killed; later one on the same port") as fault:
        url = (await fault.get("/health")).json()["g2p"]["url"]
        g2p.close()
        hasty = await fault.post(text="Anybody there?", headers={"X-Request-Timeout": "2"})
        assert hasty.status_code in (503, 429)  # 429 where a busy machine would not have spoken it in time anyway
        assert int(hasty.headers["retry-after"]) >= 1
        waiting = [asyncio.create_task(fault.post(text="Anybody there?")) for _ in range(REQUESTS)]
        while (ready := await fault.get("/health/ready")).status_code == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert "G2P" in ready.json()["reason"]
        assert (await fault.get("/health")).json()["status"] == "degraded"
        g2p.enter_context(fake_g2p.running(int(url.rpartition(":")[2])))
        assert [(await task).status_code for task in waiting] == [200] * REQUESTS
        assert (await fault.get("/health/ready")).status_code == 200


async def test_a_killed_child_comes_back(faulty: Server) -> None:
    async with injected(faulty, "G2P killed with -9", "the server's own child, with texts on their way") as fault:
        before = faulty.child_pid()
        sent = [asyncio.create_task(fault.post(text=f"Number {n}. " * 20)) for n in range(REQUESTS)]
        os.kill(before, signal.SIGKILL)
        sent += [asyncio.create_task(fault.post(text=f"Later number {n}.")) for n in range(REQUESTS)]
        assert {(await task).status_code for task in sent} == {200}
        assert faulty.child_pid() != before


def test_an_outage_has_lines_in_the_log_and_each_request_none(log_file: Path) -> None:
    port = servers.free_port()
    with servers.running(servers.TINY, log_file, G2P_SERVICE_URL=f"http://127.0.0.1:{port}") as server:
        assert [servers.say(server, f"Hello {number}.").status_code for number in range(20)] == [503] * 20
        with connect(f"{server.url.replace('http', 'ws')}/tts/ws") as session:
            session.send('{"type": "append", "text": "Hello."}')
            session.send('{"type": "close"}')
            assert any("g2p_unavailable" in str(message) for message in session)
        processes = int(os.environ.get("SERVER_PROCESSES") or 1)  # each has a log of its own
        assert 1 <= server.lines().count("g2p_unavailable") <= processes
        assert 1 <= server.lines().count("degraded reason=g2p") <= processes
        with fake_g2p.running(port):
            servers.wait_for(lambda: "no longer degraded reason=g2p" in server.lines())
