"""Streams of a real server process whose engine is slow: the same under any load, and in nobody's way."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import httpx
import pytest

from tests.servers import running

SLOW = ("-m", "tests.services.slow")
SENTENCE = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ, wˌIl sˈɛvən wˈɪzəɹdz kwˈIətli wˈɑʧ ðə hˈɪl. "
STREAM = {"phonemes": "həlˈO wˈɜɹld ɪn ðə mˈɔɹnɪŋ, wˌIl sˈɛvən wˈɪzəɹdz wˈɑʧ. " * 3, "seed": 7, "format": "pcm"}
LONG = {"phonemes": SENTENCE * 28, "format": "pcm"}  # about 450 words
SHORT = {"phonemes": "həlˈO wˈɜɹld.", "format": "pcm"}
PLAIN = {"KOKORO_BACKEND": "onnx", "G2P_SERVICE_URL": "http://localhost:9"}


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_seeded_stream_is_the_same_twenty_times_under_changing_load(tmp_path: Path, processes: str) -> None:
    environ = PLAIN | {"SLOW_FACTOR": "0.06", "SERVER_PROCESSES": processes}
    with running(SLOW, tmp_path / "log", **environ) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:

            async def streamed() -> str:
                answer = await client.post("/tts/stream", json=STREAM)
                assert answer.status_code == 200, answer.text
                return hashlib.sha256(answer.content).hexdigest()

            async def load(number: int) -> None:
                path = ("/tts", "/tts/stream")[number % 2]
                assert (await client.post(path, json=SHORT | {"seed": number})).status_code == 200

            hashes = set[str]()
            for crowd in range(10):
                others = [asyncio.create_task(load(number)) for number in range(crowd % 5)]
                hashes.update(await asyncio.gather(streamed(), streamed()))
                await asyncio.gather(*others)
    assert len(hashes) == 1


async def test_nobody_waits_behind_a_long_stream(tmp_path: Path) -> None:
    """Two long streams run. Each request would be refused if all of their pieces went before it."""
    with running(SLOW, tmp_path / "log", **PLAIN, SLOW_FACTOR="0.1", QUEUE_TIMEOUT="7") as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as client, asyncio.TaskGroup() as group:
            both = asyncio.Barrier(3)

            async def listen() -> None:
                async with client.stream("POST", "/tts/stream", json=LONG) as answer:
                    chunks = answer.aiter_bytes()
                    await anext(chunks)
                    await both.wait()
                    async for _ in chunks:
                        pass

            listeners = [group.create_task(listen()) for _ in range(2)]
            await both.wait()
            statuses, waits = list[int](), list[float]()
            while len(statuses) < 5:
                answer = await client.post("/tts", json=SHORT)
                statuses.append(answer.status_code)
                waits.append(float(answer.headers.get("x-queue-time-ms", "nan")))
            still_running = not any(listener.done() for listener in listeners)
            for listener in listeners:
                listener.cancel()
    assert statuses == [200] * 5, waits
    assert still_running
