"""The tools as a server of the official SDK. Imported only where the protocol is spoken: it takes seconds."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Awaitable, Sequence
from typing import TypeVar

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    AudioContent,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ListedTool
from starlette.types import Receive, Scope, Send

from kokoro_server import __version__
from kokoro_server.api.mcp.tools import Tool, ToolAnswer, ToolFailed
from kokoro_server.errors import KokoroError
from kokoro_server.runtime.background import cancel

log = logging.getLogger(__name__)
logging.getLogger("mcp").setLevel(logging.WARNING)  # it logs each request, which the access log does

INSTRUCTIONS = "Speech on the user's own machine. Use `speak` for a sentence or a page, make_audiobook for more."

T = TypeVar("T")
ToolServer = Server[dict[str, object]]


def server(tools: Sequence[Tool]) -> ToolServer:
    by_name = {tool.name: tool for tool in tools}

    async def list_tools(
        _: ServerRequestContext[dict[str, object]], __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[_listed(tool) for tool in tools])

    async def call_tool(_: ServerRequestContext[dict[str, object]], params: CallToolRequestParams) -> CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            return _failed(f"no tool is called {params.name[:100]!r}; there are {', '.join(by_name)}")
        try:
            return await _content(await _whole(tool.call(params.arguments or {})))
        except (KokoroError, ToolFailed) as error:
            return _failed(error.message)
        except Exception:
            log.exception("tool failed name=%s", tool.name)
            return _failed("an internal error; the server's log has the details")

    return Server(
        "kokoro-server",
        version=__version__,
        title="Kokoro Server",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def answer(tools: ToolServer, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers one request of streamable HTTP. No session outlives it, so that any process can answer the next one."""
    manager = StreamableHTTPSessionManager(tools, json_response=True, stateless=True)
    async with manager.run():
        await manager.handle_request(scope, receive, send)


async def _whole(work: Awaitable[T]) -> T:
    """Runs `work` in a task of its own. The SDK's cancellation strikes again at each await, so that `work` could not
    take its rows out of the queue."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await cancel(task)
        raise


def _listed(tool: Tool) -> ListedTool:
    return ListedTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.arguments.model_json_schema(),
        annotations=ToolAnnotations(read_only_hint=tool.only_reads, destructive_hint=False, open_world_hint=False),
    )


async def _content(answer: ToolAnswer) -> CallToolResult:
    content: list[TextContent | AudioContent] = [TextContent(type="text", text=answer.text)]
    if answer.audio:
        data = (await asyncio.to_thread(b64encode, answer.audio)).decode()
        content.append(AudioContent(type="audio", data=data, mime_type=answer.media_type))
    return CallToolResult(content=[*content], structured_content=answer.data)


def _failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)


async def stdio(tools: Sequence[Tool]) -> None:
    """Answers on standard input and output until the input ends. What else is written to the output goes to stderr."""
    own = server(tools)
    async with stdio_server() as (reading, writing):
        await own.run(reading, writing, own.create_initialization_options())
