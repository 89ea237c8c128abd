"""Several engines behind one queue, over HTTP, with the tiny model on two devices."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests import servers
from tests.servers import Server, is_idle, say, wait_for

PLAIN = {"format": "pcm", "sample_format": "pcm_f32le"}
VOICES = ("af_heart", "am_adam", "bf_emma")
LONG = "The quick brown fox jumps over the lazy dog, again and again. " * 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, shared_g2p: str) -> Iterator[Server]:
    environ = {"KOKORO_DEVICES": "cpu,cpu", "G2P_SERVICE_URL": shared_g2p}
    with servers.running(servers.TINY, tmp_path_factory.mktemp("pair") / "log", **environ) as running:
        yield running


def queue_of(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{server.url}/health/batching", timeout=30).json()
    return found


def request(number: int) -> dict[str, Any]:
    speed = 0.8 + 0.1 * (number % 5)
    return {"text": f"This is number {number}.", "voice": VOICES[number % 3], "speed": speed, **PLAIN}


async def test_everybody_gets_what_one_device_would_say(server: Server, tiny_server: Server) -> None:
    async with httpx.AsyncClient(timeout=300) as client:
        answers = await asyncio.gather(*(client.post(f"{server.url}/tts", json=request(n)) for n in range(24)))
    for number, answer in enumerate(answers):
        assert answer.status_code == 200
        alone = say(tiny_server, **request(number))
        servers.assert_same_audio(answer.content, alone.content)
    found = queue_of(server)
    assert sum(device["rows"] for device in found["devices"]) == found["performance"]["total_requests"]
    assert sum(device["batches"] for device in found["devices"]) == found["performance"]["total_batches"]
    assert all(device["batches"] for device in found["devices"])


def test_a_long_text_and_a_batch_come_out_in_order(server: Server, tiny_server: Server) -> None:
    both = [say(one, LONG, **PLAIN).content for one in (server, tiny_server)]
    servers.assert_same_audio(*both)
    body = {"requests": [{"text": f"Number {n}."} for n in range(12)]}
    zips = [httpx.post(f"{one.url}/tts/batch", json=body, timeout=120).content for one in (server, tiny_server)]
    first, second = (zipfile.ZipFile(io.BytesIO(content)) for content in zips)
    assert first.namelist() == second.namelist()
    sizes = [[len(archive.read(name)) for name in archive.namelist()[:-1]] for archive in (first, second)]
    assert sizes[0] == sizes[1]


def test_both_are_shown(server: Server) -> None:
    say(server, "Hello.")
    health = httpx.get(f"{server.url}/health").json()
    assert (health["status"], health["device"]) == ("ok", "cpu, cpu")
    assert health["devices"] == {"cpu": "healthy", "cpu#2": "healthy"}
    assert httpx.get(f"{server.url}/config").json()["KOKORO_DEVICES"] == ["cpu", "cpu"]
    text = httpx.get(f"{server.url}/metrics").text
    for name in ("batches_total", "rows_total", "busy_seconds_total", "rows_running", "up"):
        assert f'\ntts_device_{name}{{device="cpu"}} ' in text
        assert f'\ntts_device_{name}{{device="cpu#2"}} ' in text
    assert " device=cpu\n" in server.lines()
    assert " device=cpu#2\n" in server.lines()


async def test_clients_that_leave_cost_the_others_nothing(server: Server) -> None:
    async with httpx.AsyncClient(timeout=300) as client:
        url = f"{server.url}/tts"
        leaving = [asyncio.create_task(client.post(url, json={"text": f"{n}. {LONG}"})) for n in range(8)]
        staying = [asyncio.create_task(client.post(url, json={"text": f"Stay {n}."})) for n in range(8)]
        await asyncio.sleep(0.2)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        assert [answer.status_code for answer in await asyncio.gather(*staying)] == [200] * 8
    await asyncio.to_thread(wait_for, lambda: is_idle(server))


async def test_stopping_answers_what_both_are_working_on(server: Server) -> None:
    """The last one on this server."""
    before = server.lines().count("batch rows=")
    async with httpx.AsyncClient(timeout=60) as client:
        url = f"{server.url}/tts"
        tasks = [asyncio.create_task(client.post(url, json={"text": f"Number {n}."})) for n in range(24)]
        while server.lines().count("batch rows=") == before:  # noqa: ASYNC110 (the log of another process)
            await asyncio.sleep(0.01)
        assert await asyncio.to_thread(server.stop) == 0
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert {answer.status_code for answer in answers if isinstance(answer, httpx.Response)} <= {200, 503}
    assert "Traceback" not in server.lines()


@pytest.mark.slow  # tests/engine/test_devices.py has the message, tests/e2e/test_server.py a start that ends so
def test_devices_that_are_not_there_stop_the_start_with_one_line(tmp_path_factory: pytest.TempPathFactory) -> None:
    log = tmp_path_factory.mktemp("absent") / "log"
    process = servers.spawn(servers.REAL, log, KOKORO_BACKEND="torch", KOKORO_DEVICES="cuda:98,cuda:99")
    assert process.wait(timeout=120) == 1
    [line] = [line for line in log.read_text().splitlines() if "KOKORO_DEVICES" in line]
    assert line.startswith("kokoro-server: KOKORO_DEVICES=cuda:98: ")
    assert "Traceback" not in log.read_text()
