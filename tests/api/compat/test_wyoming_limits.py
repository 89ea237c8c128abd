"""What Wyoming's port has in common with HTTP's: limits, keys, the end of the server. In this process."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from uvicorn.server import ServerState
from wyoming.audio import AudioChunk, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event, Eventable, async_write_event
from wyoming.info import Describe
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop

from kokoro_server.api.compat.wyoming.server import wyoming_served
from kokoro_server.cli import main as cli
from kokoro_server.config.settings import Settings
from kokoro_server.errors import ConfigError, SetupError
from kokoro_server.http.protocol import ConnectionLimits
from kokoro_server.runtime import sockets as listening
from kokoro_server.server.app import create_app
from tests import tiny
from tests.services import fake_g2p

PATIENCE = 60.0  # seconds
KEYS = {"API_KEYS": "alice=12345678"}
LONG = "One sentence after another is spoken here. " * 200


@pytest.fixture(scope="module")
def g2p() -> Iterator[str]:
    with fake_g2p.running() as url:
        yield url


@dataclass
class Port:
    app: FastAPI
    number: int
    server: ServerState

    def client(self) -> AsyncTcpClient:
        return AsyncTcpClient("127.0.0.1", self.number, read_timeout=PATIENCE)

    async def ask(self, *messages: Eventable) -> list[Event]:
        """All that is answered until the server closes the connection."""
        async with self.client() as client:
            for message in messages:
                await client.write_event(message.event())
            found = []
            while event := await client.read_event():
                found.append(event)
            return found

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@asynccontextmanager
async def port(folder: Path, g2p: str, **environ: str) -> AsyncIterator[Port]:
    settings = Settings.load({"G2P_SERVICE_URL": g2p, **environ}, dotenv=None)
    app = create_app(settings, load=lambda _settings: tiny.load(folder))
    server = ServerState()
    limits = ConnectionLimits(settings.max_connections, settings.read_timeout)
    async with app.router.lifespan_context(app):
        with listening.bind("127.0.0.1", 0) as listener:
            listening.bound_unread(listener, settings.stream_idle_timeout + 1)
            async with wyoming_served(app.state, settings, listener, server, limits):
                yield Port(app, listener.getsockname()[1], server)


def error(found: list[Event]) -> Error:
    [told] = found
    return Error.from_event(told)


async def test_streams_connections_and_requests_have_limits(tmp_path: Path, g2p: str) -> None:
    limits = {"MAX_STREAMS": "1", "MAX_CONNECTIONS": "2", "RATE_LIMIT": "3"}
    async with port(tmp_path, g2p, **limits) as served, served.client() as first:
        await first.write_event(SynthesizeStart().event())
        await served.until(lambda: served.app.state.places.taken == 1)
        async with served.client() as second:
            for code in ("too_busy", "too_busy", "rate_limited"):
                await second.write_event(Synthesize(text="Hello.").event())
                told = await second.read_event()
                assert told
                assert Error.from_event(told).code == code
            await second.write_event(Describe().event())  # which is no work
            assert await second.read_event()
            assert error(await served.ask()).text.startswith("more than 2 connections are open")
        await first.disconnect()
        await served.until(lambda: served.app.state.places.taken == 0 and not served.server.connections)


async def test_a_client_that_says_nothing_or_half_a_word_is_let_go(tmp_path: Path, g2p: str) -> None:
    async with port(tmp_path, g2p, READ_TIMEOUT="0.5", STREAM_IDLE_TIMEOUT="1") as served:
        assert await served.ask() == []
        assert await served.ask(SynthesizeStart()) == []
        reader, writer = await asyncio.open_connection("127.0.0.1", served.number)
        writer.write(b'{"type": "pi')
        assert b"READ_TIMEOUT" in await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()


async def test_a_client_that_takes_nothing_holds_up_nobody_and_is_let_go(tmp_path: Path, g2p: str) -> None:
    async with port(tmp_path, g2p, STREAM_IDLE_TIMEOUT="1", MAX_TEXT_LENGTH="1000000") as served:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", served.number))
        _, writer = await asyncio.open_connection(sock=sock, limit=1024)
        for _ in range(20):
            await async_write_event(Synthesize(text=LONG).event(), writer)
        async with served.client() as other:
            await other.write_event(Synthesize(text="Hello.").event())
            while (event := await other.read_event()) and not AudioStop.is_type(event.type):
                assert not Error.is_type(event.type)
        assert event
        await served.until(lambda: served.app.state.streams.stalled == 1)
        await served.until(lambda: not served.server.connections and not served.app.state.places.taken)
        writer.close()


async def test_what_was_asked_for_is_finished_when_the_server_stops(tmp_path: Path, g2p: str) -> None:
    async with port(tmp_path, g2p) as served:
        served.app.state.services.queue.hold()
        asked = asyncio.create_task(served.ask(Synthesize(text="Hello there.")))
        writing = asyncio.create_task(served.ask(SynthesizeStart(), SynthesizeChunk(text="Hello ")))
        idle = asyncio.create_task(served.ask())
        await served.until(lambda: len(served.app.state.running.sessions) == 2 and served.app.state.running.busy)
        await served.until(lambda: len(served.server.connections) == 3)
        # As `serving.Server` and uvicorn do it.
        served.app.state.running.stopping = True
        assert error(await served.ask(Synthesize(text="Too late."))).code == "engine_unavailable"
        for connection in list(served.server.connections):
            connection.shutdown()
        assert error(await writing).code == "engine_unavailable"
        assert await idle == []
        served.app.state.services.queue.release()
        kinds = [event.type for event in await asked]
        assert (kinds[0], kinds[-1], set(kinds[1:-1])) == ("audio-start", "audio-stop", {"audio-chunk"})
        await served.until(lambda: not served.server.connections)


async def test_a_sentence_that_fails_ends_its_stream_and_leaves_the_queue(tmp_path: Path, g2p: str) -> None:
    async with port(tmp_path, g2p) as served:
        text = f"Hello. {fake_g2p.GARBAGE}. {LONG}"
        found = await served.ask(SynthesizeStart(), SynthesizeChunk(text=text), SynthesizeStop())
        kinds = [event.type for event in found]
        assert kinds[-1] == "error"
        assert "audio-stop" not in kinds
        assert Error.from_event(found[-1]).code == "g2p_failed"
        assert served.app.state.services.queue.snapshot()["queue_status"]["current_size"] == 0
        assert sum(len(event.payload or b"") for event in found if AudioChunk.is_type(event.type)) < 24_000 * 2 * 60


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"HOST": "0.0.0.0", **KEYS}, "Wyoming has no API keys"),
        ({"HOST": "0.0.0.0", "API_KEYS_FILE": "/keys"}, "Wyoming has no API keys"),
        ({"WYOMING_ZEROCONF": "true"}, "no other machine can reach 127.0.0.1"),
    ],
)
def test_a_port_that_would_not_do_is_refused(environ: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        listening.listen(Settings.load({"PORT": "0", "WYOMING_PORT": "10200", **environ}, dotenv=None))


@pytest.mark.parametrize("environ", [{}, {"WYOMING_ZEROCONF": "true", "WYOMING_HOST": "0.0.0.0"}])
def test_a_package_that_is_missing_is_named(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "zeroconf" if environ else "wyoming"
    monkeypatch.setattr(listening, "find_spec", lambda name: None if name == missing else name)
    with pytest.raises(SetupError, match=f"needs the package {missing}"):
        listening.listen(Settings.load({"PORT": "0", "WYOMING_PORT": "10200", **environ}, dotenv=None))


@pytest.mark.parametrize("environ", [{"WYOMING_HOST": "127.0.0.1", "HOST": "0.0.0.0", **KEYS}, KEYS])
def test_a_port_in_use_is_told_and_leaves_no_other_open(environ: dict[str, str]) -> None:
    with listening.bind("127.0.0.1", 0) as taken:
        taken.listen()
        number = str(taken.getsockname()[1])
        with pytest.raises(SetupError, match=f"127.0.0.1:{number}.*WYOMING_PORT"):
            listening.listen(Settings.load({"PORT": "0", "WYOMING_PORT": number, **environ}, dotenv=None))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ("127.0.0.1", 10200, False)),
        (("--uri", "tcp://0.0.0.0:10300", "--zeroconf"), ("0.0.0.0", 10300, True)),
        (("--uri", "tcp://[::1]:10300"), ("::1", 10300, False)),
    ],
)
def test_the_command_serves_wyoming(
    arguments: tuple[str, ...], expected: tuple[str, int, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Settings] = []
    monkeypatch.setattr("kokoro_server.server.processes.run.run", given.append)
    monkeypatch.setenv("WYOMING_HOST", "127.0.0.1")
    assert cli.main(["wyoming", *arguments]) == 0
    [settings] = given
    assert (settings.wyoming_host, settings.wyoming_port, settings.wyoming_zeroconf) == expected


@pytest.mark.parametrize("uri", ["0.0.0.0:10200", "tcp://0.0.0.0", "http://0.0.0.0:1", "tcp://x:99999", "tcp://x:0"])
def test_the_command_refuses_another_address(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["wyoming", "--uri", uri])
    assert "is not like tcp://0.0.0.0:10200" in capsys.readouterr().err


def test_a_server_without_the_port_does_not_need_the_package() -> None:
    imports = "kokoro_server.cli.main, kokoro_server.server.processes.api_worker"
    code = f"import sys, {imports}; assert 'wyoming' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


async def test_events_that_wait_their_turn_hold_little(tmp_path: Path, g2p: str) -> None:
    many = {"a": [[]] * 100_000}
    async with port(tmp_path, g2p) as served, served.client() as client:
        await client.write_event(Synthesize(text=LONG).event())
        await served.until(lambda: served.app.state.places.taken == 1)
        for _ in range(20):
            await client.write_event(Event("transcript", many))
        await client.write_event(Event("ping"))
        while (event := await client.read_event()) and event.type != "pong":
            pass
        assert event
        [connection] = served.server.connections
        assert connection._events.empty()
        await client.write_event(Event("synthesize", {"text": "Hi.", "context": many}))
        while event and event.type != "error":
            event = await client.read_event()
        assert event
        assert "more than the 100 values allowed" in Error.from_event(event).text
