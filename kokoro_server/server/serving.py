"""Runs the TTS application under uvicorn, from binding the port to the last log line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import uvicorn
from fastapi import FastAPI

from kokoro_server.api.agents.sockets import MAX_MESSAGE
from kokoro_server.api.middleware.shutdown import RunningRequests
from kokoro_server.config.settings import Settings
from kokoro_server.errors import EngineUnavailable
from kokoro_server.http.protocol import KEEP_ALIVE, ConnectionLimits, LimitedServer, limited
from kokoro_server.http.websocket_protocol import WebSocketProtocol
from kokoro_server.observability.siblings import Cell, Siblings
from kokoro_server.runtime.background import background
from kokoro_server.runtime.event_loop import freeze_heap, trim_now_and_then
from kokoro_server.runtime.machine import thread_count
from kokoro_server.runtime.sockets import (
    SHUTDOWN_GRACE,
    Listeners,
    ignore_hangup,
    listen,
    log_ready,
    log_wyoming,
    on_signals,
)

log = logging.getLogger(__name__)

MakeServer = Callable[[uvicorn.Config, RunningRequests], "Server"]

PING_INTERVAL = 20.0  # seconds, from an answered ping of an open WebSocket to the next
MAX_MESSAGE_BYTES = 4 * MAX_MESSAGE  # of a WebSocket message: no character has more in UTF-8
MAX_THREADS = 32  # for encoders, files and long texts


class Server(LimitedServer):
    """Logs when it is ready. Signals are for `serve`: they may come before the server runs.

    When it is asked to stop, it goes on listening and refuses new requests until the `running` ones are answered, so
    that a client learns that the server stops and gets no refused connection.
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
        # The rest of the grace is for responses whose last bytes are being sent.
        spent = math.ceil(time.monotonic() - started)
        self.config.timeout_graceful_shutdown = max(1, SHUTDOWN_GRACE - spent)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    app: FastAPI,
    settings: Settings,
    make_server: MakeServer = Server,
    listeners: Listeners | None = None,
    *,
    alone: bool = True,
) -> None:
    """Serve until a signal. The ports are bound here unless `listeners` has them. Not `alone`: other processes listen
    on them, too.

    Raises SetupError when something is missing, EngineUnavailable when the device is lost.
    """
    # As many as asyncio would start by itself if it knew of a container's quota.
    threads = min(MAX_THREADS, thread_count() + 4)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(threads, "server"))
    siblings: Siblings = app.state.siblings
    with contextlib.closing(listeners or listen(settings)) as listeners:
        limits = ConnectionLimits(
            settings.max_connections, settings.read_timeout, partial(siblings.total, Cell.CONNECTIONS)
        )
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            forwarded_allow_ips=list(settings.forwarded_allow_ips),
            timeout_graceful_shutdown=SHUTDOWN_GRACE,
            timeout_keep_alive=KEEP_ALIVE,
            http=limited(limits),
            ws=WebSocketProtocol,
            ws_ping_interval=PING_INTERVAL,
            ws_ping_timeout=settings.stream_idle_timeout,
            ws_max_size=MAX_MESSAGE_BYTES,
            ws_per_message_deflate=False,  # speech hardly shrinks, and trying would keep the event loop busy
        )
        server = make_server(config, app.state.running)
        app.state.on_device_lost = _stop_on_signals(server)
        with contextlib.suppress(asyncio.CancelledError):
            # We enter the lifespan, not uvicorn, so that a failure can be reported in one line.
            async with app.router.lifespan_context(app):
                freeze_heap()
                if listeners.wyoming and alone:
                    log_wyoming(listeners.wyoming)
                wyoming = _wyoming(app, settings, listeners.wyoming, server, limits)
                async with background(trim_now_and_then(lambda: app.state.running.busy)), wyoming:
                    await server.serve(sockets=[listeners.http])
                log.info("stopping")
    if app.state.device_lost:
        raise EngineUnavailable(f"ended because the device is lost: {app.state.device_lost}")


@contextlib.asynccontextmanager
async def _wyoming(
    app: FastAPI, settings: Settings, listener: socket.socket | None, server: Server, limits: ConnectionLimits
) -> AsyncIterator[None]:
    """Serve Wyoming within the block if it has a socket. Only then its package is imported."""
    if listener is None:
        yield
        return
    from kokoro_server.api.compat.wyoming.server import wyoming_served

    async with wyoming_served(app.state, settings, listener, server.server_state, limits):
        yield


def _stop_on_signals(server: Server) -> Callable[[], None]:
    """Returns a function that stops the server as a signal does."""
    ignore_hangup()
    starting = asyncio.current_task()
    assert starting is not None

    def stop(number: int) -> None:
        if server.started:
            server.handle_exit(number, None)
        else:
            starting.cancel()

    on_signals(stop)
    return lambda: stop(signal.SIGTERM)
