"""The G2P service as a separate deployment, and how a replica finds it.

Texts go to it over HTTP, as everywhere: through Ray the transport would take longer than the phonemes. Ray only gives
the address.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import Any

import ray
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from kokoro_server.cluster.options import ClusterOptions
from kokoro_server.config.settings import Settings
from kokoro_server.errors import G2PUnavailable, SetupError
from kokoro_server.g2p.child import G2PChild, is_healthy
from kokoro_server.g2p.client import RETRY_AFTER, G2PClient
from kokoro_server.observability import logs
from kokoro_server.runtime.background import cancel

log = logging.getLogger(__name__)

ASK_INTERVAL = 2.0  # seconds, within which a replica learns that its G2P service has moved
ASK_TIMEOUT = 5.0
START_TIMEOUT = 300.0  # seconds for the first G2P service of a cluster to be up


class G2PReplica:
    """Ray Serve's side of a G2P service."""

    async def __init__(self, arguments: dict[str, Any], workers: int) -> None:  # type: ignore[misc]
        options = ClusterOptions.model_validate(arguments)
        settings = Settings.load(os.environ | options.environ(), dotenv=None)
        logs.configure(settings.log_level, "g2p")
        self._child = G2PChild(
            log_level=settings.log_level,
            workers=workers,
            host=ray.util.get_node_ip_address(),
            tracing=settings.tracing,
        )
        await self._child.start()

    async def url(self) -> str:
        return self._child.url

    async def __del__(self) -> None:
        await self._child.stop()


class G2PElsewhere:
    """A `processes.supervisor.G2PService`: the replica that Ray has named, until it is gone."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self.state = "starting"
        self.restarts = 0  # changes of its address
        self.pid = None
        self._handle = handle
        self._url = ""
        self._asking: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        if self.state != "running":
            raise G2PUnavailable(f"the G2P service is {self.state}", retry_after=RETRY_AFTER)
        return self._url

    async def start(self) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT):
                while not await self._ask():  # noqa: ASYNC110
                    await asyncio.sleep(ASK_INTERVAL)
        except TimeoutError:
            raise SetupError(f"no G2P service of the cluster was up after {START_TIMEOUT:.0f} s") from None
        self._asking = asyncio.create_task(self._keep_asking())

    async def stop(self) -> None:
        self.state = "stopped"
        await cancel(self._asking)

    async def _keep_asking(self) -> None:
        """Keep the address while the service there answers: with several replicas, Ray names any of them."""
        async with contextlib.aclosing(G2PClient(lambda: self._url, ASK_TIMEOUT)) as client:
            while True:
                await asyncio.sleep(ASK_INTERVAL)
                if self.state != "running" or not await is_healthy(client):
                    await self._ask()

    async def _ask(self) -> bool:
        """Whether Ray can name a G2P service."""
        try:
            async with asyncio.timeout(ASK_TIMEOUT):
                url: str = await self._handle.url.remote()
        except (TimeoutError, RayError, RayServeException) as error:
            if self.state == "running":
                log.error("no G2P service can be found error=%s", error)
                self.state = "restarting"
            return False
        if url != self._url:
            self.restarts += bool(self._url)
            self._url = url
            log.info("g2p service url=%s", url)
        self.state = "running"
        return True
