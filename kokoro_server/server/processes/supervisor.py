"""Starts the processes of a server, watches them, and stops them all. The supervisor answers no request."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kokoro_server.config.settings import Settings
from kokoro_server.errors import ConfigError, EngineUnavailable, KokoroError, SetupError, first_of
from kokoro_server.runtime.background import background, unless_set
from kokoro_server.runtime.files import OwnedFolder
from kokoro_server.runtime.sockets import (
    CAN_SHARE,
    SHUTDOWN_GRACE,
    Listeners,
    ignore_hangup,
    listen,
    log_ready,
    log_wyoming,
    on_signals,
)
from kokoro_server.server.ipc.shared_state import ENGINE, FIRST_WORKER, SUPERVISOR, SharedState
from kokoro_server.server.processes.server_process import POLICY, ServerProcess, Spare, launch

if TYPE_CHECKING:
    from kokoro_server.g2p.child import G2PChild

log = logging.getLogger(__name__)

POLL_INTERVAL = 0.1  # seconds, within which API workers learn where the G2P service is
WORKER_GRACE = SHUTDOWN_GRACE + 5.0  # seconds to end
ENGINE_GRACE = 10.0
ENGINE_POLICY = replace(POLICY, max_start_misses=120)  # libraries that load the model let nothing else run meanwhile
MAX_FOLDER = 70  # bytes of its name: with what is added, a socket's path has fewer than the 104 that macOS allows


class G2PService(Protocol):
    """The G2P service that API workers use. `G2PChild` is one."""

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
    """A server of `workers` API workers. `load` names the function that loads the model, as `module:function`.

    `state` has a slot for each process, and may have more. The engine process listens at `path`.
    """

    def __init__(self, settings: Settings, workers: int, load: str, state: SharedState, path: Path) -> None:
        self._settings = settings
        self._load = load
        self._worker_count = workers
        self._state = state
        self._path = path
        self._signals = 0
        self._stop = asyncio.Event()
        self.failure: KokoroError | None = None  # from which restarts do not recover
        self._processes: list[ServerProcess] = []  # the engine process, then the API workers

    async def run(self) -> None:
        """Serve until a signal. Raises SetupError if something is missing, EngineUnavailable if restarts fail."""
        ignore_hangup()
        on_signals(self._on_signal)
        with closing(listen(self._settings)) as listeners:
            async with self.running(listeners):
                if not self._stop.is_set():
                    log_ready(listeners.http)
                await self._stop.wait()
                log.info("stopping")
                for process in self._processes:
                    process.stop_restarting()
        if self.failure:
            raise self.failure

    @asynccontextmanager
    async def running(self, listeners: Listeners, g2p: G2PService | None = None) -> AsyncIterator[None]:
        """All processes run within the block, and `g2p`; without it, the G2P service that the settings ask for."""
        state = self._state
        arguments = ("--state", str(state.fd), "--path", str(self._path))
        spare_engine = Spare(partial(launch, "engine", (*arguments, "--load", self._load), (state.fd,), self._settings))
        listening = ["--listener", str(listeners.http.fileno())]
        shared = [state.fd, listeners.http.fileno()]
        if listeners.wyoming:
            listening += ["--wyoming", str(listeners.wyoming.fileno())]
            shared.append(listeners.wyoming.fileno())
        spare = Spare(partial(launch, "api", (*arguments, *listening), tuple(shared), self._settings))
        async with AsyncExitStack() as stack:
            engine = ServerProcess(
                *("engine", spare_engine.launch, state.slots[ENGINE]), on_hopeless=self._give_up, policy=ENGINE_POLICY
            )
            stack.push_async_callback(engine.stop, ENGINE_GRACE)
            self._processes = [engine]
            await engine.spawn()  # the model takes longest; what this process imports below, it imports meanwhile
            own_g2p = _checked(self._settings)
            if g2p := g2p or own_g2p:
                stack.push_async_callback(g2p.stop)
            stack.push_async_callback(spare_engine.stop)
            stack.push_async_callback(spare.stop)
            workers = [
                ServerProcess(f"front-{number + 1}", spare.launch, state.slots[FIRST_WORKER + number], number=number)
                for number in range(self._worker_count)
            ]
            self._processes += workers
            stack.callback(listeners.close)  # when the workers have ended: a client would connect and wait in vain
            stack.push_async_callback(_stop_all, workers)
            await stack.enter_async_context(background(self._publish(g2p)))
            if await self._start(g2p):
                engine.launch = spare_engine.take
                for worker in workers:
                    worker.launch = spare.take
                spare_engine.fill()
                spare.fill()
                if listeners.wyoming:
                    log_wyoming(listeners.wyoming)
            yield

    async def _start(self, g2p: G2PService | None) -> bool:
        """Start everything at once. False if a signal came before it was done."""
        try:
            return await unless_set(self._stop, _start_all(g2p, self._processes)) is not None
        except BaseExceptionGroup as failed:
            raise first_of(failed) from None

    def _on_signal(self, _number: int) -> None:
        self._signals += 1
        self._stop.set()
        if self._signals > 1:  # whoever asks twice does not want to wait
            for process in self._processes:
                process.kill()

    def _give_up(self, reason: str) -> None:
        log.critical("giving up: %s", reason)
        self.failure = EngineUnavailable(reason)
        self._stop.set()

    async def _publish(self, g2p: G2PService | None) -> None:
        """Show the API workers where the G2P service is, and which processes run."""
        shown: dict[str, Any] = {}
        while True:
            facts = self._facts(g2p)
            if facts != shown:
                self._state.slots[SUPERVISOR].publish(facts)
                shown = facts
            await asyncio.sleep(POLL_INTERVAL)

    def _facts(self, g2p: G2PService | None) -> dict[str, Any]:
        supervisor = {"name": "supervisor", "pid": os.getpid(), "state": "running", "restarts": 0}
        facts: dict[str, Any] = {"processes": [supervisor, *(process.facts() for process in self._processes)]}
        if g2p:
            about = {"state": g2p.state, "restarts": g2p.restarts}
            facts["g2p"] = about | ({"url": g2p.url} if g2p.state == "running" else {})
            facts["processes"].append({"name": "g2p", "pid": g2p.pid, **about})
        return facts


def socket_folder() -> OwnedFolder:
    """The folder of the engine process's socket. The path of a socket must be short, whatever TMPDIR is."""
    try:
        usual = tempfile.gettempdir()
        parent = usual if len(os.fsencode(usual)) <= MAX_FOLDER else "/tmp"  # noqa: S108 (what is made there is private)
        return OwnedFolder("kokoro-engine-", parent)
    except OSError as error:
        raise SetupError(f"no folder for temporary files can be used: {error} (TMPDIR)") from error


def _checked(settings: Settings) -> G2PChild | None:
    """The G2P service to start, if any. Raises ConfigError for mistakes in files before anything slow happens.

    The imports here take a second, in which the engine process is already at work.
    """
    from kokoro_server.api.middleware.guard.middleware import configured_keys
    from kokoro_server.server.app import check_files, warn_if_open
    from kokoro_server.server.head_start import g2p_child

    warn_if_open(settings, configured_keys(settings))
    check_files(settings)
    return g2p_child(settings)


async def _start_all(g2p: G2PService | None, processes: list[ServerProcess]) -> bool:
    """Start everything at once. If one fails, the rest is cancelled."""
    async with asyncio.TaskGroup() as group:
        if g2p:
            group.create_task(g2p.start())
        for process in processes:
            group.create_task(process.start())
    return True


async def _stop_all(workers: list[ServerProcess]) -> None:
    await asyncio.gather(*(worker.stop(WORKER_GRACE) for worker in workers))


async def serve(settings: Settings, workers: int, load: str) -> None:
    if not CAN_SHARE:
        raise ConfigError("SERVER_PROCESSES: this system can have only one; set SERVER_PROCESSES=1")
    with socket_folder() as folder, closing(SharedState.create(FIRST_WORKER + workers)) as state:
        await Supervisor(settings, workers, load, state, Path(folder) / "engine").run()
