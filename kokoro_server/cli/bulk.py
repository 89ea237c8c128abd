"""`kokoro-server bulk`: every line of a file to an audio file, or to shards of many."""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.api.speech import parse_line
from kokoro_server.cli import CommandFailed
from kokoro_server.cli.backends import check_speech, open_backend
from kokoro_server.cli.progress import BulkProgressBar, clock, quiet_beside_bar
from kokoro_server.config.defaults import speech_defaults
from kokoro_server.config.settings import Settings
from kokoro_server.engine import loader
from kokoro_server.engine.loader import LoadModel
from kokoro_server.longform.bulk import lines
from kokoro_server.longform.bulk.makers.http import HttpMaker, reach
from kokoro_server.longform.bulk.makers.local import BackendMaker, Maker
from kokoro_server.longform.bulk.outputs import WORK, outputs
from kokoro_server.longform.bulk.run import FAILURES, BulkProgress, BulkRun, folder
from kokoro_server.longform.bulk.verify import Verifier
from kokoro_server.runtime.machine import available_cores

log = logging.getLogger(__name__)

CORES_PER_PROCESS = 4  # for each process that asks a server: it may be on this machine, and needs the rest


def run(settings: Settings, options: argparse.Namespace, load: LoadModel = loader.load) -> int:
    """Run the command. `load` makes the model if no server is used; tests pass a small one."""
    check_speech(settings, options.url or options.address, options.voice)
    settings = quiet_beside_bar(settings)
    with folder(options.out), ExitStack() as stack:
        source = _source(options.input, options.out)
        listener = stack.enter_context(Verifier(options.verify)) if options.verify else None
        show = stack.enter_context(BulkProgressBar()).show
        done = asyncio.run(_run(settings, options, source, listener, show, load))
    log.info(
        "bulk done lines=%d kept=%d failed=%d damaged=%d audio=%s speed=%.1f",
        *(done.lines, done.kept, done.failed, done.damaged, clock(done.seconds), done.speed),
    )
    if done.failed:
        raise CommandFailed(f"{done.failed} of {done.lines} lines could not be made: {options.out / FAILURES} says why")
    return 0


async def _run(
    settings: Settings,
    options: argparse.Namespace,
    source: Path,
    listener: Verifier | None,
    show: Callable[[BulkProgress], object],
    load: LoadModel,
) -> BulkProgress:
    async with _maker(settings, options, load) as maker:
        format = options.format or ("flac" if options.shards else speech_defaults.get().format or "wav")
        defaults = {
            "seed": TTSRequest.model_fields["seed"].default,
            "format": format,
        } | ({"voice": options.voice} if options.voice else {})
        work = BulkRun(
            source,
            options.out,
            outputs(options.out, options.shards),
            maker,
            defaults=defaults,
            leave_voice=bool(options.url),
            verifier=listener,
            show=show,
        )
        return await work.run()


@asynccontextmanager
async def _maker(settings: Settings, options: argparse.Namespace, load: LoadModel) -> AsyncIterator[Maker]:
    if options.url:
        server = await reach(options.url, key := settings.key_to_send)
        count = options.processes or max(1, int(available_cores() / CORES_PER_PROCESS))
        yield HttpMaker(server, options.out, count, key)
        return
    if options.address:
        yield _ray_maker(settings, options.address)
        return
    async with embedded(settings, load) as maker:
        yield maker


@asynccontextmanager
async def embedded(settings: Settings, load: LoadModel = loader.load) -> AsyncIterator[BackendMaker]:
    """The model in this process, or in an actor of a Ray cluster."""
    async with open_backend(settings, None, load) as backend:
        yield BackendMaker(backend, parse_line)


def _ray_maker(settings: Settings, address: str) -> Maker:
    try:
        from kokoro_server.longform.bulk.makers.ray import RayMaker
    except ImportError as error:
        raise CommandFailed(
            f"--address: Ray is not installed: pip install 'kokoro-server[cluster]' ({error})"
        ) from error
    return RayMaker(address, partial(embedded, settings))


def _source(name: str, out: Path) -> Path:
    """The file to read. The standard input, which must be read twice, is copied to one."""
    if name == "-":
        copy = out / WORK / "input.jsonl"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return copy
    path = Path(name)
    next(lines.read(path), None)  # a file that cannot be read is reported before anything slow happens
    return path
