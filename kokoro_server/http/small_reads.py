"""Reads a WebSocket a little at a time: the quarter of a megabyte that uvloop reads at once may be 40,000 frames."""

from __future__ import annotations

import asyncio

BYTES = 512  # of a read, of which uvloop makes up to 32 in a row: as many tiny frames as they hold take 30 ms


class SmallReads(asyncio.BufferedProtocol):
    """Stands between a connection and its `protocol`, so that other connections have their turn soon."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        self._buffer = bytearray(BYTES)
        self.connection_lost = protocol.connection_lost  # type: ignore[method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]

    def get_buffer(self, _sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._protocol.data_received(bytes(memoryview(self._buffer)[:nbytes]))
