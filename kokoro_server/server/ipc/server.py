"""The engine process's end of the ipc: API workers connect, submit rows and get their outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Protocol

from kokoro_server.batching.entry import Outcome
from kokoro_server.batching.lazy_queue import LazyQueue
from kokoro_server.batching.queue import BatchQueue
from kokoro_server.callers.limits import CallerCounts
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.errors import EngineUnavailable, KokoroError
from kokoro_server.runtime.background import cancel, logged_task
from kokoro_server.server.ipc import wire
from kokoro_server.server.ipc.audio_buffers import AudioBuffers
from kokoro_server.server.ipc.connection import IpcConnection
from kokoro_server.server.ipc.wire import ID, OWN_MODEL, Admit, EngineStatus, Greeting, MessageKind, ModelStatus

log = logging.getLogger(__name__)

STATUS_INTERVAL = 0.5  # seconds between two signs of life
BUFFER_GRACE = 1.0  # seconds after the end of a connection until its audio buffers are used again
ACCEPT_PAUSE = 1.0  # seconds to wait for a free descriptor
UNKNOWN_RETRY_AFTER = 60.0  # seconds; a person must restart the server
STOP_GRACE = 2.0  # seconds in which API workers must have read what was sent before the end


class FolderQueue(Protocol):
    """A model of MODELS_PATH."""

    @property
    def queue(self) -> LazyQueue: ...
    @property
    def identity(self) -> str: ...


class IpcServer:
    """Listens at a path. The entries of an API worker end with its connection."""

    def __init__(
        self,
        queue: BatchQueue,
        limits: CallerCounts,
        model: ModelFacts,
        *,
        buffers: AudioBuffers | None = None,
        publish: Callable[[], object] = lambda: None,
        real_time_factor: float | None = None,
        models: Mapping[str, FolderQueue] | None = None,
    ) -> None:
        """`publish` publishes this process's shared state. `real_time_factor` is that of an earlier engine process.

        `models` are those of MODELS_PATH.
        """
        self._models = models or {}
        self.queue = queue
        self.real_time_factor = real_time_factor or queue.real_time_factor()
        self.publish = publish
        self.limits = limits
        self.buffers = buffers or AudioBuffers()
        self.connections: set[WorkerConnection] = set()
        self._model = model
        self._listener: socket.socket | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, path: Path) -> None:
        path.unlink(missing_ok=True)  # of an engine process that was killed
        self._listener = listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.setblocking(False)
        listener.bind(str(path))
        listener.listen()
        self._tasks = [logged_task(self._accept(listener)), logged_task(self._keep_sending_status())]

    async def stop(self) -> None:
        """Close all connections. An API worker that does not read its last messages in time loses them."""
        await cancel(*self._tasks)
        if self._listener:
            self._listener.close()
            self._listener = None
        for connection in list(self.connections):
            connection.close()
        await self.until_closed(STOP_GRACE)
        for connection in list(self.connections):
            log.warning("an API worker did not read its last messages; its connection is cut")
            connection.abort()
        await self.until_closed(STOP_GRACE)
        self.buffers.close()

    async def until_closed(self, seconds: float) -> None:
        """Wait until no API worker is connected, for `seconds` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.connections:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, _ = await loop.sock_accept(listener)
            except OSError as error:
                log.warning("no API worker can connect error=%r", error)
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            try:
                socket.send_fds(connected, [b"A"], [self.buffers.fd])
                await loop.connect_accepted_socket(partial(WorkerConnection, self), connected)
            except OSError as error:  # it has gone again
                log.warning("an API worker could not connect error=%r", error)
                connected.close()
            except BaseException:
                connected.close()
                raise

    async def _keep_sending_status(self) -> None:
        while True:
            self.send_status()
            await asyncio.sleep(STATUS_INTERVAL)

    def send_status(self) -> None:
        message = self._status().encode()
        for connection in self.connections:
            connection.send(message)

    def free(self, blocks: Iterable[int]) -> None:
        for offset in blocks if self._listener else ():
            self.buffers.free(offset)

    def greeting(self) -> bytes:
        return self._status(Greeting(self._model, self.queue.max_rows, self.queue.snapshot())).encode()

    def _status(self, greeting: Greeting | None = None) -> EngineStatus:
        queue = self.queue
        models = {name: _model_status(model) for name, model in self._models.items()}
        how = queue.ready, queue.device_states(), self.real_time_factor, queue.model_state()
        return EngineStatus(*how, greeting, models)

    def folder_queue(self, model: str) -> LazyQueue | None:
        """The queue of a model of MODELS_PATH; None for the server's own model. Raises EngineUnavailable."""
        if model == OWN_MODEL:
            return None
        if model not in self._models:
            message = f"the engine process does not have the model {model}: its folder was changed; restart the server"
            raise EngineUnavailable(message, retry_after=UNKNOWN_RETRY_AFTER)
        return self._models[model].queue


def _model_status(model: FolderQueue) -> ModelStatus:
    queue = model.queue
    how = queue.ready, queue.model_state()["state"], queue.max_rows, queue.real_time_factor(), queue.device_states()
    return ModelStatus(model.identity, *how)


class WorkerConnection(IpcConnection):
    def __init__(self, server: IpcServer) -> None:
        super().__init__()
        self._server = server
        self._rows: dict[int, asyncio.Future[Outcome]] = {}
        self._admissions: dict[int, AbstractContextManager[None]] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}  # admissions that wait for their model
        self._entered: dict[int, str] = {}  # requests that count for a caller's limits
        self._blocks: set[int] = set()  # offsets of audio buffers that it has not given back
        self._handlers: dict[int, Callable[[int, bytes], None]] = {
            MessageKind.SUBMIT: self._submit,
            MessageKind.CANCEL: self._cancel,
            MessageKind.RELEASE: self._release,
            MessageKind.ADMIT: self._admit,
            MessageKind.ARRIVED: self._arrived,
            MessageKind.ENTER: self._enter,
            MessageKind.COUNT: self._count,
            MessageKind.LEAVE: self._leave,
            MessageKind.ASK_STATE: self._send_state,
            MessageKind.REFRESH: self._refresh,
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.connections.add(self)
        self.send(self._server.greeting())

    def data_received(self, data: bytes) -> None:
        for kind, body in self._frames.feed(data):
            self._handlers[kind](ID.unpack_from(body)[0], body)

    def connection_lost(self, error: Exception | None) -> None:
        """However an API worker ends, none of its entries stays in the queue, nor its requests in the limits."""
        super().connection_lost(error)
        self._server.connections.discard(self)
        for future in list(self._rows.values()):
            future.cancel()
        for admission in self._admissions.values():
            admission.__exit__(None, None, None)
        for loading in self._loading.values():
            loading.cancel()
        for caller in self._entered.values():
            self._server.limits.leave(caller)
        # It may still read the audio of earlier outcomes: their buffers must not be used again meanwhile.
        asyncio.get_running_loop().call_later(BUFFER_GRACE, self._server.free, frozenset(self._blocks))
        self._admissions.clear()
        self._entered.clear()
        self._blocks.clear()

    def _submit(self, number: int, body: bytes) -> None:
        model, submission = wire.read_submit(body)
        try:
            future = (self._server.folder_queue(model) or self._server.queue).enqueue(submission)
        except KokoroError as error:
            self.send(wire.failure(number, error))
            return
        self._rows[number] = future
        future.add_done_callback(partial(self._answer, number))

    def _answer(self, number: int, future: asyncio.Future[Outcome]) -> None:
        del self._rows[number]
        if future.cancelled():
            return
        if error := future.exception():
            if not isinstance(error, KokoroError):
                log.error("a row failed error=%r", error, exc_info=error)
            self._server.send_status()  # the row may have failed with its device: the new status must come first
            self.send(wire.failure(number, error))
        elif self._transport:
            outcome = future.result()
            offset = self._server.buffers.put(outcome.result)
            if offset is None:
                log.warning(
                    "no shared memory is free, audio goes through the socket bytes=%d", self._server.buffers.used
                )
            else:
                self._blocks.add(offset)
            self.send(wire.outcome(number, outcome, offset))

    def _cancel(self, number: int, _body: bytes) -> None:
        if future := self._rows.get(number):
            future.cancel()

    def _release(self, offset: int, _body: bytes) -> None:
        if offset in self._blocks:
            self._blocks.remove(offset)
            self._server.buffers.free(offset)

    def _admit(self, number: int, body: bytes) -> None:
        text = Admit.decode(body)
        try:
            lazy = self._server.folder_queue(text.model)
        except KokoroError as error:
            self.send(wire.failure(number, error))
            return
        if lazy is None:
            self._admit_to(self._server.queue, number, text)
        elif lazy.loaded is not None:
            self._admit_to(lazy.loaded, number, text)
        else:
            self._loading[number] = loading = logged_task(self._admit_when_loaded(lazy, number, text))
            loading.add_done_callback(lambda _: self._loading.pop(number, None))

    def _admit_to(self, queue: BatchQueue, number: int, text: Admit, waited: float = 0.0) -> None:
        deadline = text.deadline + waited
        admission = queue.admit_text(text.caller, text.priority, deadline, admitted=text.admitted)
        with self._answering(number):
            admission.__enter__()
            self._admissions[number] = admission

    async def _admit_when_loaded(self, lazy: LazyQueue, number: int, text: Admit) -> None:
        before = lazy.now()
        try:
            queue = await lazy.started()
        except KokoroError as error:
            self.send(wire.failure(number, error))
            return
        self._server.send_status()  # its pace, by which the text is cut, must come first
        self._admit_to(queue, number, text, lazy.now() - before)

    def _arrived(self, number: int, _body: bytes) -> None:
        if loading := self._loading.get(number):
            loading.cancel()
        if admission := self._admissions.pop(number, None):
            admission.__exit__(None, None, None)

    def _enter(self, number: int, body: bytes) -> None:
        caller = wire.read_name(body)
        with self._answering(number):
            self._server.limits.enter(caller)
            self._entered[number] = caller

    def _count(self, number: int, body: bytes) -> None:
        with self._answering(number):
            self._server.limits.count(wire.read_name(body))

    def _leave(self, number: int, _body: bytes) -> None:
        if (caller := self._entered.pop(number, None)) is not None:
            self._server.limits.leave(caller)

    def _send_state(self, number: int, _body: bytes) -> None:
        self.send(wire.state(number, self._server.queue.snapshot()))

    def _refresh(self, _number: int, _body: bytes) -> None:
        self._server.send_status()
        for connection in self._server.connections - {self}:
            connection.send(wire.named(MessageKind.REFRESH, 0))
        self._server.publish()

    @contextlib.contextmanager
    def _answering(self, number: int) -> Iterator[None]:
        """Answer with DONE, or with the error that is raised."""
        try:
            yield
        except KokoroError as error:
            self.send(wire.failure(number, error))
        else:
            self.send(wire.named(MessageKind.DONE, number))
