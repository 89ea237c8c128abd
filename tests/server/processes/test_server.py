"""A real server of several processes, with the tiny model: what users see of it, and what they do not when one dies."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import re
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from wyoming.client import AsyncClient
from wyoming.info import Describe, Info

from tests import servers
from tests.audio_files import decode
from tests.servers import REAL, TINY, Server, alive, gone_within, running, say
from tests.soak.process import processes

PATIENCE = 120.0  # seconds; a slow machine may be busy with other things
FORM = {"SERVER_PROCESSES": "2"}
OK = 'tts_requests_total{endpoint="/tts",outcome="ok"}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("fronts") / "log"
    # Requests wait for an engine process that was killed, on a busy machine for long.
    with running(TINY, log, **FORM, QUEUE_TIMEOUT="600", WYOMING_PORT=str(servers.free_port())) as server:
        yield server


def health(server: Server) -> dict[str, Any]:
    answer: dict[str, Any] = httpx.get(f"{server.url}/health", timeout=30).json()
    return answer


def pids(server: Server) -> dict[str, int]:
    return {each["name"]: each["pid"] for each in health(server)["processes"]}


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def can_bind(port: int) -> bool:
    """Whether a new server could listen there."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            listener.bind(("0.0.0.0", port))
            listener.listen()
            return True
    return False


def metric(server: Server, name: str) -> float:
    text = httpx.get(f"{server.url}/metrics", timeout=30).text
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


def front_of(response: httpx.Response, server: Server) -> str:
    """Which front has answered, by the log. Its line may come after the answer."""
    identity = response.headers["x-request-id"]
    until(lambda: re.search(rf"front-\d.*{identity}|{identity}.*front-\d", server.lines()))
    line = next(line for line in server.lines().splitlines() if identity in line)
    return re.search(r"front-\d", line)[0]  # type: ignore[index]


def test_it_speaks_as_one_process_does(server: Server, tiny_server: Server) -> None:
    every: list[dict[str, Any]] = [{"format": "pcm"}, {"format": "wav", "speed": 1.3}, {"format": "flac"}]
    for fields in every:
        for path in ("/tts", "/tts/stream"):
            body = {"text": "Hello there, [pause:0.2s] this is one text.", **fields}
            one, other = (httpx.post(each.url + path, json=body, timeout=60) for each in (server, tiny_server))
            assert (one.status_code, other.status_code) == (200, 200)
            # Pieces that share a batch, or do not, as it happens, may differ in the last bit.
            audio, expected = (decode(each.content, fields["format"]) for each in (one, other))
            assert np.allclose(audio, expected, rtol=0, atol=3 / 2**15)
            for name in ("content-type", "x-audio-duration", "x-voice-used", "x-bypass-chunks", "x-batching-enabled"):
                assert one.headers.get(name) == other.headers.get(name)


def test_all_fronts_answer_and_their_rows_share_batches(server: Server) -> None:
    with httpx.Client(timeout=60) as client, concurrent.futures.ThreadPoolExecutor(16) as pool:
        body = {"text": "One of many texts that are spoken at once."}
        answers = list(pool.map(lambda _: client.post(f"{server.url}/tts", json=body), range(48)))
    assert {answer.status_code for answer in answers} == {200}
    assert {front_of(answer, server) for answer in answers} == {"front-1", "front-2"}
    assert max(int(answer.headers["x-batch-size"]) for answer in answers) > 1


def test_one_scrape_and_one_health_for_all(server: Server) -> None:
    before = metric(server, OK)
    batches = metric(server, "tts_batches_total")
    for _ in range(6):  # on connections of their own, so that both fronts get some
        assert say(server, "Hello.").status_code == 200
    assert metric(server, OK) == before + 6
    assert metric(server, "tts_batches_total") > batches
    assert metric(server, "tts_ready") == 1
    for process in ("engine", "front-1", "front-2"):
        assert metric(server, f'tts_loop_cpu_seconds_total{{process="{process}"}}') > 0
        until(lambda: metric(server, f'tts_loop_lag_seconds_count{{process="{process}"}}') > 0)  # noqa: B023
    shown = health(server)
    assert shown["status"] == "ok"
    assert [each["name"] for each in shown["processes"]] == ["supervisor", "engine", "front-1", "front-2", "g2p"]
    assert all(alive(each["pid"]) for each in shown["processes"])
    batching = httpx.get(f"{server.url}/health/batching", timeout=30).json()
    assert batching["queue_status"]["worker_running"]
    assert batching["performance"]["total_requests"] >= 6


def test_a_client_that_leaves_takes_its_rows_along(server: Server) -> None:
    text = "This is a long text, and whoever asked for it will not wait for its end. " * 60

    async def leave() -> None:
        url, body = f"{server.url}/tts/stream", {"text": text}
        async with httpx.AsyncClient(timeout=60) as client, client.stream("POST", url, json=body) as response:
            await anext(response.aiter_bytes())

    asyncio.run(leave())
    state = lambda: httpx.get(f"{server.url}/health/batching", timeout=30).json()["queue_status"]  # noqa: E731
    until(lambda: state()["current_size"] == 0 and state()["running_rows"] == 0)
    assert say(server, "Hello.").status_code == 200


def test_a_front_that_is_killed_costs_its_own_connections_alone(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(httpx.Client(timeout=60)) for _ in range(8)]
        answers = [client.post(f"{server.url}/tts", json={"text": "Hello."}) for client in clients]
        fronts = [front_of(answer, server) for answer in answers]
        doomed = pids(server)["front-1"]
        counted = metric(server, OK)
        os.kill(doomed, signal.SIGKILL)
        for client, front in zip(clients, fronts, strict=True):
            if front != "front-1":
                assert client.post(f"{server.url}/tts", json={"text": "Hello."}).status_code == 200
    until(lambda: pids(server)["front-1"] not in (doomed, None))
    until(lambda: all(each["state"] == "running" for each in health(server)["processes"]))
    assert {say(server, "Hello again.").status_code for _ in range(6)} == {200}
    assert metric(server, OK) >= counted
    assert {each["restarts"] for each in health(server)["processes"] if each["name"] == "front-1"} == {1}


def test_wyoming_outlives_any_front(server: Server) -> None:
    async def describe() -> bool:
        async with AsyncClient.from_uri(server.wyoming, read_timeout=PATIENCE) as client:
            await client.write_event(Describe().event())
            event = await client.read_event()
            return event is not None and Info.is_type(event.type)

    for name in ("front-1", "front-2"):
        assert asyncio.run(describe())
        doomed = pids(server)[name]
        os.kill(doomed, signal.SIGKILL)
        assert gone_within(doomed, PATIENCE)
        assert asyncio.run(describe())
        until(lambda name=name, doomed=doomed: pids(server)[name] not in (doomed, None))  # type: ignore[misc]


def test_when_the_engine_is_killed_all_who_wait_get_their_speech_from_the_next(server: Server) -> None:
    text = "Everyone who waits for this hears it from the engine process that comes next. " * 5

    def stream(_number: int) -> int:
        with httpx.stream("POST", f"{server.url}/tts/stream", json={"text": text, "format": "pcm"}, timeout=300) as got:
            return sum(map(len, got.iter_bytes()))

    whole = stream(0)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(say, server, text) for _ in range(4)]
        streams = [pool.submit(stream, number) for number in range(4)]
        engine = pids(server)["engine"]
        running_rows = lambda: httpx.get(f"{server.url}/health/batching").json()["queue_status"]["running_rows"]  # noqa: E731
        until(running_rows)
        os.kill(engine, signal.SIGKILL)
        assert gone_within(engine, PATIENCE)
        assert httpx.get(f"{server.url}/health/live").status_code == 200
        late = pool.submit(say, server, "This comes while nobody speaks.")
        assert {each.result().status_code for each in (*waiting, late)} == {200}
        assert {each.result() for each in streams} == {whole}
    assert pids(server)["engine"] != engine
    until(lambda: not health(server)["degraded"])  # each front finds it again by itself
    assert "Traceback" not in server.lines()


def test_a_stream_sounds_the_same_from_the_next_engine_process_however_busy_that_began(
    tmp_path: Path, shared_g2p: str
) -> None:
    text = "Ships sailed over the sea, past the cape, and round the island; and nobody saw them, or heard of them. " * 3
    measured = tmp_path / "factor"
    measured.write_text("0.1")

    def stream(server: Server) -> bytes:
        body = {"text": text, "seed": 7, "format": "pcm"}
        return httpx.post(f"{server.url}/tts/stream", json=body, timeout=300).content

    # Rows that share a pass may differ in the last bit from those that do not, and which do hangs on the moment.
    environ = {"MAX_ROWS_PER_PASS": "1", "QUEUE_TIMEOUT": "600", "G2P_SERVICE_URL": shared_g2p, **FORM}
    environ["SLOW_FACTOR"] = str(measured)
    with running(("-m", "tests.services.slow"), tmp_path / "log", **environ) as server:
        before = stream(server)
        for factor in ("0.45", "0.01"):
            measured.write_text(factor)
            engine = pids(server)["engine"]
            os.kill(engine, signal.SIGKILL)
            assert gone_within(engine, PATIENCE)
            assert stream(server) == before


@pytest.mark.parametrize(("name", "kind"), [("engine", "engine"), ("front-1", "api")])
def test_a_spare_that_hangs_takes_nobodys_place(server: Server, name: str, kind: str) -> None:
    def spares() -> list[int]:
        return sorted(set(processes(server.process.pid)[kind]) - set(pids(server).values()))

    until(spares)
    (hung,) = spares()
    before = pids(server)[name]
    os.kill(hung, signal.SIGSTOP)
    os.kill(before, signal.SIGKILL)
    until(lambda: pids(server)[name] not in (before, hung, None) and health(server)["status"] == "ok")
    assert not alive(hung)
    assert say(server, "It speaks.").status_code == 200


def test_a_g2p_service_that_dies_costs_no_request(server: Server) -> None:
    before = pids(server)["g2p"]
    os.kill(before, signal.SIGKILL)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert {answer.status_code for answer in pool.map(lambda _: say(server, "Is it back?"), range(8))} == {200}
    until(lambda: health(server)["status"] == "ok")
    assert pids(server)["g2p"] != before


def test_a_hangup_ends_nothing(server: Server) -> None:
    processes = pids(server)
    for pid in processes.values():
        os.kill(pid, signal.SIGHUP)
    assert say(server, "Hello.").status_code == 200
    time.sleep(0.2)
    assert pids(server) == processes
    assert all(map(alive, processes.values()))


def test_a_drain_answers_what_has_begun(server: Server) -> None:
    """The last one on this server."""
    family = servers.family(server.process.pid)
    assert len(family) >= 4
    text = "What has begun is spoken to its end. " * 4

    def ask_until_refused() -> set[int]:
        statuses = set()
        with contextlib.suppress(httpx.ConnectError):  # any other error is a connection that nobody has answered
            while True:
                statuses.add(httpx.get(f"{server.url}/health/ready", timeout=30).status_code)
        return statuses

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(say, server, text) for _ in range(4)]
        until(lambda: httpx.get(f"{server.url}/health/batching").json()["queue_status"]["running_rows"])
        for pid in (server.process.pid, pids(server)["engine"]):  # a service manager may tell all at once
            os.kill(pid, signal.SIGTERM)
        asking = pool.submit(ask_until_refused)
        assert {each.result().status_code for each in waiting} == {200}
        assert asking.result() <= {200, 503}
    assert server.process.wait(PATIENCE) == 0
    assert not [pid for pid in family if alive(pid)]
    assert not re.search("Traceback", server.lines())


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """For TMPDIR: in a folder with a long name, as pytest's are, a socket would have too long a path."""
    with tempfile.TemporaryDirectory(prefix="k") as folder:
        yield Path(folder)


def test_limits_hold_over_all_fronts_and_nothing_outlives_a_killed_supervisor(
    tmp_path: Path, short_folder: Path
) -> None:
    with running(TINY, tmp_path / "log", **FORM, RATE_LIMIT="5", HOST="0.0.0.0", TMPDIR=str(short_folder)) as server:
        assert server.lines().count("API_KEYS limits it") == 1
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        answers = [say(server, "Hello.") for _ in range(9)]
        assert sorted(answer.status_code for answer in answers) == [200] * 5 + [429] * 4
        family = servers.family(server.process.pid)
        assert len(family) >= 4
        port = server.url.rpartition(":")[2]
        with httpx.stream("GET", f"{server.url}/health") as kept:  # a connection that is still open
            server.process.kill()
            server.process.wait()
            until(lambda: can_bind(int(port)))
            assert kept.status_code == 200
        assert all(gone_within(pid, PATIENCE) for pid in family)
    with running(TINY, tmp_path / "next", **FORM, PORT=port, TMPDIR=str(short_folder)) as server:
        for mine in ("kokoro-engine-*", "kokoro-g2p-*"):
            assert len(list(short_folder.glob(mine))) == 1  # of this server; those of the other one are removed
    assert not [*short_folder.glob("kokoro-engine-*"), *short_folder.glob("kokoro-g2p-*")]


@pytest.mark.slow
def test_nobody_is_let_in_when_the_fronts_have_ended(tmp_path: Path) -> None:
    """A connection that nobody would answer is refused, also while the engine process takes its time to end."""
    with running(TINY, tmp_path / "log", **FORM) as server:
        engine = pids(server)["engine"]
        os.kill(engine, signal.SIGSTOP)
        server.process.send_signal(signal.SIGTERM)

        def is_refused() -> bool:
            try:
                httpx.get(f"{server.url}/health/live", timeout=1)
            except httpx.ConnectError:
                return True
            except httpx.TransportError:
                pass
            return False

        until(is_refused)
        assert alive(engine)
        assert server.process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_a_voice_that_one_front_has_named_is_known_to_all(tmp_path: Path) -> None:
    def say(voice: str) -> httpx.Response:
        body = {"phonemes": "hˈIlO.", "voice": voice}
        return httpx.post(f"{server.url}/tts", json=body, timeout=60)  # a connection of its own: any front takes it

    folder = tmp_path / "voices"
    folder.mkdir()
    environ = {"VOICES_PATH": str(folder), "G2P_SERVICE_URL": "http://localhost:9", **FORM}
    with running(TINY, tmp_path / "log", **environ) as server:
        pairs = list[tuple[httpx.Response, httpx.Response]]()
        for number in range(20):
            name = f"narrator_{number}"
            made = httpx.post(f"{server.url}/voices", json={"name": name, "voice": "af_sky+af_bella"}, timeout=60)
            assert made.status_code == 201
            answer = say(name)
            assert (answer.status_code, answer.headers["x-voice-used"]) == (200, name)
            pairs.append((made, answer))
        until(lambda: pairs[-1][1].headers["x-request-id"] in server.lines())
        assert any(front_of(made, server) != front_of(answer, server) for made, answer in pairs)
        assert httpx.delete(f"{server.url}/voices/narrator_0", timeout=60).status_code == 204
        until(lambda: {say("narrator_0").status_code for _ in range(8)} == {400})
        (folder / "voices.json").write_text("{")
        until(lambda: [each for each in health(server)["degraded"] if each["name"] == "voices"])
        assert len([each for each in health(server)["degraded"] if each["name"] == "voices"]) == 1
        assert say("narrator_1").status_code == 200


@pytest.mark.parametrize("setting", ["LEXICON_PATH", "VOICES_PATH", "API_KEYS_FILE", "KOKORO_MODEL_PATH"])
def test_what_is_missing_is_told_in_one_line(tmp_path: Path, setting: str) -> None:
    process = servers.spawn(REAL, tmp_path / "log", **FORM, **{setting: str(tmp_path / "no such file")})
    assert process.wait(PATIENCE) == 1
    lines = (tmp_path / "log").read_text()
    assert len([line for line in lines.splitlines() if "no such file" in line]) == 1
    assert "Traceback" not in lines


@pytest.mark.slow
def test_the_engine_process_unloads_the_model_and_no_front_minds(tmp_path: Path) -> None:
    environ = FORM | {"KOKORO_IDLE_UNLOAD_S": "0.3", "KOKORO_DEVICES": "0,1"}
    with running(TINY, tmp_path / "log", **environ) as server:
        before = say(server, "Before it is unloaded.")
        until(lambda: health(server)["model"]["state"] == "unloaded")
        assert httpx.get(f"{server.url}/health/ready", timeout=30).status_code == 200
        assert metric(server, "tts_model_loaded") == 0
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda number: say(server, f"Text number {number}."), range(8)))
        assert {answer.status_code for answer in (before, *answers)} == {200}
        assert health(server)["model"]["loads"] >= 1
        assert metric(server, 'tts_model_changes_total{change="failed_load"}') == 0
        assert not [each for each in health(server)["degraded"] if each["name"] in ("engine", "model")]
        until(lambda: health(server)["model"]["state"] == "unloaded")
        assert server.stop() == 0
