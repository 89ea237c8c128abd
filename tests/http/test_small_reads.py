from __future__ import annotations

import asyncio
import socket

import pytest
import uvloop

from kokoro_server.http.small_reads import BYTES, SmallReads


class Recorder(asyncio.Protocol):
    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.lost = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.received.append(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self.lost.set_result(None)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_all_is_read_a_little_at_a_time(loop: object) -> None:
    data = bytes(range(256)) * 100

    async def read() -> list[bytes]:
        ours, theirs = socket.socketpair()
        with theirs:
            transport, recorder = await asyncio.get_running_loop().create_connection(Recorder, sock=ours)
            transport.set_protocol(SmallReads(recorder))
            theirs.sendall(data)
        await asyncio.wait_for(recorder.lost, 60)
        return recorder.received

    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type]
        received = runner.run(read())
    assert b"".join(received) == data
    assert max(map(len, received)) <= BYTES
