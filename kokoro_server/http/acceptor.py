"""Takes connections from a socket that several API workers listen on, so that all get as many."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

from kokoro_server.observability.siblings import Cell, Siblings

log = logging.getLogger(__name__)

BACKLOG = 2048
# Seconds for which a worker with more connections than another leaves a new one to that. A free worker takes it long
# before; a worker that hangs does not keep it waiting for long.
COURTESY = 0.002
SHORTAGE = 1.0  # seconds to wait for a free descriptor: until then each new connection would only wake the loop


class Acceptor:
    """The part of `asyncio.Server` that uvicorn uses. asyncio's would take all connections that come at once.

    It takes one connection in each round of the event loop.
    """

    def __init__(
        self, listener: socket.socket, make_protocol: Callable[[], asyncio.Protocol], siblings: Siblings
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._make_protocol = make_protocol
        self._siblings = siblings
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self._watch()

    def close(self) -> None:
        self._siblings.show(Cell.CLOSED, 1)
        if self._siblings.fewest(Cell.CLOSED):  # the last worker: it answers the backlog, and refuses later clients
            while self._accept():
                pass
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
        if self._timer:
            self._timer.cancel()
        self._loop.remove_reader(self._listener)

    async def wait_closed(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _watch(self) -> None:
        self._loop.add_reader(self._listener, self._readable)

    def _readable(self) -> None:
        if self._siblings.own(Cell.CONNECTIONS) > self._siblings.fewest(Cell.CONNECTIONS):
            self._pause(COURTESY, self._accept)
        else:
            self._accept()

    def _pause(self, seconds: float, then: Callable[[], object] = lambda: None) -> None:
        self._loop.remove_reader(self._listener)

        def resume() -> None:
            self._watch()
            then()

        self._timer = self._loop.call_later(seconds, resume)

    def _accept(self) -> bool:
        """Whether there was a connection."""
        try:
            connected, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # another worker has taken it, or its client has gone
            return False
        except OSError as error:
            log.warning("no connection can be accepted error=%s", error)
            self._pause(SHORTAGE)
            return False
        connected.setblocking(False)
        with contextlib.suppress(OSError):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._siblings.show(Cell.CONNECTIONS, self._siblings.own(Cell.CONNECTIONS) + 1)
        task = self._loop.create_task(self._connect(connected))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _connect(self, connected: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, connected)
        except OSError:  # the client has gone again
            connected.close()
