"""The TTS application: `create_app` starts the parts in its lifespan and puts them on `app.state`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from fastapi import FastAPI

from kokoro_server import __version__
from kokoro_server.access import is_loopback
from kokoro_server.api import batch, captioned, errors, health, monitoring, openai, reading, stream, tts, web, websocket
from kokoro_server.api.access_log import AccessLog
from kokoro_server.api.async_render import Renderers
from kokoro_server.api.connections.connection_limit import ConnectionLimit
from kokoro_server.api.connections.idle_limit import IdleLimit
from kokoro_server.api.connections.places import StreamPlaces, StreamStats
from kokoro_server.api.fast_path import FastPath
from kokoro_server.api.guard.middleware import Guard, configured_keys
from kokoro_server.api.shutdown import GracefulShutdown, RunningRequests
from kokoro_server.audio import encode
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.queue import BatchQueue
from kokoro_server.config import Settings
from kokoro_server.degraded import Condition, Reason
from kokoro_server.engine import loader
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.g2p.child import G2PChild
from kokoro_server.g2p.client import G2PClient
from kokoro_server.http_limits.body import BodyLimit
from kokoro_server.metrics import Metrics
from kokoro_server.parts import Parts
from kokoro_server.synthesis import Synthesizer
from kokoro_server.text.lexicon import Lexicon
from kokoro_server.text.pace import CurrentPace
from kokoro_server.text.pieces import FIRST_PIECE_PHONEMES, PieceSizes
from kokoro_server.text.reader import Reader

log = logging.getLogger(__name__)

T = TypeVar("T")
OTHER_MARKS = 50_000  # commas and brackets in a body, beside those of a text that is nothing else

DESCRIPTION = """\
Text to speech: send a text, get audio. Errors are `{"error": {"code", "message", "field"}}`; below `/v1`, OpenAI's.
Where the server has API keys, send yours as `Authorization: Bearer KEY` or as `X-API-Key`.
"""


@asynccontextmanager
async def running_parts(
    settings: Settings, load: Callable[[Settings], LoadedModel], metrics: Metrics, on_fatal: Callable[[str], object]
) -> AsyncIterator[Parts]:
    """Start all parts. At the end, or if a later part fails to start, stop them in reverse order."""
    async with AsyncExitStack() as stack:
        lexicon = Lexicon.load(settings.lexicon_path) if settings.lexicon_path else None
        child = None if settings.g2p_url else G2PChild(log_level=settings.log_level, workers=settings.g2p_workers)
        starting = asyncio.create_task(child.start()) if child else None
        if child and starting:
            stack.push_async_callback(child.stop)
            stack.callback(starting.cancel)
        model = await _in_daemon_thread(lambda: load(settings))
        if starting:
            await starting
        await _in_daemon_thread(model.measure)  # not earlier: the child keeps a core busy while it starts
        g2p_condition = child.condition if child else Condition(Reason.G2P)
        g2p_url = (lambda: child.url) if child else settings.g2p_url or ""
        g2p = G2PClient(g2p_url, settings.g2p_timeout, condition=g2p_condition)
        stack.push_async_callback(g2p.aclose)
        queue = BatchQueue(model.engines, _options(settings), metrics=metrics, on_fatal=on_fatal)
        await queue.start()
        stack.push_async_callback(queue.stop)
        pace = CurrentPace(queue.real_time_factor)
        reader = Reader(g2p, _sizes(settings), lexicon, metrics.g2p_time.time, pace, settings.unspeakable)
        synthesizer = Synthesizer(reader, queue, model.voices, settings.max_text_length, settings.max_silence)
        lexicons = (lexicon.condition,) if lexicon else ()
        conditions = (*model.conditions, g2p_condition, *lexicons, _formats_condition())
        metrics.watch_conditions(conditions)
        yield Parts(settings, model, pace, queue, g2p, child, synthesizer, metrics, conditions)


def _formats_condition() -> Condition:
    condition = Condition(Reason.FORMATS)
    if missing := encode.missing_formats():
        condition.set(f"cannot write {' '.join(missing)}: {'; '.join(sorted(set(missing.values())))}")
    return condition


async def _in_daemon_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread that, unlike asyncio's own, does not delay the exit of a server stopped while it loads."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | BaseException) -> None:
        if done.done():
            return
        if isinstance(result, BaseException):
            done.set_exception(result)
        else:
            done.set_result(result)

    def run() -> None:
        result: T | BaseException
        try:
            result = work()
        except BaseException as error:
            result = error
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=run, name="load", daemon=True).start()
    return await done


def _sizes(settings: Settings) -> PieceSizes:
    given = settings.first_chunk_tokens
    return PieceSizes(
        given or FIRST_PIECE_PHONEMES,
        settings.min_tokens_per_chunk,
        settings.max_tokens_per_chunk,
        first_is_fixed=given is not None,
    )


def _options(settings: Settings) -> BatchingOptions:
    return BatchingOptions(
        enabled=settings.batching,
        max_batch_size=settings.max_batch_rows,
        max_batch_text_length=settings.max_batch_tokens,
        max_wait_ms=settings.max_wait_ms,
        min_wait_ms=settings.min_wait_ms,
        grouping=settings.grouping,
        max_queue_size=settings.max_queue_size,
        max_queued_seconds=settings.max_queued_seconds,
        queue_timeout=settings.queue_timeout,
        job_timeout=settings.job_timeout,
        engine_timeout=settings.engine_timeout,
    )


def create_app(settings: Settings, load: Callable[[Settings], LoadedModel] = loader.load) -> FastAPI:
    """`load` loads the model; tests pass one that loads a small model.

    When the device is lost for good, `app.state.device_lost` says why, and `app.state.on_device_lost` is called so that
    whoever runs the application ends the process, and a supervisor starts it anew.
    """

    def device_lost(reason: str) -> None:
        log.critical("the device is lost, the process must end reason=%s", reason)
        app.state.device_lost = reason
        app.state.on_device_lost()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if not keys and not is_loopback(settings.host):
            log.warning("anyone who can reach this server may use it (HOST=%s): API_KEYS limits it", settings.host)
        async with running_parts(settings, load, metrics, device_lost) as parts:
            app.state.parts = parts
            yield

    keys = configured_keys(settings)
    metrics = Metrics()
    app = FastAPI(
        title="Kokoro Server",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # `web` has a page of its own: FastAPI's load their scripts from elsewhere
        redoc_url=None,
    )
    app.state.device_lost = None
    app.state.on_device_lost = lambda: None
    app.state.streams = StreamStats()
    app.state.running = RunningRequests()
    app.state.places = StreamPlaces(settings.max_streams, metrics)
    app.state.renderers = Renderers(settings.max_aac_encoders, settings.queue_timeout)
    routers = [m.router for m in (tts, stream, batch, captioned, reading, health, monitoring, openai, websocket, web)]
    app.add_middleware(FastPath, routers=routers)
    app.add_middleware(GracefulShutdown, running=app.state.running)
    app.add_middleware(
        BodyLimit,
        limit=settings.max_body_size,
        seconds=settings.read_timeout,
        max_marks=settings.max_text_length + OTHER_MARKS,
    )
    app.add_middleware(ConnectionLimit, limit=settings.max_connections)
    app.add_middleware(Guard, settings=settings, keys=keys, metrics=metrics)
    app.add_middleware(IdleLimit, timeout=settings.stream_idle_timeout, stats=app.state.streams, metrics=metrics)
    app.add_middleware(AccessLog, metrics=metrics, on_unexpected=errors.on_unexpected)
    errors.install(app)
    for router in routers:
        app.include_router(router)
    return app
