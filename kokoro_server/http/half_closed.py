"""Tells a client that has only ended its sending from one that has left.

Both look the same: nothing more will come. To learn more, the server must send something: the system of a client that
has left answers with a reset. So it sends the first bytes of the answer, which are always the same, ahead of the rest.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

BEGINNING = b"HTTP/1.1 "  # of every answer; each byte is one look for the client
FIRST_LOOK = 0.2  # seconds after the end of the request: most requests are answered by then
SECOND_LOOK = 1.0  # seconds after the first; each later wait is twice as long
REPLY = 0.05  # seconds in which a reset usually comes


class HalfClosed:
    """The transport of an answer that has not begun. Aborts the connection when the client has left."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._ahead = 0  # bytes of BEGINNING that are sent
        self._begun = False
        self._loop = asyncio.get_running_loop()
        self._loop.call_later(FIRST_LOOK, self._look, SECOND_LOOK)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._transport.write(data if self._begun else data[self._ahead :])
        self._begun = True

    def _look(self, wait: float) -> None:
        self._check()
        if self._begun or self._transport.is_closing() or self._ahead == len(BEGINNING):
            return
        self._transport.write(BEGINNING[self._ahead : self._ahead + 1])
        self._ahead += 1
        self._loop.call_later(REPLY, self._check)
        self._loop.call_later(wait, self._look, 2 * wait)

    def _check(self) -> None:
        # The loop does not watch a connection that it neither reads from nor writes to.
        if self._transport.is_closing() or self._begun:
            return
        if self._transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._transport.abort()
