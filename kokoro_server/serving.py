"""Runs the TTS application under uvicorn, from binding the port to the last log line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import uvicorn
from fastapi import FastAPI

from kokoro_server.api.connections.websocket_protocol import WebSocketProtocol
from kokoro_server.api.shutdown import RunningRequests
from kokoro_server.api.websocket import MAX_MESSAGE
from kokoro_server.config import Settings
from kokoro_server.errors import EngineUnavailable, SetupError
from kokoro_server.event_loop import freeze_heap, run_on_loop, trim_when_quiet
from kokoro_server.http_limits.protocol import ConnectionLimits, LimitedServer, limited
from kokoro_server.machine import thread_count
from kokoro_server.siblings import Cell, Siblings

log = logging.getLogger(__name__)

MakeServer = Callable[[uvicorn.Config, RunningRequests], "Server"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PING_INTERVAL = 20.0  # seconds, from an answered ping of an open WebSocket to the next
MAX_UNSENT = 128 * 1024  # bytes that the kernel takes of a connection beyond what it may send: it would take megabytes
UNREAD_GRACE = 30.0  # seconds after STREAM_IDLE_TIMEOUT in which what is unread may still be taken
MAX_MESSAGE_BYTES = 4 * MAX_MESSAGE  # of a WebSocket message: no character has more in UTF-8
SHUTDOWN_GRACE = 10  # seconds that running requests get when the server is asked to stop
MAX_THREADS = 32  # for encoders and for what reads files or long texts


class Server(LimitedServer):
    """Logs when it is ready. Signals are for `serve`: they may come before the server runs.

    When it is asked to stop, it listens on and refuses new requests until `running` are answered: a client is told that
    the server stops, rather than that nobody is there.
    """

    def __init__(self, config: uvicorn.Config, running: RunningRequests) -> None:
        super().__init__(config)
        self._running = running

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            log_ready(sockets[0])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._running.stopping = True
        started = time.monotonic()
        # `force_exit`, set by a second Ctrl+C, cannot be awaited.
        while self._running.busy and not self.force_exit and time.monotonic() < started + SHUTDOWN_GRACE:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        # What is left of the grace is for responses whose last bytes are being sent.
        spent = math.ceil(time.monotonic() - started)
        self.config.timeout_graceful_shutdown = max(1, SHUTDOWN_GRACE - spent)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def log_ready(listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    log.info("Kokoro Server is ready at %s (a page to try it; the API is at %s/docs)", url, url)


def bind(host: str, port: int) -> socket.socket:
    """Bind the port before anything slow happens, so that a second server fails at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise SetupError(f"cannot listen on {host}:{port}: {error.strerror or error} (HOST, PORT)") from error
    return sock


def bound_unread(sock: socket.socket, seconds: float) -> None:
    """Bound what the kernel keeps for clients of `sock` that do not read. Connections inherit it, where there is it.

    It holds few bytes back, so that the server learns at once that a client has stopped. And it drops a connection
    that has had unread bytes for `seconds`: its peer has vanished, or the server has closed it, which takes effect only
    when all is read.
    """
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))


def run(app: FastAPI, settings: Settings) -> None:
    """Run `serve` on a new event loop."""
    run_on_loop(serve(app, settings))


def listen_socket(settings: Settings) -> socket.socket:
    sock = bind(settings.host, settings.port)
    bound_unread(sock, settings.stream_idle_timeout + UNREAD_GRACE)
    return sock


async def serve(
    app: FastAPI, settings: Settings, make_server: MakeServer = Server, listener: socket.socket | None = None
) -> None:
    """Serve until a signal. Raises SetupError when something is missing, EngineUnavailable when the device is lost."""
    # As many as asyncio would start by itself if it knew of a container's quota.
    threads = min(MAX_THREADS, thread_count() + 4)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(threads, "server"))
    siblings: Siblings = app.state.siblings
    with listener or listen_socket(settings) as sock:
        elsewhere = partial(siblings.total, Cell.CONNECTIONS)
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=SHUTDOWN_GRACE,
            http=limited(ConnectionLimits(settings.max_connections, settings.read_timeout, elsewhere)),
            ws=WebSocketProtocol,
            ws_ping_interval=PING_INTERVAL,
            ws_ping_timeout=settings.stream_idle_timeout,
            ws_max_size=MAX_MESSAGE_BYTES,
            ws_per_message_deflate=False,  # speech hardly shrinks, and the event loop would pay for trying
        )
        server = make_server(config, app.state.running)
        app.state.on_device_lost = _stop_on_signals(server)
        with contextlib.suppress(asyncio.CancelledError):
            # We enter the lifespan, not uvicorn, so that a failure can be reported in one line.
            async with app.router.lifespan_context(app):
                freeze_heap()
                trimming = asyncio.create_task(trim_when_quiet(lambda: app.state.running.busy))
                await server.serve(sockets=[sock])
                trimming.cancel()
                log.info("stopping")
    if app.state.device_lost:
        raise EngineUnavailable(f"ended because the device is lost: {app.state.device_lost}")


def _stop_on_signals(server: Server) -> Callable[[], None]:
    """Returns what stops the server as a signal does."""
    loop = asyncio.get_running_loop()
    starting = asyncio.current_task()
    assert starting is not None

    def stop(number: int) -> None:
        if server.started:
            server.handle_exit(number, None)
        else:
            starting.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    return lambda: stop(signal.SIGTERM)
