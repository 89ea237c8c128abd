"""An API worker's connection to the engine process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from kokoro_server.batching.entry import Outcome
from kokoro_server.server.ipc import wire
from kokoro_server.server.ipc.audio_buffers import AudioBufferView
from kokoro_server.server.ipc.connection import IpcConnection
from kokoro_server.server.ipc.wire import EngineStatus, MessageKind, OutcomeHead

CONNECT_TIMEOUT = 5.0
SILENT_CHECKS = 6  # without a message, after which it counts as silent: it sends its status twice a second


class Receiver(Protocol):
    """Takes what the engine process sends."""

    publish: Callable[[], object]  # publishes this process's shared state

    def take_status(self, connection: EngineConnection, status: EngineStatus) -> None: ...

    def take_answer(self, number: int) -> asyncio.Future[Any] | None:
        """The future of the answer with that number, if somebody still awaits it."""
        ...

    def lose(self, connection: EngineConnection) -> None:
        """The engine process has ended."""
        ...


class EngineConnection(IpcConnection):
    def __init__(self, receiver: Receiver, view: AudioBufferView) -> None:
        super().__init__()
        self._receiver = receiver
        self._view = view
        self.checks = 0  # since the last message
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._receiver.lose(self)
        self._view.close()
        if not self.closed.done():
            self.closed.set_result(None)

    @property
    def silent(self) -> bool:
        """Whether the engine process seems to hang. Counts checks, not seconds: this process may have been stopped."""
        return self.checks >= SILENT_CHECKS

    def data_received(self, data: bytes) -> None:
        self.checks = 0
        for kind, body in self._frames.feed(data):
            if kind == MessageKind.OUTCOME:
                self._take_outcome(OutcomeHead.decode(body))
            elif kind == MessageKind.STATUS:
                self._receiver.take_status(self, EngineStatus.decode(body))
            elif kind == MessageKind.REFRESH:
                self._receiver.publish()
            elif answer := self._receiver.take_answer(wire.ID.unpack_from(body)[0]):
                if kind == MessageKind.FAILURE:
                    answer.set_exception(wire.read_failure(body))
                else:
                    answer.set_result(wire.read_state(body) if kind == MessageKind.STATE else None)

    def _take_outcome(self, head: OutcomeHead) -> None:
        if answer := self._receiver.take_answer(head.id):
            result = self._view.take(head)
            answer.set_result(Outcome(result, head.queue_ms, head.inference_ms, head.batch_size, head.reason))
        if not head.audio & wire.INLINE:
            self._release(head.offset)

    def _release(self, offset: int) -> None:
        self.send(wire.named(MessageKind.RELEASE, offset))


async def connect(path: Path, receiver: Receiver) -> EngineConnection:
    """Raises OSError if the engine process cannot be reached."""
    loop = asyncio.get_running_loop()
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        connected.connect(str(path))
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await _readable(connected)
        _, fds, _, _ = socket.recv_fds(connected, 1, 1)  # the file of the shared memory comes with the first byte
        if not fds:
            raise ConnectionResetError("the engine process closed the connection")
        connection = partial(EngineConnection, receiver, AudioBufferView(fds[0]))
        _, made = await loop.create_unix_connection(connection, sock=connected)
    except BaseException:
        connected.close()
        raise
    return made


async def _readable(connected: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connected, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connected)
