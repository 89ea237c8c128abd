"""A front: HTTP, text, G2P, joining and encoding. The model is in the engine process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from kokoro_server.api.middleware.shutdown import RunningRequests
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.config.settings import Settings
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.http.acceptor import Acceptor
from kokoro_server.observability.conditions import Condition
from kokoro_server.observability.metrics import Metrics
from kokoro_server.observability.siblings import Cell
from kokoro_server.runtime.sockets import Listeners
from kokoro_server.server import serving
from kokoro_server.server.app import assembled, create_app
from kokoro_server.server.ipc.client import RemoteQueue, SharedLimits
from kokoro_server.server.ipc.shared_state import FIRST_FRONT, SharedState
from kokoro_server.server.ipc.siblings import Publisher, SharedG2P, SharedSiblings
from kokoro_server.server.ipc.wire import MessageKind
from kokoro_server.synthesis.services import Services


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """`services.Model`, as the engine process tells of it."""

    facts: ModelFacts
    conditions: tuple[Condition, ...]


class ApiWorker:
    """`app.FrontEnd`. `number` counts from 0."""

    def __init__(self, settings: Settings, number: int, board: SharedState, path: Path) -> None:
        self.name = f"front-{number + 1}"  # as the supervisor and the log call it
        self.queue = RemoteQueue(path, BatchingOptions.of(settings))
        self.siblings = SharedSiblings(board, FIRST_FRONT + number, self._refresh)
        limited = bool(settings.rate_limit or settings.max_concurrent_requests)
        self.limits = SharedLimits(self.queue, limited=limited)
        self._settings = settings
        self._slot = board.slots[FIRST_FRONT + number]
        self._board = board

    @asynccontextmanager
    async def services(self, app: FastAPI, metrics: Metrics) -> AsyncIterator[Services]:
        g2p = None if self._settings.g2p_url else SharedG2P(self._board)

        def show_streams() -> dict[str, Any]:
            if g2p:
                g2p.notice_restart()
            return {"streams": vars(app.state.streams)}

        publisher = Publisher(self._slot, metrics, show_streams)
        try:
            await self.queue.start()
            model = RemoteModel(self.queue.greeting.model, (self.queue.condition,))
            async with assembled(self._settings, model, self.queue, g2p, metrics) as services:
                publisher.conditions = lambda: services.conditions
                self.queue.publish = publisher.publish
                publishing = asyncio.create_task(publisher.run())
                try:
                    yield services
                finally:
                    publishing.cancel()
                    publisher.publish()
        finally:
            await self.queue.stop()

    def _refresh(self) -> None:
        """Let everyone show what is true now, this process too: what it tells must not be lost if it is killed."""
        self.queue.publish()
        self.queue.tell(MessageKind.REFRESH)


class ShownConnections(set[Any]):
    """uvicorn's connections. The other fronts see at once how many there are: MAX_CONNECTIONS is for all together."""

    def __init__(self, siblings: SharedSiblings) -> None:
        super().__init__()
        self._siblings = siblings

    def add(self, connection: Any) -> None:
        super().add(connection)
        self._show()

    def discard(self, connection: Any) -> None:
        super().discard(connection)
        self._show()

    def remove(self, connection: Any) -> None:
        super().remove(connection)
        self._show()

    def _show(self) -> None:
        self._siblings.show(Cell.CONNECTIONS, len(self))


class ApiWorkerServer(serving.Server):
    """Listens on a socket that it shares with the other fronts."""

    def __init__(
        self, config: uvicorn.Config, running: RunningRequests, siblings: SharedSiblings, on_ready: Callable[[], None]
    ) -> None:
        super().__init__(config, running)
        self._siblings = siblings
        self._on_ready = on_ready
        self.server_state.connections = ShownConnections(siblings)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets
        await self.lifespan.startup()
        self.servers = [cast(asyncio.Server, Acceptor(sock, self._make_protocol, self._siblings)) for sock in sockets]
        self.started = True
        self._on_ready()

    def _make_protocol(self) -> asyncio.Protocol:
        config: Any = self.config
        protocol: asyncio.Protocol = config.http_protocol_class(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


async def serve(
    settings: Settings, number: int, board: SharedState, path: Path, listeners: Listeners, on_ready: Callable[[], None]
) -> None:
    """Answer requests until a signal."""
    fronts = len(board.slots) - FIRST_FRONT
    own = {
        "max_aac_encoders": share(settings.max_aac_encoders, number, fronts),
        "wyoming_zeroconf": settings.wyoming_zeroconf and number == 0,  # one announces what all of them serve
    }
    settings = settings.model_copy(update=own)
    front = ApiWorker(settings, number, board, path)
    app = create_app(settings, front=front)
    await serving.serve(app, settings, partial(ApiWorkerServer, siblings=front.siblings, on_ready=on_ready), listeners)


def share(limit: int, number: int, fronts: int) -> int:
    """A front's part of what all of them may have. Who waits in line does so in one process, so each has some."""
    return max(1, (limit + fronts - 1 - number) // fronts)
