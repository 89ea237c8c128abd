"""An API worker: HTTP, text, G2P, joining and encoding. The model is in the engine process."""

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
from kokoro_server.assets.models.folder import scan
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.config.settings import Settings
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.http.acceptor import Acceptor
from kokoro_server.observability.conditions import Condition
from kokoro_server.observability.metrics import Metrics
from kokoro_server.observability.siblings import Cell
from kokoro_server.runtime.background import background
from kokoro_server.runtime.sockets import Listeners
from kokoro_server.server import serving
from kokoro_server.server.app import assembled, create_app
from kokoro_server.server.ipc.client import RemoteQueue, SharedLimits
from kokoro_server.server.ipc.model_client import RemoteModels
from kokoro_server.server.ipc.shared_state import FIRST_WORKER, SharedState
from kokoro_server.server.ipc.siblings import Publisher, SharedG2P, SharedSiblings
from kokoro_server.server.ipc.wire import MessageKind
from kokoro_server.synthesis.services import Services


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A `services.Model`, described by the engine process."""

    facts: ModelFacts
    conditions: tuple[Condition, ...]


class ApiWorker:
    """An `app.ProcessContext`. `number` counts from 0."""

    def __init__(self, settings: Settings, number: int, state: SharedState, path: Path) -> None:
        self.name = f"front-{number + 1}"  # its name in logs and in `/health`
        self.queue = RemoteQueue(path, BatchingOptions.of(settings))
        self.siblings = SharedSiblings(state, FIRST_WORKER + number, self._refresh)
        limited = bool(settings.rate_limit or settings.max_concurrent_requests)
        self.limits = SharedLimits(self.queue, limited=limited)
        self._settings = settings
        self._slot = state.slots[FIRST_WORKER + number]
        self._state = state

    @asynccontextmanager
    async def services(self, app: FastAPI, metrics: Metrics) -> AsyncIterator[Services]:
        g2p = None if self._settings.g2p_url else SharedG2P(self._state)

        def show_streams() -> dict[str, Any]:
            if g2p:
                g2p.notice_restart()
            return {"streams": vars(app.state.streams)}

        publisher = Publisher(self._slot, metrics, show_streams)
        path = self._settings.models_path
        others = RemoteModels(self.queue, scan(path)) if path else None
        try:
            await self.queue.start()
            model = RemoteModel(self.queue.greeting.model, (self.queue.condition,))
            workers = len(self._state.slots) - FIRST_WORKER
            async with assembled(
                *(self._settings, model, self.queue, g2p, metrics), processes=workers, others=others
            ) as services:
                publisher.conditions = lambda: services.conditions
                self.queue.publish = publisher.publish
                try:
                    async with background(publisher.run()):
                        yield services
                finally:
                    publisher.publish()
        finally:
            await self.queue.stop()

    def _refresh(self) -> None:
        """Let all processes publish their current numbers, this one first: they must not be lost if it is killed."""
        self.queue.publish()
        self.queue.send(MessageKind.REFRESH)


class ShownConnections(set[Any]):
    """uvicorn's connections. The other workers see at once how many there are: MAX_CONNECTIONS is for all together."""

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
    """Listens on a socket that it shares with the other workers."""

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
    settings: Settings, number: int, state: SharedState, path: Path, listeners: Listeners, on_ready: Callable[[], None]
) -> None:
    """Answer requests until a signal."""
    workers = len(state.slots) - FIRST_WORKER
    own = {
        "max_aac_encoders": share(settings.max_aac_encoders, number, workers),
        "wyoming_zeroconf": settings.wyoming_zeroconf and number == 0,  # one announces the port that all of them serve
    }
    settings = settings.model_copy(update=own)
    worker = ApiWorker(settings, number, state, path)
    app = create_app(settings, worker=worker)
    make_server = partial(ApiWorkerServer, siblings=worker.siblings, on_ready=on_ready)
    await serving.serve(app, settings, make_server, listeners, alone=False)


def share(limit: int, number: int, workers: int) -> int:
    """A worker's part of a limit for all. At least 1: what waits in one process can go on only there."""
    return max(1, (limit + workers - 1 - number) // workers)
