"""The `kokoro-server` command."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import NoReturn
from urllib.parse import urlsplit

from kokoro_server import __version__
from kokoro_server.cli import RunCommand
from kokoro_server.cli.options import add_bulk, add_mcp, add_models, add_say, add_screen_reader, count, port, server_url
from kokoro_server.client.errors import ClientError
from kokoro_server.config.defaults import SpeechDefaults, speech_defaults
from kokoro_server.config.settings import Settings
from kokoro_server.config.sources import export_otel
from kokoro_server.errors import ConfigError, KokoroError, Unauthorized
from kokoro_server.observability import logs
from kokoro_server.runtime.machine import thread_count
from kokoro_server.runtime.threads import leave

log = logging.getLogger(__name__)

WYOMING_PORT = 10200  # that of text to speech, by custom

DESCRIPTION = """\
Kokoro-82M text-to-speech on your own machine: a server for many requests at once, and a command that speaks a sentence
or a book without one."""
EXAMPLES = """\
examples:
  kokoro-server serve                                    speech over HTTP, by default on port 8880
  kokoro-server wyoming --uri tcp://0.0.0.0:10200        the same, and for Home Assistant
  kokoro-server say "Hello there."                       hear it
  kokoro-server say "Bonjour !" -v ff_siwis -o hi.mp3    write a file
  kokoro-server say book.epub -o book.m4b                an audiobook; goes on where it was stopped
  kokoro-server bulk texts.jsonl clips/                  a file for each line; goes on where it was stopped
  kokoro-server voices --language en-GB
  kokoro-server service install                          starts when you log in
  kokoro-server doctor                                   when something does not work

Settings come from the environment and from .env; 'settings' explains each. 'COMMAND --help' shows its options."""


def command() -> NoReturn:
    """The program."""
    leave(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. A failure is one line on stderr. No arguments: the help."""
    parser = _parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help()
        return 0
    options = parser.parse_args(arguments)
    # numpy reads it on import. Without it, numpy would use all cores, whatever a container's quota.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(thread_count()))
    try:
        settings = Settings.load()
        speech_defaults.set(_defaults(settings))
        export_otel()
        logs.configure(settings.log_level)
        status: int = options.run(settings, options)
        return status
    except (KokoroError, ClientError) as error:
        hint = "; this command sends that of KOKORO_API_KEY" if error.code == Unauthorized.code else ""
        sys.stderr.write(f"kokoro-server: {error.message}{hint}\n")
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of our output has closed the pipe
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("kokoro-server: interrupted\n")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kokoro-server",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kokoro-server {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="serve speech; fetches the model first if it is missing")
    _add_address(serve)
    serve.set_defaults(run=_serve)

    wyoming = commands.add_parser(
        "wyoming",
        help="serve speech as 'serve' does, and beside it Wyoming, for Home Assistant",
        description="Does what 'serve' does, and listens on a port for the Wyoming protocol too.",
    )
    wyoming.add_argument(
        "--uri",
        type=_tcp_address,
        metavar="tcp://ADDRESS:PORT",
        help=f"where to listen (default: WYOMING_HOST or HOST, and WYOMING_PORT or {WYOMING_PORT})",
    )
    wyoming.add_argument("--zeroconf", action="store_true", help="announce it in the local network")
    wyoming.set_defaults(run=_wyoming)

    g2p = commands.add_parser("g2p", help="serve text to phonemes, for one or more speech servers")
    _add_address(g2p, "G2P_")
    g2p.set_defaults(run=_g2p)

    _add_service(commands)
    add_say(commands, _command("say"))
    add_bulk(commands, _command("bulk"))
    _add_cluster(commands)

    voices = commands.add_parser("voices", help="list the voices: name, language, gender, grade")
    voices.add_argument("-l", "--language", metavar="LANG", help="only those of a language, such as en-GB or ja")
    voices.add_argument("--url", type=server_url, help="those of a running server")
    voices.set_defaults(run=_command("voices"))

    add_models(commands, _command("models"))
    assets = commands.add_parser("assets", help="the model's files: weights, voices, and what is built from them")
    actions = assets.add_subparsers(title="actions", required=True, metavar="ACTION")
    for name, run, text in (
        ("fetch", _assets_fetch, "fetch and convert whatever is missing"),
        ("verify", _assets_verify, "check every file against its hash"),
        ("list", _assets_list, "show the files"),
    ):
        actions.add_parser(name, help=text).set_defaults(run=run)
    build = actions.add_parser("build", help="fetch, and build what a CPU runs, ahead of the first start")
    build.add_argument(
        "--drop-weights",
        action="store_true",
        help="delete the weights afterwards, which saves 330 MB; another build would fetch them again",
    )
    build.set_defaults(run=_assets_build)

    bench = commands.add_parser("bench", help="run the benchmarks; needs a checkout of the sources")
    bench.add_argument("name", nargs="?", help="engine, queue, ... (default: all); fidelity, report (performance.md)")
    bench.add_argument("arguments", nargs=argparse.REMAINDER, help="for the benchmark; --help lists its own")
    bench.set_defaults(run=_command("bench"))

    add_mcp(commands, _command("mcp"))
    add_screen_reader(commands, _command("screen_reader"))

    shown = commands.add_parser("settings", help="print every setting, with its default and what it means, as a .env")
    shown.set_defaults(run=_command("settings"))

    doctor = commands.add_parser(
        "doctor",
        help="check all that the server needs, and say what to do about each fault",
        description="Checks everything that the server needs. Exits with 1 if something must be put right.",
    )
    doctor.set_defaults(run=_command("doctor"))
    return parser


def _add_address(command: argparse.ArgumentParser, prefix: str = "") -> None:
    command.add_argument("--host", help=f"address to listen on (default: {prefix}HOST)")
    command.add_argument("--port", type=port, help=f"port to listen on, 0 for a free one (default: {prefix}PORT)")


def _add_service(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    service = commands.add_parser(
        "service",
        help="start the server with the system: by systemd, launchd or Windows's Task Scheduler",
        description="Lets the system run 'serve' from when you log in, or with --system from the machine's start.",
    )
    actions = service.add_subparsers(title="actions", required=True, metavar="ACTION")
    for action, text in (
        ("install", "write the service's file, start it, and restart it when it fails"),
        ("uninstall", "stop it and remove the file"),
        ("status", "show whether it runs"),
    ):
        command = actions.add_parser(action, help=text)
        command.add_argument("--system", action="store_true", help="for the whole machine; needs root, not on Windows")
        if action == "install":
            _add_address(command)
            command.add_argument("--print", action="store_true", help="show the file and change nothing")
        command.set_defaults(run=_command("service"), action=action)


def _tcp_address(uri: str) -> tuple[str, int]:
    try:
        parts = urlsplit(uri)
        if parts.scheme == "tcp" and parts.hostname and parts.port:
            return parts.hostname, parts.port
    except ValueError:  # the port is no number, or too large
        pass
    raise argparse.ArgumentTypeError(f"{uri!r} is not like tcp://0.0.0.0:{WYOMING_PORT}")


def _add_cluster(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    cluster = commands.add_parser("cluster", help="the server on several machines or GPUs, by Ray Serve")
    actions = cluster.add_subparsers(title="actions", required=True, metavar="ACTION")
    up = actions.add_parser(
        "up",
        help="serve with Ray on this machine, or deploy it on a Ray cluster that runs",
        description="A replica is one device's whole server. For a cluster that stays, see deploy/ray-serve.yaml.",
    )
    up.add_argument("--replicas", type=count, default=1, metavar="N", help="default: %(default)s")
    _add_address(up)
    up.add_argument(
        "--ingress",
        choices=("haproxy", "ray"),
        default="haproxy",
        help="the proxy that listens there (default: %(default)s)",
    )
    up.add_argument(
        "--replica-port",
        type=port,
        default=8900,
        metavar="PORT",
        help="of the first replica; the next ones follow (default: %(default)s)",
    )
    up.add_argument("--g2p-apart", action="store_true", help="one G2P service for all replicas")
    up.add_argument(
        "--cpus", type=float, metavar="N", help="of each replica (default: an equal part of this machine's)"
    )
    up.add_argument("--address", help="of a Ray cluster that runs, such as auto or ray://HOST:10001; returns when done")
    up.set_defaults(run=_command("cluster"), action="up")
    down = actions.add_parser("down", help="remove it from a Ray cluster")
    down.add_argument("--address", default="auto", help="of the cluster (default: %(default)s)")
    down.set_defaults(run=_command("cluster"), action="down")


def _command(name: str) -> RunCommand:
    """`kokoro_server.cli.<name>.run`, imported when it is called: some modules take seconds to import."""
    return lambda settings, options: import_module(f"kokoro_server.cli.{name}").run(settings, options)


def _defaults(settings: Settings) -> SpeechDefaults:
    if settings.models_path is None:
        return SpeechDefaults.of(settings)
    from kokoro_server.voices.of_model import defaults_of  # imports numpy, for which most commands need not wait

    return defaults_of(settings)


def _serve(settings: Settings, options: argparse.Namespace) -> int:
    return _run_server(settings, host=options.host, port=options.port)


def _wyoming(settings: Settings, options: argparse.Namespace) -> int:
    host, port = options.uri or (settings.wyoming_host, settings.wyoming_port or WYOMING_PORT)
    announced = options.zeroconf or settings.wyoming_zeroconf
    return _run_server(settings, wyoming_host=host, wyoming_port=port, wyoming_zeroconf=announced)


def _run_server(settings: Settings, **given: object) -> int:
    from kokoro_server.longform.jobs.default_folder import with_default_folder
    from kokoro_server.server.processes.run import run

    update = {name: value for name, value in given.items() if value is not None}
    run(with_default_folder(settings.model_copy(update=update)))
    return 0


def _g2p(settings: Settings, options: argparse.Namespace) -> int:
    from kokoro_server.g2p.service import app as service

    host = settings.g2p_host if options.host is None else options.host
    port = settings.g2p_port if options.port is None else options.port
    service.run(host, port, settings.log_level, settings.g2p_workers, traces=settings.tracing)
    return 0


def _assets_fetch(settings: Settings, _options: argparse.Namespace) -> int:
    from kokoro_server.assets import late_packages, library

    if settings.g2p_url is None:
        late_packages.ensure_misaki(settings.cache_dir)
    if settings.model_path is None:
        library.improve(settings.cache_dir, settings.asset_source)
    assets = library.ensure(settings.cache_dir, settings.asset_source, settings.model_path)
    log.info("assets ready precision=%s source=%s weights=%s", assets.precision, assets.source, assets.weights)
    return 0


def _assets_build(settings: Settings, options: argparse.Namespace) -> int:
    from kokoro_server.engine import backends, loader

    if absent := backends.missing("onnx"):
        raise ConfigError(f"assets build: needs {', '.join(absent)}, not installed; {backends.EXTRA['onnx']}")
    assets, folder = loader.ensure_graphs(settings)
    if options.drop_weights and assets.weights.is_relative_to(settings.cache_dir.absolute()):
        assets.weights.unlink(missing_ok=True)
    log.info("build ready precision=%s path=%s", settings.cpu_precision, folder)
    return 0


def _assets_verify(settings: Settings, _options: argparse.Namespace) -> int:
    from kokoro_server.assets import library
    from kokoro_server.engine.cpu import build_cache

    checks = library.verify(settings.cache_dir, partial(build_cache.made_from, settings.cache_dir))
    for check in checks:
        sys.stdout.write(f"{'ok ' if check.ok else 'BAD'}  {check.name}  {check.detail}\n")
    builds = {build.key.name: build.problems() for build in build_cache.listing(settings.cache_dir)}
    for name, problems in builds.items():
        sys.stdout.write(f"{'BAD' if problems else 'ok '}  onnx/{name}  {'; '.join(problems) or 'ok'}\n")
    return 0 if checks and all(check.ok for check in checks) and not any(builds.values()) else 1


def _assets_list(settings: Settings, _options: argparse.Namespace) -> int:
    from kokoro_server.assets import library
    from kokoro_server.engine.cpu import build_cache

    listed = (*library.listing(settings.cache_dir), *build_cache.listing(settings.cache_dir))
    for line in listed or (f"none in {settings.cache_dir}; 'kokoro-server assets fetch' fetches them",):
        sys.stdout.write(f"{line}\n")
    return 0
