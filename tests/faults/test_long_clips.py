"""Clips of any length: the too long ones are refused before anything is made, the long ones take no memory."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
import resource
import sys
import zipfile
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import servers
from tests.servers import Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

PATIENCE = 300  # seconds
ALIAS = f"<sub alias='{'good day. ' * 99}'>x</sub>. "
HOURS = {"text": "Good day. " * 10_000, "speed": 0.25, "sample_rate": 48_000, "sample_format": "pcm_f32le"}
# Ten minutes, nearly all of it silence, which costs no model: 115 MB at 48 kHz in 32 bits.
LONG = {
    "text": "One. " + "[pause:30s] Two. " * 20,
    "sample_rate": 48_000,
    "sample_format": "pcm_f32le",
}
LONG_MB = 115
OPENAI_HOURS = {"input": HOURS["text"], "voice": "af_heart", "speed": 0.25, "stream": False}
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, quick_g2p: str) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("long") / "log"
    # Clips are compared to the bit, and rows that share a pass may differ in the last one. A busy machine is no fault.
    environ = {"G2P_SERVICE_URL": quick_g2p, "MAX_ROWS_PER_PASS": "1", "QUEUE_TIMEOUT": str(PATIENCE)}
    with servers.running(servers.TINY, log, **environ) as server:
        yield server


def processes(server: Server) -> list[int]:
    return [server.process.pid, *servers.family(server.process.pid)]


def megabytes(server: Server) -> float:
    """Memory of all processes of the server, without files. What processes share counts once."""
    kilobytes = 0
    for pid in processes(server):
        with contextlib.suppress(OSError):  # it has ended
            found = re.search(r"Pss_Anon:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text())
            kilobytes += int(found[1]) if found else 0
    return kilobytes / 1000


async def settled_megabytes(server: Server) -> float:
    """`megabytes` once they have stopped to grow: spare processes begin after the server is ready."""
    before, now = -1.0, megabytes(server)
    while abs(now - before) > 1:
        await asyncio.sleep(2)
        before, now = now, await asyncio.to_thread(megabytes, server)
    return now


async def most_megabytes(server: Server, until: asyncio.Event) -> float:
    most = 0.0
    while not until.is_set():
        most = max(most, await asyncio.to_thread(megabytes, server))
        await asyncio.sleep(0.05)
    return most


def open_files(server: Server) -> list[str]:
    """The files of long clips that are open."""
    links = [link for pid in processes(server) for link in Path(f"/proc/{pid}/fd").iterdir()]
    return [str(link.readlink()) for link in links if link.is_symlink() and "/spool/" in str(link.readlink())]


def clip_audio(server: Server) -> dict[str, float]:
    return dict(httpx.get(f"{server.url}/health/batching", timeout=PATIENCE).json()["clip_audio"])


def audio_made(server: Server) -> float:
    metrics = httpx.get(f"{server.url}/metrics", timeout=PATIENCE).text
    found = re.search(r"^tts_audio_seconds_total (\S+)", metrics, re.MULTILINE)
    return float(found[1]) if found else 0.0


def nothing_left(server: Server) -> None:
    servers.wait_for(lambda: clip_audio(server) == {"held": 0, "waiting": 0} and not open_files(server))


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/tts", HOURS, "text"),
        ("/tts/captioned", HOURS, "text"),
        ("/tts/captioned", HOURS | {"format": "srt", "sample_rate": 24_000, "sample_format": "pcm_s16le"}, "text"),
        ("/tts", {"turns": [{"text": HOURS["text"]}], "speed": 0.25}, "turns"),
        ("/tts", {"phonemes": "wˈʌn. " * 16_000, "speed": 0.25}, "phonemes"),
        (
            "/tts",
            {"text": f"<speak><prosody rate='25%'>{'Good day. ' * 9_000}</prosody></speak>", "ssml": True},
            "text",
        ),
        (
            "/tts",
            {"text": f"<speak>{ALIAS * 90}</speak>", "ssml": True, "speed": 0.25},
            "text",
        ),
        ("/tts", {"text": "a " * 2_000, "lexicon": {"a": "good day " * 50}}, "text"),
        ("/v1/audio/speech", OPENAI_HOURS, "input"),
        ("/dev/captioned_speech", OPENAI_HOURS, "input"),
        ("/v1/text-to-speech/af_heart", {"text": "9" * 100_000}, "audio"),
        ("/v1/text-to-speech/af_heart/with-timestamps", {"text": "9" * 100_000}, "audio"),
    ],
)
def test_hours_of_audio_are_refused_before_anything_is_made(
    server: Server, path: str, body: dict[str, Any], field: str
) -> None:
    made = audio_made(server)
    response = httpx.post(f"{server.url}{path}", json=body, timeout=PATIENCE)
    assert response.status_code == (400 if path == "/v1/audio/speech" else 413), response.text
    assert re.search(r"about \d{5} s; at most 7200 s are allowed \(MAX_CLIP_SECONDS\)", response.text)
    assert "/tts/stream" in response.text
    assert "POST /jobs" in response.text
    assert field in response.text
    assert audio_made(server) == made


def test_a_clip_that_is_too_long_costs_only_itself(server: Server) -> None:
    bodies = {"requests": [HOURS, {"text": "Hello."}]}
    archive = httpx.post(f"{server.url}/tts/batch", json=bodies, timeout=PATIENCE)
    with zipfile.ZipFile(io.BytesIO(archive.content)) as file:
        assert file.read("error_001.txt").startswith(b"clip_too_long: ")
        assert "tts_002_af_heart.wav" in file.namelist()
    frames = httpx.post(f"{server.url}/tts/bulk", json=bodies, timeout=PATIENCE).content
    assert b'"code": "clip_too_long"' in frames


def test_streams_may_be_ten_times_as_long(log_file: Path, quick_g2p: str) -> None:
    with servers.running(servers.TINY, log_file, G2P_SERVICE_URL=quick_g2p, MAX_CLIP_SECONDS="5") as server:
        text = "The quick brown fox jumps over the lazy dog, and then it does so again, and yet once more. "
        whole, streamed = ({"text": text * times} for times in (1, 8))
        assert httpx.post(f"{server.url}/tts", json=whole, timeout=PATIENCE).status_code == 413
        assert httpx.post(f"{server.url}/tts/stream", json=whole, timeout=PATIENCE).status_code == 200
        assert httpx.post(f"{server.url}/tts/stream", json=streamed, timeout=PATIENCE).status_code == 200
        refused = httpx.post(f"{server.url}/tts/stream", json={"text": text * 10}, timeout=PATIENCE)
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "clip_too_long")
        assert "at most 50 s" in refused.text


async def test_many_long_clips_at_once_take_little_memory(server: Server) -> None:
    """All are right, and together they take less than two of them would in memory."""
    before, done = await settled_megabytes(server), asyncio.Event()
    watching = asyncio.create_task(most_megabytes(server, done))

    async def one(client: httpx.AsyncClient) -> tuple[int, bytes]:
        size, head = 0, b""
        async with client.stream("POST", f"{server.url}/tts", json=LONG) as response:
            assert response.status_code == 200, await response.aread()
            async for chunk in response.aiter_raw():
                head = head or chunk[:44]
                size += len(chunk)
            assert int(response.headers["content-length"]) == size
            assert size == 44 + 4 * round(48_000 * float(response.headers["x-audio-duration"]))
        return size, head

    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        answers = await asyncio.gather(*(one(client) for _ in range(6)))
    for size, head in answers:
        assert size > LONG_MB * MEGABYTE
        assert int.from_bytes(head[40:44], "little") == size - 44
        assert int.from_bytes(head[4:8], "little") == size - 8
    done.set()
    assert await watching < before + 2 * LONG_MB
    await asyncio.to_thread(nothing_left, server)


def test_every_endpoint_sends_the_same_long_clip(server: Server) -> None:
    body = LONG | {"sample_rate": 8_000, "sample_format": "pcm_mulaw"}
    clip = httpx.post(f"{server.url}/tts", json=body, timeout=PATIENCE)
    captioned = httpx.post(f"{server.url}/tts/captioned", json=body, timeout=PATIENCE)
    assert b64decode(captioned.json()["audio"]) == clip.content
    assert len(captioned.json()["words"]) == 21
    archive = httpx.post(f"{server.url}/tts/batch", json={"requests": [body] * 2}, timeout=PATIENCE)
    with zipfile.ZipFile(io.BytesIO(archive.content)) as file:
        assert file.read("tts_001_af_heart.wav") == file.read("tts_002_af_heart.wav") == clip.content
    line, _, audio = httpx.post(
        f"{server.url}/tts/bulk", json={"requests": [body]}, timeout=PATIENCE
    ).content.partition(b"\n")
    assert audio == clip.content
    assert len(json.loads(line)["words"]) == 21
    asked = {"text": LONG["text"], "format": "srt"}
    subtitles = httpx.post(f"{server.url}/tts/captioned", json=asked, timeout=PATIENCE)
    assert subtitles.text.count("-->") == 21
    nothing_left(server)


@servers.in_one_process
def test_whole_clips_wait_on_the_disk_for_slow_readers(log_file: Path, quick_g2p: str) -> None:
    """Those for which there is no room in memory. A minute of silence costs a client nothing, and 11 MB here."""
    little = (
        "-c",
        "import runpy; from kokoro_server.server import app; app.ANSWERS_SHARE = 1 << 40; "
        "runpy.run_module('tests.services.tiny', run_name='__main__')",
    )
    clip = LONG | {"text": "[pause:20s] One. [pause:20s]"}
    two = {"requests": [clip, clip]}
    asked = {"/tts": clip, "/tts/captioned": clip, "/tts/batch": two, "/tts/bulk": two}
    with (
        servers.running(little, log_file, G2P_SERVICE_URL=quick_g2p) as server,
        httpx.Client(timeout=PATIENCE) as client,
    ):
        with contextlib.ExitStack() as stack:
            slow = {
                path: stack.enter_context(client.stream("POST", f"{server.url}{path}", json=body))
                for path, body in asked.items()
            }
            assert [answer.status_code for answer in slow.values()] == [200] * len(slow)
            assert len(open_files(server)) >= len(slow)
            audio, captioned, archive, frames = (answer.read() for answer in slow.values())
        assert len(audio) > 7 * MEGABYTE
        assert b64decode(json.loads(captioned)["audio"]) == audio
        with zipfile.ZipFile(io.BytesIO(archive)) as file:
            assert [len(file.read(f"tts_00{n}_af_heart.wav")) for n in (1, 2)] == [len(audio)] * 2
        assert len(frames) > 2 * len(audio)
        nothing_left(server)


async def test_clients_that_leave_let_nothing_behind(server: Server) -> None:
    async with httpx.AsyncClient(timeout=PATIENCE) as client:

        async def leave_while_it_is_made(path: str, body: object) -> None:
            with pytest.raises(httpx.TimeoutException):
                await client.post(f"{server.url}{path}", json=body, timeout=1.0)

        async def leave_while_it_is_sent(format: str) -> None:
            body = LONG if format == "wav" else {"text": LONG["text"], "format": format}
            async with client.stream("POST", f"{server.url}/tts", json=body) as response:
                assert response.status_code == 200
                chunks: AsyncIterator[bytes] = response.aiter_raw()
                await anext(chunks)

        slow = LONG | {"text": f"{LONG['text']} " + "A word and another word. " * 500}
        await asyncio.gather(
            leave_while_it_is_made("/tts", slow),
            leave_while_it_is_made("/tts", slow | {"format": "mp3", "sample_format": "pcm_s16le"}),
            leave_while_it_is_made("/tts/batch", {"requests": [slow] * 3}),
            leave_while_it_is_made("/tts/bulk", {"requests": [slow] * 3}),
            leave_while_it_is_sent("wav"),
            leave_while_it_is_sent("flac"),
        )
    await asyncio.to_thread(nothing_left, server)


@servers.in_one_process
def test_a_full_disk_is_said(log_file: Path, quick_g2p: str) -> None:
    with servers.running(servers.TINY, log_file, G2P_SERVICE_URL=quick_g2p) as server:
        limit = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (500_000, limit[1]))  # no file may be larger
        body = {"text": LONG["text"]}
        response = httpx.post(f"{server.url}/tts", json=body, timeout=PATIENCE)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "unavailable")
        assert "the disk for long clips cannot be written: File too large" in response.text
        assert int(response.headers["retry-after"]) >= 1
        nothing_left(server)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, limit)
        assert httpx.post(f"{server.url}/tts", json=body, timeout=PATIENCE).status_code == 200
