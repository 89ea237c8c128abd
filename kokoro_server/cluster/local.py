"""A cluster for `kokoro-server cluster up`: Ray on this machine, or one that runs already, with the server deployed."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import ray
from ray import serve
from ray.exceptions import RayError

from kokoro_server.cluster.application import build
from kokoro_server.cluster.options import ClusterOptions
from kokoro_server.errors import SetupError

APPLICATION = "kokoro"

# How requests get to the replicas. HAProxy is a program in C beside each Ray node; it asks no router of ours. A request
# that a replica ends without any answer goes to another one, as a text may. For that, and to notice a client that is
# gone before the answer begins, HAProxy must have read the whole request; Ray has no setting for that, but takes what
# is said about retries as it stands, in separate lines.
HAPROXY = {
    "RAY_SERVE_ENABLE_HA_PROXY": "1",
    "RAY_SERVE_ENABLE_DIRECT_INGRESS": "1",
    "RAY_SERVE_HAPROXY_RETRY_ON": "conn-failure empty-response\n    option http-buffer-request",
    "RAY_SERVE_HAPROXY_TUNE_BUFSIZE": "65536",
    # HAProxy tries another replica if one has stopped listening, so draining need not take half a minute.
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "2",
}
# A replica's event loop and Ray's are one: else each message of an answer goes from thread to thread.
ALWAYS = {
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_worker_niceness": "0",  # by default 15, and a replica's server with it
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is reported to Ray's makers
}
# Ray logs much. Each request has a line of ours.
LOGGING = {"log_level": "WARNING", "enable_access_log": False}


@dataclass(frozen=True, slots=True)
class Ingress:
    """The address of a cluster, served by HAProxy or by Ray's own proxy."""

    host: str
    port: int
    haproxy: bool

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@contextlib.contextmanager
def running(options: ClusterOptions, ingress: Ingress) -> Iterator[None]:
    """Ray on this machine, with the server deployed. Both end with the block."""
    os.environ.update(ALWAYS | (HAPROXY | _haproxy_ports() if ingress.haproxy else {}))  # read by Ray's processes
    with _connected("local"):
        try:
            _deploy(options, ingress)
            yield
        finally:
            serve.shutdown()


def deploy(options: ClusterOptions, ingress: Ingress, address: str) -> None:
    """Deploy the server on a Ray that runs, or change what is deployed there. Returns when it is ready.

    How requests get to replicas is said by the environment that Ray was started with; `ingress` must say the same.
    """
    os.environ.update(HAPROXY if ingress.haproxy else {})  # read by `build`
    with _connected(address):
        _deploy(options, ingress)


def remove(address: str) -> None:
    with _connected(address):
        serve.delete(APPLICATION)


def _haproxy_ports() -> dict[str, str]:
    """Free ports for metrics and statistics: the default ones may still be held by an earlier cluster."""
    names = ("RAY_SERVE_HAPROXY_METRICS_PORT", "RAY_SERVE_HAPROXY_STATS_PORT")
    with socket.create_server(("", 0)) as one, socket.create_server(("", 0)) as other:
        free = [str(probe.getsockname()[1]) for probe in (one, other)]
    return {name: os.environ.get(name, port) for name, port in zip(names, free, strict=True)}


def _deploy(options: ClusterOptions, ingress: Ingress) -> None:
    try:
        serve.start(http_options={"host": ingress.host, "port": ingress.port}, logging_config=LOGGING)
        serve.run(build(options), name=APPLICATION, route_prefix="/", logging_config=LOGGING)
    except (RuntimeError, RayError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise SetupError(f"the server could not be deployed: {reason} (its log above says more)") from error


@contextlib.contextmanager
def _connected(address: str) -> Iterator[None]:
    try:
        ray.init(address=address, include_dashboard=False, configure_logging=False)
    except (ConnectionError, RuntimeError) as error:
        raise SetupError(f"Ray cannot be reached or started: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()
