"""`kokoro-server cluster up`: the server on a Ray cluster, by default one of this machine alone."""

from __future__ import annotations

import argparse
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING

from kokoro_server.cli import CommandFailed
from kokoro_server.config.settings import Settings, given_texts
from kokoro_server.engine import backends
from kokoro_server.runtime.machine import available_cores
from kokoro_server.runtime.sockets import SIGNALS

if TYPE_CHECKING:
    from kokoro_server.cluster.options import ClusterOptions

log = logging.getLogger(__name__)

OWN = ("HOST", "PORT")  # of the cluster's address; a replica has its own


def run(settings: Settings, options: argparse.Namespace) -> int:
    """`up` serves until a signal or, on a cluster that runs already, returns when the server is ready."""
    if not find_spec("ray"):
        raise CommandFailed("a cluster needs Ray: pip install 'kokoro-server[cluster]'")
    from kokoro_server.cluster import local

    if options.action == "down":
        local.remove(options.address)
        return 0
    asked = _asked(settings, options)
    host = options.host or settings.host
    port = options.port if options.port is not None else settings.port
    ingress = local.Ingress(host, port or _free_port(host), haproxy=options.ingress == "haproxy")
    if options.address:
        local.deploy(asked, ingress, options.address)
        log.info("deployed replicas=%d address=%s", options.replicas, options.address)
        return 0
    # Ray puts its own handlers in place when it starts.
    with local.running(asked, ingress), _signals() as stopped:
        log.info("Kokoro Server is ready at %s (a page to try it; the API is at %s/docs)", ingress.url, ingress.url)
        stopped.wait()
        log.info("stopping")
    return 0


def _asked(settings: Settings, options: argparse.Namespace) -> ClusterOptions:
    from kokoro_server.cluster.options import ClusterOptions, G2POptions

    gpu = backends.expects_nvidia_gpu(settings)
    return ClusterOptions(
        # Replicas do not read this environment and its `.env` themselves.
        settings={name: text for name, text in given_texts().items() if name not in OWN},
        replicas=options.replicas,
        gpus=1.0 if gpu else 0.0,
        cpus=options.cpus or max(1.0, available_cores() // (options.replicas + bool(options.g2p_apart))),
        g2p=G2POptions(cpus=1.0) if options.g2p_apart else None,
        port=options.replica_port,
    )


def _free_port(host: str) -> int:
    """Ray does not report the port that it would choose for port 0."""
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _signals() -> Iterator[threading.Event]:
    """Set by the first signal; a second one interrupts."""
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
