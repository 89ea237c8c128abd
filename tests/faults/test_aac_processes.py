"""AAC encoders are processes: never more than allowed, and none outlives its listener or the server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import httpx
from websockets.asyncio.client import connect

from tests import servers
from tests.servers import Server

LIMIT = 3
BARGE_INS = 30
PATIENCE = 120  # seconds
LONG = "".join(f"Number {n}. [pause:10s]" for n in range(20))


def encoders(server: Server) -> set[int]:
    """The server's AAC encoders that are running."""
    return {pid for pid in servers.family(server.process.pid) if b"kokoro_server.audio.aac" in command(pid)}


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return b""


async def barge_in(server: Server) -> int:
    """Returns the most encoders that were seen."""
    most = 0
    async with connect(f"{server.url.replace('http', 'ws', 1)}/tts/ws", max_size=2**20) as connection:
        await connection.send(json.dumps({"type": "start", "format": "aac"}))
        for _ in range(BARGE_INS // 5):
            await connection.send(json.dumps({"type": "append", "text": "This one is interrupted. And this is not. "}))
            while '"start"' not in str(await connection.recv()):
                pass
            most = max(most, len(encoders(server)))
            await connection.send(json.dumps({"type": "cancel"}))
            while '"cancelled"' not in str(await connection.recv()):
                pass
    return most


async def test_barge_ins_leave_no_encoder_and_neither_does_the_servers_death(log_file: Path, shared_g2p: str) -> None:
    environ = {"MAX_AAC_ENCODERS": str(LIMIT), "QUEUE_TIMEOUT": "60", "G2P_SERVICE_URL": shared_g2p}
    with servers.running(servers.TINY, log_file, **environ) as server:
        most = await asyncio.gather(*(barge_in(server) for _ in range(5)))
        assert max(most) <= LIMIT
        await asyncio.to_thread(servers.wait_for, lambda: not encoders(server))
        body = {"text": LONG, "format": "aac"}
        async with (
            httpx.AsyncClient(timeout=PATIENCE) as client,
            client.stream("POST", f"{server.url}/tts/stream", json=body) as response,
        ):
            assert response.status_code == 200
            left = encoders(server)
            assert len(left) == 1
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        await asyncio.to_thread(servers.wait_for, lambda: not any(map(servers.alive, left)))


async def test_a_killed_encoder_is_a_503_that_may_be_repeated(tiny_server: Server) -> None:
    async with httpx.AsyncClient(base_url=tiny_server.url, timeout=PATIENCE) as client:
        body = {"phonemes": "həlˈO.", "format": "aac"}
        asking = asyncio.create_task(client.post("/tts", json=body))
        await asyncio.to_thread(servers.wait_for, lambda: encoders(tiny_server))
        for pid in encoders(tiny_server):  # it takes a while to import what it needs
            os.kill(pid, signal.SIGKILL)
        answer = await asking
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        assert (await client.post("/tts", json=body)).status_code == 200
