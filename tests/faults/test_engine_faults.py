"""An engine that fails, under a real server: only the row at fault pays, and nobody is told a lie."""

from __future__ import annotations

import asyncio
import io
import time
import zipfile
from collections.abc import Iterator

import httpx
import pytest

from tests import servers
from tests.servers import Server, say
from tests.services.faulty import HANGS, HUNG, LATE_FAILURE, LOST, NAN, RAISES, SILENT

FAULTY = ("-m", "tests.services.faulty")
LONG = (
    "It was late. "
    + "The quick brown fox jumps over the lazy dog while seven wizards quietly watch from the hill. " * 9
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.running(FAULTY, tmp_path_factory.mktemp("faulty") / "log") as running:
        yield running


@pytest.mark.parametrize(("fault", "code"), [(RAISES, "engine_error"), (NAN, "bad_audio"), (SILENT, "bad_audio")])
def test_a_bad_row_is_an_error_not_silence(server: Server, fault: float, code: str) -> None:
    response = say(server, "Hello there.", speed=fault)
    assert response.status_code == 500
    assert response.json()["error"]["code"] == code


async def test_only_the_bad_row_of_a_batch_fails(server: Server) -> None:
    speeds = [1.0, 1.0, RAISES, 1.0, NAN, 1.0, 1.0, SILENT]
    async with httpx.AsyncClient(timeout=120) as client:
        answers = await asyncio.gather(
            *(client.post(f"{server.url}/tts", json={"text": f"Number {n}.", "speed": s}) for n, s in enumerate(speeds))
        )
        found = (await client.get(f"{server.url}/health/batching")).json()
    assert [answer.status_code for answer in answers] == [200 if speed == 1.0 else 500 for speed in speeds]
    assert found["status"] == "healthy"
    assert found["queue_status"]["current_size"] == 0


def test_a_failed_clip_of_a_batch_costs_only_itself(server: Server) -> None:
    body = {"requests": [{"text": "One."}, {"text": "Two.", "speed": RAISES}, {"text": "Three."}]}
    response = httpx.post(f"{server.url}/tts/batch", json=body, timeout=120)
    assert response.headers["x-failed-requests"] == "1"
    names = zipfile.ZipFile(io.BytesIO(response.content)).namelist()
    assert names == ["tts_001_af_heart.wav", "error_002.txt", "tts_003_af_heart.wav", "manifest.json"]


def test_a_stream_that_fails_at_once_is_an_http_error(server: Server) -> None:
    response = httpx.post(f"{server.url}/tts/stream", json={"text": LONG, "speed": RAISES}, timeout=120)
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "engine_error"


def test_a_stream_that_fails_later_is_broken_off(server: Server) -> None:
    body = {"text": LONG, "speed": LATE_FAILURE}
    received = 0
    with (  # noqa: PT012
        pytest.raises(httpx.RemoteProtocolError),
        httpx.stream("POST", f"{server.url}/tts/stream", json=body, timeout=120) as response,
    ):
        assert response.status_code == 200
        for chunk in response.iter_raw():
            received += len(chunk)
    assert received > 44
    assert httpx.get(f"{server.url}/health/streaming").json()["streams"]["failed"] >= 1
    assert f"stream broken off stream_id={response.headers['x-stream-id']}" in server.lines()
    assert 'outcome="broken_off"' in httpx.get(f"{server.url}/metrics").text


def test_captions_that_fail_later_say_so_and_break_off(server: Server) -> None:
    url, body = f"{server.url}/tts/captioned", {"text": LONG, "speed": LATE_FAILURE}
    lines: list[str] = []
    with (
        pytest.raises(httpx.RemoteProtocolError),
        httpx.stream("POST", url, json=body, headers={"accept": "application/x-ndjson"}, timeout=120) as response,
    ):
        lines.extend(response.iter_lines())
    assert '"type": "audio"' in lines[0]
    assert '"type": "error"' in lines[-1]


def test_a_lost_device_ends_the_process_for_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    with servers.running(FAULTY, tmp_path_factory.mktemp("lost") / "log") as running:
        assert say(running, "Hello there.").status_code == 200
        response = say(running, "Hello there.", speed=LOST)
        assert response.status_code in (500, 503)
        assert running.process.wait(timeout=60) == 1
        assert "the device is lost" in running.lines()


def test_a_lost_device_of_two_ends_the_process_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    with servers.running(FAULTY, tmp_path_factory.mktemp("pair") / "log", KOKORO_DEVICES="cpu,cpu") as running:
        assert say(running, "Hello there.").status_code == 200
        response = say(running, "Hello there.", speed=LOST)
        assert response.status_code == 503
        assert response.headers["retry-after"]
        assert running.process.wait(timeout=60) == 1
        assert "the device is lost" in running.lines()


def test_a_hang_of_the_only_device_ends_the_process_for_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    with servers.running(FAULTY, tmp_path_factory.mktemp("hang") / "log", ENGINE_TIMEOUT="4") as running:
        assert say(running, "Hello there.").status_code == 200
        response = say(running, "Hello there.", speed=HANGS)
        assert (response.status_code, response.json()["error"]["code"]) == (504, "deadline_exceeded")
        assert running.process.wait(timeout=60) == 1
        assert "the device is lost" in running.lines()


def test_a_device_of_two_that_hangs_and_returns_is_used_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = {"ENGINE_TIMEOUT": "4", "KOKORO_DEVICES": "cpu,cpu"}
    with servers.running(FAULTY, tmp_path_factory.mktemp("back") / "log", **settings) as running:
        assert say(running, "Hello there.").status_code == 200
        assert say(running, "Hello there.", speed=HANGS).status_code == 504
        states = httpx.get(f"{running.url}/health").json()["devices"]
        assert sorted(states.values()) == ["healthy", "lost"]
        assert say(running, "Hello there.").status_code == 200
        deadline = time.monotonic() + HUNG + 60
        while "lost" in httpx.get(f"{running.url}/health").json()["devices"].values():
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert "device works again" in running.lines()
        assert say(running, "Hello there.").status_code == 200
