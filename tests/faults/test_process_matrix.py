"""Rows of the fault matrix: a process of several that dies or hangs. The others live on."""

from __future__ import annotations

import asyncio
import os
import signal

from tests.faults.checks import Fault, injected, restarted
from tests.servers import Server, with_fronts
from tests.services.faulty import SLOW

pytestmark = with_fronts

REQUESTS = 8


async def test_a_killed_front_costs_its_own_connections(faulty: Server) -> None:
    how = f"{REQUESTS} requests on all API workers; who was connected to the one that ends asks again"
    async with injected(faulty, "API worker killed with -9", how) as fault:
        fault.breaks = True
        sent = [asyncio.create_task(fault.post(text=f"Row {n}.", speed=SLOW)) for n in range(REQUESTS)]
        await fault.until(lambda status: status["running_rows"] > 0)
        await end(fault, "front-1", signal.SIGKILL)
        assert [(await task).status_code for task in sent] == [200] * REQUESTS


async def test_who_waits_for_a_killed_engine_process_gets_speech_from_the_next(faulty: Server) -> None:
    how = f"{REQUESTS} requests in the queue and on the device"
    async with injected(faulty, "engine process killed with -9", how) as fault:
        await speaks_when(fault, signal.SIGKILL)


async def test_an_engine_process_that_hangs_is_replaced(faulty: Server) -> None:
    how = f"{REQUESTS} requests in the queue and on the device of a process that is stopped"
    async with injected(faulty, "engine process hangs", how) as fault:
        await speaks_when(fault, signal.SIGSTOP)


async def speaks_when(fault: Fault, number: int) -> None:
    """All who wait for the engine process when it gets a signal get their speech: QUEUE_TIMEOUT is longer than that."""
    sent = [asyncio.create_task(fault.post(text=f"Row {n}. " * 40, speed=SLOW)) for n in range(REQUESTS)]
    await fault.until(lambda status: status["running_rows"] > 0)
    await end(fault, "engine", number)
    assert [(await task).status_code for task in sent] == [200] * REQUESTS


async def end(fault: Fault, name: str, number: int) -> None:
    """Send a signal to a process that ends, or hangs until it is killed; returns when another has its place."""
    pid = (await fault.pids())[name]
    os.kill(pid, number)
    await restarted(fault, name, pid)
