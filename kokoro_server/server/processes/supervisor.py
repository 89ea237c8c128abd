"""Starts the processes of a server, watches them, and stops them all. It answers no request itself."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kokoro_server.config.settings import Settings
from kokoro_server.errors import ConfigError, EngineUnavailable, KokoroError, SetupError, first_of
from kokoro_server.runtime.sockets import SHUTDOWN_GRACE, SIGNALS, Listeners, listen, log_ready, log_wyoming
from kokoro_server.server.ipc.shared_state import ENGINE, FIRST_FRONT, SUPERVISOR, SharedState
from kokoro_server.server.processes.launch import Spare, launch
from kokoro_server.server.processes.worker import WorkerProcess

if TYPE_CHECKING:
    from kokoro_server.g2p.child import G2PChild

log = logging.getLogger(__name__)

POLL_INTERVAL = 0.1  # seconds, within which fronts learn where the G2P service is
FRONT_GRACE = SHUTDOWN_GRACE + 5.0  # seconds to end
ENGINE_GRACE = 10.0
MAX_FOLDER = 70  # bytes of its name: with what is added, a socket's path has fewer than the 104 that macOS allows


class G2PService(Protocol):
    """What fronts are told of it. `G2PChild` is one."""

    @property
    def state(self) -> str: ...
    @property
    def restarts(self) -> int: ...
    @property
    def url(self) -> str: ...
    @property
    def pid(self) -> int | None: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


class Supervisor:
    """A server of `fronts` fronts. `load` names what loads the model, as `module:function`.

    The board has a place for each process, and may have more. `link` is where the engine process will listen.
    """

    def __init__(self, settings: Settings, fronts: int, load: str, board: SharedState, link: Path) -> None:
        self._settings = settings
        self._load = load
        self._fronts_wanted = fronts
        self._board = board
        self._link = link
        self._signals = 0
        self._stop = asyncio.Event()
        self.failure: KokoroError | None = None  # that nothing here helps against
        self._workers: list[WorkerProcess] = []

    async def run(self) -> None:
        """Serve until a signal. Raises SetupError if something is missing, EngineUnavailable if nothing helps."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        with closing(listen(self._settings)) as listeners:
            async with self.running(listeners):
                if not self._stop.is_set():
                    log_ready(listeners.http)
                await self._stop.wait()
                log.info("stopping")
                for worker in self._workers:
                    worker.restart_no_more()
        if self.failure:
            raise self.failure

    @asynccontextmanager
    async def running(self, listeners: Listeners, g2p: G2PService | None = None) -> AsyncIterator[None]:
        """All processes run within, and `g2p`; without that, the G2P service that the settings ask for."""
        board = self._board
        arguments = ("--board", str(board.fd), "--link", str(self._link))
        launch_engine = partial(launch, "engine", (*arguments, "--load", self._load), (board.fd,), self._settings)
        listening = ["--listener", str(listeners.http.fileno())]
        shared = [board.fd, listeners.http.fileno()]
        if listeners.wyoming:
            listening += ["--wyoming", str(listeners.wyoming.fileno())]
            shared.append(listeners.wyoming.fileno())
        spare = Spare(partial(launch, "front", (*arguments, *listening), tuple(shared), self._settings))
        async with AsyncExitStack() as stack:
            engine = WorkerProcess("engine", launch_engine, board.slots[ENGINE], on_hopeless=self._give_up)
            stack.push_async_callback(engine.stop, ENGINE_GRACE)
            self._workers = [engine]
            await engine.spawn()  # the model takes longest; what this process imports below, it imports meanwhile
            own_g2p = _checked(self._settings)
            if g2p := g2p or own_g2p:
                stack.push_async_callback(g2p.stop)
            stack.push_async_callback(spare.stop)
            for number in range(self._fronts_wanted):
                slot = board.slots[FIRST_FRONT + number]
                self._workers.append(WorkerProcess(f"front-{number + 1}", spare.launch, slot, number=number))
            stack.callback(listeners.close)  # when the fronts have ended: who connects then would wait in vain
            stack.push_async_callback(_stop_all, self._workers[1:])
            publishing = asyncio.create_task(self._publish(board, g2p))
            stack.callback(publishing.cancel)
            if await self._start(g2p):
                for front in self._workers[1:]:
                    front.launch = spare.take
                spare.fill()
                if listeners.wyoming:
                    log_wyoming(listeners.wyoming)
            yield

    async def _start(self, g2p: G2PService | None) -> bool:
        """Start everything at once. False if a signal came before it was done."""
        starting = asyncio.create_task(_start_all(g2p, self._workers))
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if starting.done():
            _raise_first(starting)
            return True
        starting.cancel()
        await asyncio.wait({starting})
        return False

    def _on_signal(self, _number: int) -> None:
        self._signals += 1
        self._stop.set()
        if self._signals > 1:  # whoever asks twice does not want to wait
            for worker in self._workers:
                worker.signal(signal.SIGKILL)

    def _give_up(self, reason: str) -> None:
        log.critical("giving up: %s", reason)
        self.failure = EngineUnavailable(reason)
        self._stop.set()

    async def _publish(self, board: SharedState, g2p: G2PService | None) -> None:
        """Show the fronts where the G2P service is, and whom else there is."""
        shown: dict[str, Any] = {}
        while True:
            state = self._state(g2p)
            if state != shown:
                board.slots[SUPERVISOR].publish(state)
                shown = state
            await asyncio.sleep(POLL_INTERVAL)

    def _state(self, g2p: G2PService | None) -> dict[str, Any]:
        own = {"name": "supervisor", "pid": os.getpid(), "state": "running", "restarts": 0}
        state: dict[str, Any] = {"processes": [own, *(worker.facts() for worker in self._workers)]}
        if g2p:
            is_up = g2p.state == "running"
            facts = {"state": g2p.state, "restarts": g2p.restarts}
            state["g2p"] = facts | ({"url": g2p.url} if is_up else {})
            state["processes"].append({"name": "g2p", "pid": g2p.pid, **facts})
        return state


def socket_folder() -> tempfile.TemporaryDirectory[str]:
    """Where the engine process listens. The path of a socket must be short, whatever TMPDIR is."""
    try:
        usual = tempfile.gettempdir()
        parent = usual if len(os.fsencode(usual)) <= MAX_FOLDER else "/tmp"  # noqa: S108 (what is made there is private)
        return tempfile.TemporaryDirectory(prefix="kokoro-", dir=parent, ignore_cleanup_errors=True)
    except OSError as error:
        raise SetupError(f"no folder for temporary files can be used: {error} (TMPDIR)") from error


def _checked(settings: Settings) -> G2PChild | None:
    """The G2P service to start, if any. Mistakes in files that fronts will read are told before anything slow happens.

    What is imported here takes a second, in which the engine process is already at work.
    """
    from kokoro_server.api.middleware.guard.middleware import configured_keys
    from kokoro_server.server.app import check_files, g2p_child, warn_if_open

    warn_if_open(settings, configured_keys(settings))
    check_files(settings)
    return g2p_child(settings)


async def _start_all(g2p: G2PService | None, workers: list[WorkerProcess]) -> None:
    """Start everything at once. If one fails, the others are not waited for."""
    async with asyncio.TaskGroup() as group:
        if g2p:
            group.create_task(g2p.start())
        for worker in workers:
            group.create_task(worker.start())


async def _stop_all(fronts: list[WorkerProcess]) -> None:
    await asyncio.gather(*(front.stop(FRONT_GRACE) for front in fronts))


def _raise_first(task: asyncio.Task[None]) -> None:
    """What a task group failed with, without the group around it."""
    if error := task.exception():
        raise first_of(error) if isinstance(error, BaseExceptionGroup) else error


async def serve(settings: Settings, fronts: int, load: str) -> None:
    if not hasattr(socket, "AF_UNIX") or not hasattr(socket, "send_fds"):
        raise ConfigError("SERVER_PROCESSES: this system can have only one; set SERVER_PROCESSES=1")
    with socket_folder() as folder, closing(SharedState.create(FIRST_FRONT + fronts)) as board:
        await Supervisor(settings, fronts, load, board, Path(folder) / "engine").run()
