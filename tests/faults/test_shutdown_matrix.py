"""A row of the fault matrix: the server is asked to stop while it works."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from tests.faults.checks import PATIENCE, Fault, injected
from tests.faults.conftest import Start
from tests.servers import Server
from tests.services.faulty import SLOW

PLACES = ("preparing", "current_size", "running_rows")  # where a row can be that was accepted


async def readiness(fault: Fault) -> list[int]:
    """As told on many connections at once: each front has some of them, and learns of the signal by itself."""
    answers = await asyncio.gather(*(fault.get("/health/ready") for _ in range(8)))
    return [answer.status_code for answer in answers]


async def test_sigterm_under_load(start: Start, faulty: Server) -> None:
    """What was accepted is finished, and who comes later is told so by the server itself."""
    how = "SIGTERM with 4 rows on their way, then 4 new requests; then another process"
    async with injected(start(QUEUE_TIMEOUT="600"), "SIGTERM under load", how, neighbour=(200, 503)) as fault:
        url = fault.server.url.replace("http", "ws") + "/tts/ws"
        agent = await connect(url)
        await agent.send(json.dumps({"type": "start", "speed": SLOW}))
        accepted = [asyncio.create_task(fault.post(text=f"Row {n}.", speed=SLOW)) for n in range(4)]
        await fault.until(lambda status: sum(map(status.get, PLACES)) >= sum(not task.done() for task in accepted))
        for message in ({"type": "append", "text": "Let me finish."}, {"type": "flush"}):
            await agent.send(json.dumps(message))
        while '"type":"start"' not in str(await agent.recv()):
            pass
        fault.server.process.send_signal(signal.SIGTERM)
        while 200 in await readiness(fault):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        refused = await asyncio.gather(*(fault.post(text="Too late.") for _ in range(4)))
        assert [answer.status_code for answer in refused] == [503] * 4
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        with pytest.raises(InvalidStatus, match="503"):
            await connect(url)
        assert (await fault.get("/health/live")).status_code == 200
        heard = []
        with pytest.raises(ConnectionClosedError, match="1012"):  # noqa: PT012
            while True:
                heard.append(await agent.recv())
        assert '{"type":"flushed"}' in heard
        assert [(await task).status_code for task in accepted] == [200] * 4
        assert await asyncio.to_thread(fault.server.process.wait, PATIENCE) == 0
        assert "Traceback" not in fault.server.lines()
        fault.server = faulty
