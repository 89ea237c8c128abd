"""Answers to HTTP/1.0, which knows no chunks: a body without a length ends with the connection."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing drops what is unsent, and resets the connection


def without_chunks(cycle: RequestResponseCycle, app: Any) -> Any:
    """Lets the cycle send without chunks, and returns the application to run.

    If the application fails in the middle of a body, the connection is reset: its end would pass for the body's.
    """
    send = cycle.send
    until_end = False

    async def send_plain(message: Any) -> None:
        nonlocal until_end
        if message["type"] == "http.response.start":
            if not any(name.lower() == b"content-length" for name, _ in message.get("headers", ())):
                cycle.chunked_encoding = False
                until_end = True
        elif until_end:
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    async def run(scope: Any, receive: Any, send: Any) -> None:
        try:
            await app(scope, receive, send)
        finally:
            if until_end and not cycle.response_complete and not cycle.transport.is_closing():
                _reset(cycle.transport)

    cycle.send = send_plain  # type: ignore[method-assign]
    return run


def _reset(transport: asyncio.Transport) -> None:
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    transport.abort()
