"""`kokoro-server mcp`: the tools over standard input and output, for a program on the same machine."""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

from kokoro_server.api.mcp.endpoint import imported_sdk
from kokoro_server.cli.mcp_tools import LocalTools
from kokoro_server.config.settings import Settings
from kokoro_server.engine import loader
from kokoro_server.engine.loader import LoadModel
from kokoro_server.longform.jobs.default_folder import with_default_folder
from kokoro_server.server.app import create_app

log = logging.getLogger(__name__)


def run(settings: Settings, options: argparse.Namespace, load: LoadModel = loader.load) -> int:
    """Speaks through the server at `url`; without it the model is loaded into this process."""
    sdk = imported_sdk()
    asyncio.run(_serve(settings, options, load, sdk.stdio))
    return 0


async def _serve(
    settings: Settings, options: argparse.Namespace, load: LoadModel, serve: Callable[..., object]
) -> None:
    opened = _remote(settings, options.url) if options.url else _own(settings, load)
    async with opened as client:
        await serve(LocalTools(client, options.folder.expanduser()).tools())  # type: ignore[misc]


@asynccontextmanager
async def _remote(settings: Settings, url: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {settings.key_to_send}"} if settings.key_to_send else {}
    async with httpx.AsyncClient(base_url=url.rstrip("/"), headers=headers) as client:
        yield client


@asynccontextmanager
async def _own(settings: Settings, load: LoadModel) -> AsyncIterator[httpx.AsyncClient]:
    """A server in this process, without a port."""
    alone = settings.model_copy(update={"api_keys": (), "api_keys_file": None, "wyoming_port": None})
    app = create_app(with_default_folder(alone), load=load)
    async with app.router.lifespan_context(app):
        log.info("ready")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            yield client
