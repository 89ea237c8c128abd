"""Rows of the fault matrix: more work than the server can do, and an end to it."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from tests import servers
from tests.faults.checks import PATIENCE, injected
from tests.servers import Server
from tests.services.faulty import SLOW

LONG = "The quick brown fox jumps over the lazy dog, again and again. "


@pytest.fixture(scope="module")
def small(quick_g2p: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that lets few wait, and not for long."""
    log = tmp_path_factory.mktemp("small") / "log"
    settings = {"MAX_QUEUE_SIZE": "4", "QUEUE_TIMEOUT": "20", "G2P_SERVICE_URL": quick_g2p}
    with servers.running(servers.FAULTY, log, **settings) as running:
        yield running


async def test_queue_full(small: Server) -> None:
    how = "40 requests at once with MAX_QUEUE_SIZE=4"
    async with injected(small, "queue full", how, neighbour=(200, 429)) as fault:
        answers = await asyncio.gather(*(fault.post(text=LONG) for _ in range(40)))
        assert {answer.status_code for answer in answers} == {200, 429}
        refused = [answer for answer in answers if answer.status_code == 429]
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)


async def test_deadline_passes_while_busy(small: Server) -> None:
    how = "X-Request-Timeout: 0.3 behind a pass of a second"
    async with injected(small, "deadline passes while busy", how, neighbour=(200, 429)) as fault:
        for _ in range(5):  # what runs may be the neighbour's row; then both requests go in one pass and get audio
            busy = asyncio.create_task(fault.post(text="Slow.", speed=SLOW))
            await fault.until(lambda status, busy=busy: status["running_rows"] > 0 or busy.done())  # type: ignore[misc]
            late = await fault.post(text="Soon, please.", headers={"X-Request-Timeout": "0.3"})
            assert (await busy).status_code == 200
            if late.status_code != 200:
                break
        assert late.status_code in (429, 504)
        assert late.headers["retry-after"]


async def test_bulk_flood_beside_a_stream(faulty: Server) -> None:
    """The stream is whole, and what it says is what it says alone."""
    async with injected(faulty, "bulk flood beside a stream", "3 x 20 clips on /tts/batch beside a stream") as fault:
        alone = (await fault.post("/tts/stream", text=LONG * 3, format="pcm")).content
        clips = [{"text": f"Clip number {n}."} for n in range(20)]
        flood = [asyncio.create_task(fault.post("/tts/batch", requests=clips)) for _ in range(3)]
        await fault.until(lambda status: status["by_priority"]["bulk"] > 0 or all(task.done() for task in flood))
        beside = await fault.post("/tts/stream", text=LONG * 3, format="pcm")
        assert beside.status_code == 200
        assert len(beside.content) == len(alone)
        answers = [await task for task in flood]
        assert [answer.headers["x-failed-requests"] for answer in answers] == ["0"] * 3


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only there are all addresses of 127.0.0.0/8 this machine's own")
async def test_one_clients_flood_beside_another_client(small: Server) -> None:
    """The one gets 429 for most of what it sends; the other is served as if it had come first."""
    how = "12 clients of one address without end, with MAX_QUEUE_SIZE=4; another address asks now and then"
    statuses, served = Counter[int](), asyncio.Event()
    async with injected(small, "one client's flood beside another", how, neighbour=(200, 429)) as fault:

        async def flood() -> None:
            while not served.is_set():
                statuses[(await fault.post(text=LONG, speed=SLOW)).status_code] += 1
                await asyncio.sleep(0.05)

        flooding = [asyncio.create_task(flood()) for _ in range(12)]
        await fault.until(lambda status: status["current_size"] >= 4)
        elsewhere = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
        async with httpx.AsyncClient(transport=elsewhere, base_url=small.url, timeout=PATIENCE) as other:
            answers = [await other.post("/tts", json={"text": f"Number {n}."}) for n in range(4)]
        served.set()
        await asyncio.gather(*flooding)
        fault.sent, fault.answered = fault.sent + len(answers), fault.answered + len(answers)
        assert [answer.status_code for answer in answers] == [200] * 4
        assert statuses[429] > statuses[200]
