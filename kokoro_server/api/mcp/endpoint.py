"""`/mcp`: the tools over streamable HTTP."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING

import httpx
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kokoro_server.api import errors
from kokoro_server.api.disconnect import cancel_on_disconnect
from kokoro_server.api.mcp.tools import SpeechTools
from kokoro_server.errors import McpNotInstalled

if TYPE_CHECKING:
    from types import ModuleType

PATHS = ("/mcp", "/mcp/")
MODULE = "kokoro_server.api.mcp.sdk"
INSTALL = "pip install 'kokoro-server[mcp]'"


class McpEndpoint:
    """ASGI middleware, inside all that checks, counts and logs requests. A tool's own requests go on from here, so that
    they count as part of the one that called it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._sdk: ModuleType | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in PATHS:
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        answered = False

        async def note_end(message: Message) -> None:
            nonlocal answered
            await send(message)
            answered = message["type"] == "http.response.body" and not message.get("more_body")

        try:
            await self._answer(request, scope, receive, note_end)
        except ClientDisconnect:
            scope["client_disconnected"] = not answered  # for the access log; after the answer anybody may leave
        except Exception as error:
            response = await errors.response_for(request, error)
            await response(scope, receive, send)

    async def _answer(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":  # there are no sessions that could be listened to or ended
            raise HTTPException(405, "POST alone is allowed here", {"Allow": "POST"})
        body = await request.body()
        if self._sdk is None:
            self._sdk = await asyncio.to_thread(imported_sdk)
        transport = httpx.ASGITransport(self._inner(scope), client=tuple(scope.get("client") or ("-", 0))[:2])
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            tools = self._sdk.server(SpeechTools(client).tools())
            answering = self._sdk.answer(tools, {**scope, "path": PATHS[0]}, _replay(body), send)
            # In a task of its own: the SDK's cancel scopes count cancellations of the task that they are in.
            await cancel_on_disconnect(receive, asyncio.create_task(answering))

    def _inner(self, outer: Scope) -> ASGIApp:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            scope.update(app=outer["app"], state=outer.get("state", {}))
            async with AsyncExitStack() as scope["on_end"]:
                await self.app(scope, receive, send)

        return app


def imported_sdk() -> ModuleType:
    """Takes seconds, the first time. Raises McpNotInstalled."""
    try:
        return import_module(MODULE)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise McpNotInstalled(
            f"the Model Context Protocol needs the package mcp, which is not installed: {INSTALL}"
        ) from error


def _replay(body: bytes) -> Receive:
    """A `receive` that gives the body, and then waits for ever: `cancel_on_disconnect` watches the connection."""
    unread = [body]

    async def replayed() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    return replayed
