"""The sockets that a server listens on, and the signals that stop it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from kokoro_server.config.access import is_loopback
from kokoro_server.config.settings import Settings
from kokoro_server.errors import ConfigError, SetupError

log = logging.getLogger(__name__)

# SIGBREAK is Windows's Ctrl-Break.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name))
CAN_SHARE = hasattr(socket, "AF_UNIX") and hasattr(socket, "send_fds")  # sockets among processes: not on Windows
SHUTDOWN_GRACE = 10  # seconds that running requests get when the server is asked to stop
MAX_UNSENT = 128 * 1024  # bytes that the kernel buffers beyond what it may send: by default, megabytes
UNREAD_GRACE = 30.0  # seconds after STREAM_IDLE_TIMEOUT in which a client may still read


@dataclass(frozen=True, slots=True)
class Listeners:
    http: socket.socket
    wyoming: socket.socket | None = None

    def close(self) -> None:
        self.http.close()
        if self.wyoming:
            self.wyoming.close()

    def free_ports(self) -> None:
        """Stop listening in all processes that share the sockets, so that another server can have the ports."""
        for listener in filter(None, (self.http, self.wyoming)):
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


def on_signals(stop: Callable[[int], object]) -> None:
    """Let the running event loop call `stop` with the number of each signal that ends a server."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        try:
            loop.add_signal_handler(number, stop, number)
        except NotImplementedError:  # on Windows
            signal.signal(number, lambda number, _frame: loop.call_soon_threadsafe(stop, number))


def ignore_hangup() -> None:
    """SIGHUP does not end a server, as daemons expect it. One in a terminal stops when its terminal is closed."""
    if hasattr(signal, "SIGHUP") and not _has_terminal():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _has_terminal() -> bool:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # its standard input is closed
        return os.isatty(sys.stdin.fileno())
    return False


def bind(host: str, port: int, settings: str = " (HOST, PORT)") -> socket.socket:
    """Bind the port before anything slow happens, so that a second server fails at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise SetupError(f"cannot listen on {host}:{port}: {error.strerror or error}{settings}") from error
    return sock


def bound_unread(sock: socket.socket, seconds: float) -> None:
    """Bound the bytes that the kernel keeps for clients of `sock` that do not read. Connections inherit the options.

    The kernel buffers few bytes, so that the server learns at once that a client has stopped reading. And it drops a
    connection that has had unread bytes for `seconds`: the peer has vanished, or the server has closed the connection,
    which takes effect only when all is read. Not every platform has both options.
    """
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))


def listen(settings: Settings) -> Listeners:
    """Raises SetupError if a port is taken."""
    wyoming = _wyoming_address(settings)
    listeners = Listeners(bind(settings.host, settings.port))
    if wyoming:
        try:
            listeners = Listeners(listeners.http, bind(*wyoming, " (WYOMING_HOST, WYOMING_PORT)"))
        except SetupError:
            listeners.close()
            raise
    for sock in filter(None, (listeners.http, listeners.wyoming)):
        bound_unread(sock, settings.stream_idle_timeout + UNREAD_GRACE)
    return listeners


def _wyoming_address(settings: Settings) -> tuple[str, int] | None:
    if not settings.wyoming_port:
        return None
    name, host = f"WYOMING_PORT={settings.wyoming_port}", settings.wyoming_host or settings.host
    has_keys = settings.api_keys or settings.api_keys_file
    if has_keys and not settings.wyoming_host and not is_loopback(host):
        raise ConfigError(
            f"{name}: Wyoming has no API keys, so everyone who can reach {host} could use it without one; "
            f"set WYOMING_HOST={host} if they may, else WYOMING_HOST=127.0.0.1"
        )
    if not find_spec("wyoming"):
        raise SetupError(f"{name}: needs the package wyoming; pip install 'wyoming>=1.7'")
    if settings.wyoming_zeroconf and not find_spec("zeroconf"):
        raise SetupError("WYOMING_ZEROCONF: needs the package zeroconf; pip install 'kokoro-server[zeroconf]'")
    if settings.wyoming_zeroconf and is_loopback(host):
        raise ConfigError(f"WYOMING_ZEROCONF: no other machine can reach {host}; set WYOMING_HOST=0.0.0.0")
    return host, settings.wyoming_port


def log_ready(listener: socket.socket) -> None:
    url = f"http://{_shown(listener)}"
    log.info("Kokoro Server is ready at %s (a page to try it; the API is at %s/docs)", url, url)


def log_wyoming(listener: socket.socket) -> None:
    log.info("Wyoming, for Home Assistant, is at tcp://%s", _shown(listener))


def _shown(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"{f'[{host}]' if ':' in host else host}:{port}"
