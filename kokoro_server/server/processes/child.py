"""A process of the server, as the supervisor starts it: `python -m kokoro_server.server.processes.child ROLE …`."""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import pickle
import socket
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from kokoro_server.config.settings import Settings
from kokoro_server.errors import KokoroError
from kokoro_server.observability import logs, tracing
from kokoro_server.runtime.event_loop import give_back_large_blocks, run_on_loop
from kokoro_server.runtime.sockets import Listeners, ignore_hangup
from kokoro_server.runtime.subprocesses import StartReport, exit_with_parent
from kokoro_server.runtime.threads import leave
from kokoro_server.server.ipc.shared_state import SharedState

LOADER = "kokoro_server.engine.loader:load"
READY = "{}"  # what a process reports that has started
ORPHAN_GRACE = 15.0  # seconds that a process without a supervisor gets to end by itself


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kokoro_server.server.processes.child", description=__doc__)
    parser.add_argument("role", choices=("engine", "api"))
    parser.add_argument("--state", type=int, required=True, help="descriptor of the shared state")
    parser.add_argument("--listener", type=int, help="descriptor of the socket that API workers listen on")
    parser.add_argument("--wyoming", type=int, help="descriptor of their socket for Wyoming")
    parser.add_argument("--path", type=Path, required=True, help="path of the engine process's socket")
    parser.add_argument("--load", default=LOADER, help="function that loads the model")
    options = parser.parse_args()
    report = StartReport()
    ignore_hangup()
    # The supervisor's first line. A second one lets the process begin: a spare gets it only much later. Nothing follows
    # until the supervisor ends.
    if not (line := sys.stdin.buffer.readline()):  # the supervisor has ended already
        return 1
    settings: Settings = pickle.loads(base64.b64decode(line))  # noqa: S301
    run = _run_engine if options.role == "engine" else _run_api
    try:
        run(settings, options, report)
    except KokoroError as error:
        if report.finished:  # else the supervisor reports the error
            sys.stderr.write(f"kokoro-server: {error.message}\n")
        report.finish(json.dumps({"error": error.message}))
        return 1
    return 0


def _run_api(settings: Settings, options: argparse.Namespace, report: StartReport) -> None:
    from kokoro_server.server.processes import api_worker

    if not (line := report.wait_for_line()):
        return
    number = int(line)  # which of the API workers it is
    logs.configure(settings.log_level, f"front-{number + 1}")
    wyoming = None if options.wyoming is None else socket.socket(fileno=options.wyoming)
    listeners = Listeners(socket.socket(fileno=options.listener), wyoming)
    exit_with_parent(ORPHAN_GRACE, on_orphaned=listeners.free_ports)
    on_ready = partial(report.finish, READY)
    give_back_large_blocks()
    run_on_loop(api_worker.serve(settings, number, SharedState(options.state), options.path, listeners, on_ready))


def _run_engine(settings: Settings, options: argparse.Namespace, report: StartReport) -> None:
    from kokoro_server.engine.loader import import_modules
    from kokoro_server.server.processes import engine

    logs.configure(settings.log_level, "engine")
    load, state = loader_named(options.load), SharedState(options.state)
    if options.load == LOADER:
        import_modules(settings)
    if not report.wait_for_line():
        return
    exit_with_parent(ORPHAN_GRACE)
    with tracing.configured(settings.tracing, "engine"):
        run_on_loop(engine.serve(settings, load, state, options.path, partial(report.finish, READY)))


def loader_named(name: str) -> Any:
    """The function with this name, `module:function`."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


if __name__ == "__main__":
    try:
        status = main()
    except (KeyboardInterrupt, asyncio.CancelledError):
        status = 130
    leave(status)
