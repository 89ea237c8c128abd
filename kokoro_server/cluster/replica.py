"""One device's whole server as a replica of Ray Serve: an engine process, API workers, and one more in Ray's process.

The API worker in Ray's process answers Ray's requests and reaches the engine as all workers do: a request makes one
hop, a row none. The other workers listen on a port of the replica, for a load balancer that knows it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve.handle import DeploymentHandle

from kokoro_server.cluster.g2p import G2PElsewhere
from kokoro_server.cluster.options import ClusterOptions
from kokoro_server.config.settings import Settings
from kokoro_server.errors import ConfigError, EngineUnavailable, SetupError
from kokoro_server.observability import logs
from kokoro_server.observability.metrics import Metrics
from kokoro_server.runtime.sockets import Listeners, listen
from kokoro_server.server.app import create_app
from kokoro_server.server.ipc.shared_state import FIRST_WORKER, SharedState
from kokoro_server.server.processes.api_worker import ApiWorker
from kokoro_server.server.processes.child import LOADER
from kokoro_server.server.processes.supervisor import Supervisor, socket_folder
from kokoro_server.synthesis.services import Services

log = logging.getLogger(__name__)

PORTS_TRIED = 100  # replicas on one node have ports in a row


class ReplicaApiWorker(ApiWorker):
    """The API worker in Ray's process. The rest of the server starts before it and ends after it."""

    def __init__(self, settings: Settings, options: ClusterOptions, g2p: G2PElsewhere | None) -> None:
        workers = options.worker_count
        self._resources = ExitStack()
        folder = Path(self._resources.enter_context(socket_folder()))
        state = self._resources.enter_context(closing(SharedState.create(FIRST_WORKER + workers + 1)))
        super().__init__(settings, workers, state, folder / "engine")
        self._supervisor = Supervisor(settings, workers, LOADER, state, folder / "engine")
        self._listeners = self._resources.enter_context(closing(listen_on_next_free(settings)))
        self._g2p = g2p

    @property
    def port(self) -> int:
        return int(self._listeners.http.getsockname()[1])

    @property
    def failure(self) -> str | None:
        """Why this replica cannot recover by itself."""
        return self._supervisor.failure.message if self._supervisor.failure else None

    @asynccontextmanager
    async def services(self, app: FastAPI, metrics: Metrics) -> AsyncIterator[Services]:
        with self._resources:
            async with self._supervisor.running(self._listeners, self._g2p), super().services(app, metrics) as services:
                yield services


def listen_on_next_free(settings: Settings) -> Listeners:
    """The port of the settings or, if another replica on this node has it, one of the next."""
    for port in range(settings.port, settings.port + PORTS_TRIED):
        try:
            return listen(settings.model_copy(update={"port": port}))
        except SetupError as error:
            refused = error
    raise refused


@serve.ingress()
class SpeechReplica:
    """Ray Serve's side of a replica. Ray creates it, checks its health, and ends it when its requests are answered."""

    def __init__(self, arguments: dict[str, Any], g2p: DeploymentHandle | None = None) -> None:
        options = ClusterOptions.model_validate(arguments)
        settings = settings_of(options)
        logs.configure(settings.log_level, "replica")
        self._worker = ReplicaApiWorker(settings, options, G2PElsewhere(g2p) if g2p else None)
        self._app = create_app(settings, worker=self._worker)
        self._looks = 0
        log.info("replica's own port: %d", self._worker.port)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return self._app

    def check_health(self) -> None:
        """Ray replaces a replica that raises. An engine process that ended is restarted within the replica."""
        if self._worker.failure:
            raise EngineUnavailable(self._worker.failure)

    async def record_routing_stats(self) -> dict[str, Any]:
        """For `QueuedAudioRouter`."""
        self._looks += 1
        return {
            "look": self._looks,
            "ready": self._worker.queue.ready,
            "queued_s": await self._queued_seconds(),
        }

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """For `ScaleByQueuedAudio`."""
        return {"queued_s": await self._queued_seconds()}

    async def _queued_seconds(self) -> float:
        state = await self._worker.queue.state()
        return float(state["queue_status"].get("queued_audio_s", 0.0))


def settings_of(options: ClusterOptions) -> Settings:
    """The settings of the node's environment, overridden by those of the cluster."""
    settings = Settings.load(os.environ | options.environ(), dotenv=None)
    if settings.wyoming_port:
        raise ConfigError("WYOMING_PORT: not in a cluster, whose requests come over HTTP; use kokoro-server wyoming")
    return settings.model_copy(update={"port": options.port})
