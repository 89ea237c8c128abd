"""The models of MODELS_PATH in an API worker: the engine process loads them, and has their queues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from kokoro_server.assets.models.folder import ModelFolder, ModelShelf
from kokoro_server.batching.entry import Outcome, Submission
from kokoro_server.batching.speech_queue import SpeechQueue
from kokoro_server.batching.state import ModelSnapshot, QueueSnapshot
from kokoro_server.batching.tickets import Ticket
from kokoro_server.errors import EngineUnavailable
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.server.ipc.client import RemoteQueue

RETRY_AFTER = 60.0  # seconds; a person must restart the server


class RemoteModelQueue(SpeechQueue):
    """The queue of one model. Texts wait while the engine process loads it, and their deadlines are put off by that."""

    def __init__(self, remote: RemoteQueue, model: ModelFolder) -> None:
        self.options = remote.options
        self.condition = Condition(Reason.MODELS)
        self._remote = remote
        self._model = model

    @property
    def alive(self) -> bool:
        return True

    @property
    def ready(self) -> bool:
        status = self._remote.status_of(self._model.name)
        return self._remote.ready and status is not None and status.ready

    @property
    def max_rows(self) -> int:
        status = self._remote.status_of(self._model.name)
        return status.max_rows if status else 1

    def now(self) -> float:
        return self._remote.now()

    def real_time_factor(self) -> float | None:
        status = self._remote.status_of(self._model.name)
        return status.real_time_factor if status else None

    def device_states(self) -> dict[str, str]:
        status = self._remote.status_of(self._model.name)
        return status.devices if status else {}

    def model_state(self) -> ModelSnapshot:
        status = self._remote.status_of(self._model.name)
        return {"state": status.state if status else "unloaded"}

    async def state(self) -> QueueSnapshot:
        return await self._remote.state()

    @asynccontextmanager
    async def admission(self, ticket: Ticket | None = None) -> AsyncIterator[None]:
        self._refuse_if_changed()
        ticket, before = ticket or self.ticket(), self.now()
        async with self._remote.admitted(ticket, self._model.name):
            ticket.first_deadline = ticket.first_deadline.put_off(self.now() - before)
            yield

    def enqueue(self, submission: Submission) -> asyncio.Future[Outcome]:
        self._refuse_if_changed()
        return self._remote.enqueue(submission, self._model.name)

    def compare(self) -> None:
        """With the folder as the engine process has read it. Each process reads it when it starts."""
        status = self._remote.status_of(self._model.name)
        if status and status.identity == self._model.identity:
            self.condition.clear()
        else:
            self.condition.set(
                f"the model {self._model.name} cannot be used: its folder was changed while the server ran; restart "
                "the server"
            )

    def _refuse_if_changed(self) -> None:
        if self.condition.current:
            raise EngineUnavailable(
                f"the folder of the model {self._model.name} was changed while the server ran; restart the server",
                retry_after=RETRY_AFTER,
            )


class RemoteModels:
    """A `synthesis.models.ModelQueues`. To be made before the queue of the engine process is started."""

    def __init__(self, remote: RemoteQueue, shelf: ModelShelf) -> None:
        self.shelf = shelf
        self._queues = {name: RemoteModelQueue(remote, model) for name, model in shelf.models.items()}
        remote.on_status = self._compare

    @property
    def queues(self) -> Mapping[str, SpeechQueue]:
        return self._queues

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Of this process. The engine process has the rest."""
        return tuple(queue.condition for queue in self._queues.values())

    async def stop(self) -> None:
        """The engine process stops its models itself."""

    def _compare(self) -> None:
        for queue in self._queues.values():
            queue.compare()
