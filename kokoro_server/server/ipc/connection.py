"""The connection that both ends of the ipc share."""

from __future__ import annotations

import asyncio
from typing import cast

from kokoro_server.server.ipc.wire import Frames


class IpcConnection(asyncio.Protocol):
    """`_transport` is None before the connection is made and after it is lost; messages sent then are dropped."""

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

    def abort(self) -> None:
        """Close at once: messages that are not sent yet are lost."""
        if self._transport:
            self._transport.abort()

    def send(self, message: bytes) -> None:
        if self._transport:
            self._transport.write(message)
