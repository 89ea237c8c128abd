"""Serves Wyoming on its own socket, with the services of the HTTP server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

from starlette.datastructures import State
from uvicorn.server import ServerState

from kokoro_server.api.compat.wyoming.connection import WyomingConnection
from kokoro_server.api.middleware.shutdown import RunningRequests, shutting_down
from kokoro_server.api.state import AppState
from kokoro_server.config.settings import Settings
from kokoro_server.errors import KokoroError, TooBusy
from kokoro_server.http.protocol import ConnectionLimits, too_many_connections


@asynccontextmanager
async def wyoming_served(
    state: State, settings: Settings, listener: socket.socket, server: ServerState, limits: ConnectionLimits
) -> AsyncIterator[None]:
    """Accepts connections until the end of the block. `state` is the application's.

    The connections count as those of `server`, which is uvicorn's, and share its `limits`.
    """
    connections: set[Any] = server.connections
    tasks: set[asyncio.Task[None]] = set()

    def on_connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = WyomingConnection(reader, writer, cast(AppState, state))
        connections.add(connection)
        refusal = _refusal(state.running, len(connections) + limits.elsewhere(), limits.connections)
        task = asyncio.create_task(connection.refuse(refusal) if refusal else connection.run())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _: connections.discard(connection))

    async with AsyncExitStack() as stack:
        listening = await asyncio.start_server(on_connected, sock=listener)
        stack.push_async_callback(_end, tasks)
        stack.callback(listening.close)
        if settings.wyoming_zeroconf:
            from kokoro_server.api.compat.wyoming.discovery import announced  # its package is optional

            await stack.enter_async_context(announced(listener))
        yield


def _refusal(running: RunningRequests, connections: int, limit: int) -> KokoroError | None:
    if running.stopping:
        return shutting_down()
    return TooBusy(too_many_connections(limit)) if connections > limit else None


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
