"""The engine process's end of the link: fronts connect, submit rows and get their outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from kokoro_server.batching.entry import Outcome
from kokoro_server.batching.queue import BatchQueue
from kokoro_server.callers.limits import CallerCounts
from kokoro_server.errors import KokoroError
from kokoro_server.observability import tracing
from kokoro_server.server.ipc import wire
from kokoro_server.server.ipc.audio_buffers import AudioBuffers
from kokoro_server.server.ipc.connection import IpcConnection
from kokoro_server.server.ipc.wire import MessageKind, OutcomeHead, Submission

log = logging.getLogger(__name__)

STATUS_INTERVAL = 0.5  # seconds between two signs of life, which tell fronts what they do not ask for
BLOCK_GRACE = 1.0  # seconds after the end of a link, after which its blocks of memory are used again
ACCEPT_PAUSE = 1.0  # seconds to wait for a free descriptor


class IpcServer:
    """Listens at a path. What a front has in the queue ends with its connection.

    `facts` are told to every front that connects: what it must know of the model.
    """

    def __init__(
        self,
        queue: BatchQueue,
        limits: CallerCounts,
        facts: dict[str, Any],
        *,
        arena: AudioBuffers | None = None,
        publish: Callable[[], object] = lambda: None,
    ) -> None:
        """`publish` shows on the board what is true now."""
        self.queue = queue
        self.publish = publish
        self.limits = limits
        self.arena = arena or AudioBuffers()
        self.connections: set[WorkerConnection] = set()
        self._facts = facts
        self._listener: socket.socket | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, path: Path) -> None:
        path.unlink(missing_ok=True)  # of an engine process that was killed
        self._listener = listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.setblocking(False)
        listener.bind(str(path))
        listener.listen()
        self._tasks = [asyncio.create_task(self._accept(listener)), asyncio.create_task(self._keep_telling_status())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener:
            self._listener.close()
            self._listener = None
        for connection in list(self.connections):
            connection.close()
        while self.connections:  # noqa: ASYNC110 (until what was written has been sent)
            await asyncio.sleep(0.01)
        self.arena.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, _ = await loop.sock_accept(listener)
            except OSError as error:
                log.warning("no front can connect error=%r", error)
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            try:
                socket.send_fds(connected, [b"A"], [self.arena.fd])
                await loop.connect_accepted_socket(partial(WorkerConnection, self), connected)
            except OSError as error:  # it has gone again
                log.warning("a front could not connect error=%r", error)
                connected.close()
            except BaseException:
                connected.close()
                raise

    async def _keep_telling_status(self) -> None:
        while True:
            self.tell_status()
            await asyncio.sleep(STATUS_INTERVAL)

    def tell_status(self) -> None:
        """Tell all fronts: that it comes at all is a sign of life."""
        message = wire.document(MessageKind.STATUS, 0, self._status())
        for connection in self.connections:
            connection.send(message)

    def free(self, blocks: Iterable[int]) -> None:
        for offset in blocks if self._listener else ():
            self.arena.free(offset)

    def greeting(self) -> bytes:
        return wire.document(
            MessageKind.STATUS, 0, self._status() | {"facts": self._facts, "state": self.queue.snapshot()}
        )

    def _status(self) -> dict[str, Any]:
        return {
            "ready": self.queue.ready,
            "devices": self.queue.device_states(),
            "real_time_factor": self.queue.real_time_factor(),
            "model": self.queue.model_state(),
        }


class WorkerConnection(IpcConnection):
    """One front."""

    def __init__(self, server: IpcServer) -> None:
        super().__init__()
        self._server = server
        self._rows: dict[int, asyncio.Future[Outcome]] = {}
        self._admissions: dict[int, AbstractContextManager[None]] = {}
        self._entered: dict[int, str] = {}  # requests that count for a caller's limits
        self._blocks: set[int] = set()  # of the arena, that it has not given back
        self._handlers: dict[int, Callable[[bytes], None]] = {
            MessageKind.SUBMIT: self._submit,
            MessageKind.CANCEL: self._cancel,
            MessageKind.RELEASE: self._release,
            MessageKind.ADMIT: self._admit,
            MessageKind.ARRIVED: self._arrived,
            MessageKind.ENTER: self._enter,
            MessageKind.COUNT: self._count,
            MessageKind.LEAVE: self._leave,
            MessageKind.ASK_STATE: self._tell_state,
            MessageKind.REFRESH: self._refresh,
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.connections.add(self)
        self.send(self._server.greeting())

    def data_received(self, data: bytes) -> None:
        for kind, body in self._frames.feed(data):
            self._handlers[kind](body)

    def connection_lost(self, error: Exception | None) -> None:
        """A front that ends, however it does, leaves nothing behind."""
        super().connection_lost(error)
        self._server.connections.discard(self)
        for future in list(self._rows.values()):
            future.cancel()
        for admission in self._admissions.values():
            admission.__exit__(None, None, None)
        for caller in self._entered.values():
            self._server.limits.leave(caller)
        # It may still be reading what it was told before: a block must not hold another's audio by then.
        asyncio.get_running_loop().call_later(BLOCK_GRACE, self._server.free, frozenset(self._blocks))
        self._admissions.clear()
        self._entered.clear()
        self._blocks.clear()

    def _submit(self, body: bytes) -> None:
        row = Submission.decode(body)
        try:
            future = self._server.queue.enqueue(
                row.row, row.voice, row.priority, row.deadline, row.caller, trace=tracing.received(row.trace)
            )
        except KokoroError as error:
            self.send(wire.failure(row.id, error))
            return
        self._rows[row.id] = future
        future.add_done_callback(partial(self._answer, row.id))

    def _answer(self, number: int, future: asyncio.Future[Outcome]) -> None:
        del self._rows[number]
        if future.cancelled():
            return
        if error := future.exception():
            if not isinstance(error, KokoroError):
                log.error("a row failed error=%r", error, exc_info=error)
            self._server.tell_status()  # it may have failed with its device: whoever is told of the one sees the other
            self.send(wire.failure(number, error))
        elif self._transport:
            outcome = future.result()
            offset = self._server.arena.put(outcome.result)
            if offset is None:
                log.warning("no shared memory is free, audio goes through the socket bytes=%d", self._server.arena.used)
            else:
                self._blocks.add(offset)
            self.send(OutcomeHead.of(number, outcome, offset).encode())

    def _cancel(self, body: bytes) -> None:
        number, _ = wire.read_named(body)
        if future := self._rows.get(number):
            future.cancel()

    def _release(self, body: bytes) -> None:
        offset, _ = wire.read_named(body)
        if offset in self._blocks:
            self._blocks.remove(offset)
            self._server.arena.free(offset)

    def _admit(self, body: bytes) -> None:
        number, deadline, priority, admitted, caller = wire.read_admit(body)
        admission = self._server.queue.admit_text(caller, priority, deadline, admitted=admitted)
        with self._answering(number):
            admission.__enter__()
            self._admissions[number] = admission

    def _arrived(self, body: bytes) -> None:
        number, _ = wire.read_named(body)
        if admission := self._admissions.pop(number, None):
            admission.__exit__(None, None, None)

    def _enter(self, body: bytes) -> None:
        number, caller = wire.read_named(body)
        with self._answering(number):
            self._server.limits.enter(caller)
            self._entered[number] = caller

    def _count(self, body: bytes) -> None:
        number, caller = wire.read_named(body)
        with self._answering(number):
            self._server.limits.count(caller)

    def _leave(self, body: bytes) -> None:
        number, _ = wire.read_named(body)
        if (caller := self._entered.pop(number, None)) is not None:
            self._server.limits.leave(caller)

    def _tell_state(self, body: bytes) -> None:
        number, _ = wire.read_named(body)
        self.send(wire.document(MessageKind.STATE, number, self._server.queue.snapshot()))

    def _refresh(self, _body: bytes) -> None:
        self._server.tell_status()
        for connection in self._server.connections - {self}:
            connection.send(wire.named(MessageKind.REFRESH, 0))
        self._server.publish()

    @contextlib.contextmanager
    def _answering(self, number: int) -> Iterator[None]:
        """Answer with DONE, or with the error that it refuses with."""
        try:
            yield
        except KokoroError as error:
            self.send(wire.failure(number, error))
        else:
            self.send(wire.named(MessageKind.DONE, number))
