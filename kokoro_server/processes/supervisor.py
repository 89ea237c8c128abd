"""Starts the processes of a server, watches them, and stops them all. It answers no request itself."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from kokoro_server.api.guard.middleware import configured_keys
from kokoro_server.config import Settings
from kokoro_server.errors import ConfigError, EngineUnavailable, KokoroError
from kokoro_server.g2p.child import G2PChild
from kokoro_server.link.board import Board
from kokoro_server.link.siblings import ENGINE, FIRST_FRONT, SUPERVISOR
from kokoro_server.processes.worker import Worker
from kokoro_server.serving import SHUTDOWN_GRACE, SIGNALS, listen_socket, log_ready
from kokoro_server.text.lexicon import Lexicon

log = logging.getLogger(__name__)

POLL_INTERVAL = 0.1  # seconds, within which fronts learn where the G2P service is
FRONT_GRACE = SHUTDOWN_GRACE + 5.0  # seconds to end
ENGINE_GRACE = 10.0


class Supervisor:
    """A server of `fronts` fronts. `load` names what loads the model, as `module:function`."""

    def __init__(self, settings: Settings, fronts: int, load: str) -> None:
        if not hasattr(socket, "AF_UNIX") or not hasattr(socket, "send_fds"):
            raise ConfigError("SERVER_PROCESSES: this system can have only one; set SERVER_PROCESSES=1")
        self._settings = settings
        self._load = load
        self._fronts_wanted = fronts
        self._signals = 0
        self._stop = asyncio.Event()
        self._failure: KokoroError | None = None
        self._workers: list[Worker] = []

    async def run(self) -> None:
        """Serve until a signal. Raises SetupError if something is missing, EngineUnavailable if nothing helps."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        _check_files(self._settings)
        with (
            listen_socket(self._settings) as listener,
            tempfile.TemporaryDirectory(prefix="kokoro-server-", ignore_cleanup_errors=True) as folder,
        ):
            async with self._running(listener, Path(folder) / "engine"):
                await self._stop.wait()
                log.info("stopping")
        if self._failure:
            raise self._failure

    @asynccontextmanager
    async def _running(self, listener: socket.socket, link: Path) -> AsyncIterator[None]:
        board = Board.create(FIRST_FRONT + self._fronts_wanted)
        async with AsyncExitStack() as stack:
            stack.callback(board.close)
            common = ("--board", str(board.fd), "--link", str(link))
            g2p = None
            if not self._settings.g2p_url:
                g2p = G2PChild(log_level=self._settings.log_level, workers=self._settings.g2p_workers)
                stack.push_async_callback(g2p.stop)
            engine = Worker(
                "engine",
                ("engine", *common, "--load", self._load),
                (board.fd,),
                self._settings,
                board.slots[ENGINE],
                on_hopeless=self._give_up,
            )
            stack.push_async_callback(engine.stop, ENGINE_GRACE)
            stack.callback(listener.close)  # when the fronts have ended: who connects then would wait in vain
            fronts = [self._front(number, board, common, listener) for number in range(self._fronts_wanted)]
            stack.push_async_callback(_stop_all, fronts)
            self._workers = [engine, *fronts]
            publishing = asyncio.create_task(self._publish(board, g2p))
            stack.callback(publishing.cancel)
            starting = asyncio.create_task(_start_all(g2p, self._workers))
            stopping = asyncio.create_task(self._stop.wait())
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if starting.done():
                _raise_first(starting)
                log_ready(listener)
            else:
                starting.cancel()
                await asyncio.wait({starting})
            yield

    def _front(self, number: int, board: Board, common: tuple[str, ...], listener: socket.socket) -> Worker:
        return Worker(
            f"front-{number + 1}",
            ("front", *common, "--number", str(number), "--listener", str(listener.fileno())),
            (board.fd, listener.fileno()),
            self._settings,
            board.slots[FIRST_FRONT + number],
        )

    def _on_signal(self, _number: int) -> None:
        self._signals += 1
        self._stop.set()
        if self._signals > 1:  # whoever asks twice does not want to wait
            for worker in self._workers:
                worker.signal(signal.SIGKILL)

    def _give_up(self, reason: str) -> None:
        log.critical("giving up: %s", reason)
        self._failure = EngineUnavailable(reason)
        self._stop.set()

    async def _publish(self, board: Board, g2p: G2PChild | None) -> None:
        """Show the fronts where the G2P service is, and whom else there is."""
        shown: dict[str, Any] = {}
        while True:
            state = self._state(g2p)
            if state != shown:
                board.slots[SUPERVISOR].publish(state)
                shown = state
            await asyncio.sleep(POLL_INTERVAL)

    def _state(self, g2p: G2PChild | None) -> dict[str, Any]:
        own = {"name": "supervisor", "pid": os.getpid(), "state": "running", "restarts": 0}
        state: dict[str, Any] = {"processes": [own, *(worker.facts() for worker in self._workers)]}
        if g2p:
            is_up = g2p.state == "running"
            facts = {"state": g2p.state, "restarts": g2p.restarts}
            state["g2p"] = facts | ({"url": g2p.url} if is_up else {})
            state["processes"].append({"name": "g2p", "pid": g2p.pid, **facts})
        return state


def _check_files(settings: Settings) -> None:
    """Fronts read them too, but a mistake is told before anything slow happens."""
    configured_keys(settings)
    if settings.lexicon_path:
        Lexicon.load(settings.lexicon_path)


async def _start_all(g2p: G2PChild | None, workers: list[Worker]) -> None:
    """Start everything at once. If one fails, the others are not waited for."""
    async with asyncio.TaskGroup() as group:
        if g2p:
            group.create_task(g2p.start())
        for worker in workers:
            group.create_task(worker.start())


async def _stop_all(fronts: list[Worker]) -> None:
    await asyncio.gather(*(front.stop(FRONT_GRACE) for front in fronts))


def _raise_first(task: asyncio.Task[None]) -> None:
    """What a task group failed with, without the group around it."""
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error:
        raise error


async def serve(settings: Settings, fronts: int, load: str) -> None:
    await Supervisor(settings, fronts, load).run()
