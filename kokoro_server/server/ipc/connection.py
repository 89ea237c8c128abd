"""What both ends of the link have in common."""

from __future__ import annotations

import asyncio
from typing import cast

from kokoro_server.server.ipc.wire import Frames


class IpcConnection(asyncio.Protocol):
    """`_transport` is None before and after. What is sent then goes nowhere."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None

    def close(self) -> None:
        if self._transport:
            self._transport.close()

    def send(self, message: bytes) -> None:
        if self._transport:
            self._transport.write(message)
