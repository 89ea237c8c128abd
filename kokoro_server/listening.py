"""The socket that a server listens on, and the signals that stop it."""

from __future__ import annotations

import logging
import signal
import socket

from kokoro_server.config import Settings
from kokoro_server.errors import SetupError

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHUTDOWN_GRACE = 10  # seconds that running requests get when the server is asked to stop
MAX_UNSENT = 128 * 1024  # bytes that the kernel takes of a connection beyond what it may send: it would take megabytes
UNREAD_GRACE = 30.0  # seconds after STREAM_IDLE_TIMEOUT in which what is unread may still be taken


def bind(host: str, port: int) -> socket.socket:
    """Bind the port before anything slow happens, so that a second server fails at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise SetupError(f"cannot listen on {host}:{port}: {error.strerror or error} (HOST, PORT)") from error
    return sock


def bound_unread(sock: socket.socket, seconds: float) -> None:
    """Bound what the kernel keeps for clients of `sock` that do not read. Connections inherit it, where there is it.

    It holds few bytes back, so that the server learns at once that a client has stopped. And it drops a connection
    that has had unread bytes for `seconds`: its peer has vanished, or the server has closed it, which takes effect only
    when all is read.
    """
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))


def listen_socket(settings: Settings) -> socket.socket:
    sock = bind(settings.host, settings.port)
    bound_unread(sock, settings.stream_idle_timeout + UNREAD_GRACE)
    return sock


def log_ready(listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    log.info("Kokoro Server is ready at %s (a page to try it; the API is at %s/docs)", url, url)
