"""The TTS application: `create_app` starts the services in its lifespan and puts them on `app.state`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Protocol

from fastapi import FastAPI

from kokoro_server import __version__, languages
from kokoro_server.api import errors
from kokoro_server.api.async_render import Renderers
from kokoro_server.api.compat.cartesia import routes as cartesia
from kokoro_server.api.compat.cartesia import voices as cartesia_voices
from kokoro_server.api.compat.cartesia import websocket as cartesia_socket
from kokoro_server.api.compat.deepgram import routes as deepgram
from kokoro_server.api.compat.deepgram import turns as deepgram_turns
from kokoro_server.api.compat.deepgram import websocket as deepgram_socket
from kokoro_server.api.compat.elevenlabs import routes as elevenlabs
from kokoro_server.api.compat.kokoro_fastapi import routes as kokoro_fastapi
from kokoro_server.api.compat.openai import routes as openai
from kokoro_server.api.mcp.endpoint import McpEndpoint
from kokoro_server.api.middleware.access_log import AccessLog
from kokoro_server.api.middleware.connection_limit import ConnectionLimit
from kokoro_server.api.middleware.defaults import WithDefaults
from kokoro_server.api.middleware.fast_path import FastPath
from kokoro_server.api.middleware.guard.middleware import Guard, configured_keys
from kokoro_server.api.middleware.idle_limit import IdleLimit
from kokoro_server.api.middleware.shutdown import GracefulShutdown, RunningRequests
from kokoro_server.api.middleware.stream_slots import StreamPlaces, StreamStats
from kokoro_server.api.routes import batch, bulk, health, monitoring, reading, tts, voices, web, websocket
from kokoro_server.api.routes.jobs import endpoints as jobs
from kokoro_server.api.routes.jobs.watching import Watches
from kokoro_server.api.speech import parse_line
from kokoro_server.audio import encode
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.queue import BatchQueue
from kokoro_server.batching.speech_queue import SpeechQueue
from kokoro_server.callers.limits import CallerCounts, CallerLimits, LocalLimits
from kokoro_server.callers.shares import SharedLimit
from kokoro_server.config.access import ApiKey, is_loopback
from kokoro_server.config.defaults import BUILT_IN_VOICE, speech_defaults
from kokoro_server.config.settings import Settings
from kokoro_server.engine import folders, loader
from kokoro_server.engine.folders import LoadFolder
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.errors import KokoroError
from kokoro_server.g2p.child import G2PChild
from kokoro_server.g2p.client import MAX_CALLS_EVER, G2PClient
from kokoro_server.g2p.of_model import ModelG2P
from kokoro_server.http.body import BodyLimit
from kokoro_server.longform.jobs.service import running_jobs
from kokoro_server.observability import tracing
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.observability.metrics import Metrics
from kokoro_server.observability.siblings import Siblings
from kokoro_server.observability.tracing.asgi import TracedRequests
from kokoro_server.runtime.background import background, cancel, failure_of
from kokoro_server.runtime.event_loop import watch_lag
from kokoro_server.runtime.machine import available_memory
from kokoro_server.runtime.threads import in_daemon_thread
from kokoro_server.server.head_start import g2p_child
from kokoro_server.server.models import folder_models, served_models
from kokoro_server.synthesis.clip_memory import ClipMemory
from kokoro_server.synthesis.models import ModelQueues
from kokoro_server.synthesis.preparation import SpeechLimits
from kokoro_server.synthesis.services import G2PProcess, Model, Services
from kokoro_server.synthesis.speech import ModelText, Speech
from kokoro_server.synthesis.synthesizer import Synthesizer
from kokoro_server.text import spoken
from kokoro_server.text.lexicon import Lexicon
from kokoro_server.text.pace import Pace
from kokoro_server.text.pieces import FIRST_PIECE_PHONEMES, PieceSizes
from kokoro_server.text.reader import Reader
from kokoro_server.voices import VoiceBook
from kokoro_server.voices.custom import CustomVoices
from kokoro_server.voices.custom.keeper import check_defaults
from kokoro_server.voices.of_model import ModelVoices, defaults_of

log = logging.getLogger(__name__)

# Calls to G2P in flight at once, where one event loop does everything: a call costs it half a millisecond, however many
# texts it has. With several API workers, more calls of fewer texts are answered sooner.
G2P_CALLS = 3
ANSWERS_SHARE = 16  # a sixteenth of the memory is for clips that wait for their readers: others wait on the disk
OTHER_MARKS = 50_000  # commas and brackets in a body, beside those of its text

DESCRIPTION = """\
Text to speech: send a text, get audio. Errors are `{"error": {"code", "message", "field"}}`; below `/v1`, OpenAI's.
Where the server has API keys, send yours as `Authorization: Bearer KEY` or as `X-API-Key`.
"""


@asynccontextmanager
async def running_services(
    settings: Settings,
    load: Callable[[Settings], LoadedModel],
    metrics: Metrics,
    on_fatal: Callable[[str], object],
    load_folder: LoadFolder = folders.load,
    g2p: G2PChild | None = None,
) -> AsyncIterator[Services]:
    """Start all services. At the end, or if one fails to start, stop the started ones in reverse order.

    `g2p` is the server's own G2P service, if that has been launched already.
    """
    async with AsyncExitStack() as stack:
        check_files(settings)
        child = g2p or g2p_child(settings)
        starting = asyncio.create_task(child.start()) if child else None
        if child:
            stack.push_async_callback(child.stop)
            stack.push_async_callback(cancel, starting)
        try:
            model = await in_daemon_thread(lambda: load(settings))
        except Exception:  # whose error is raised: the other one would be lost
            if starting and (error := failure_of(starting)):
                log.error("the G2P service did not start, either error=%s", error)
            raise
        if starting:
            await starting
        await in_daemon_thread(model.measure)  # not earlier: the child keeps a core busy while it starts
        options = BatchingOptions.of(settings)
        queue = BatchQueue(model.engines, options, model=model.reloadable, metrics=metrics, on_fatal=on_fatal)
        await queue.start()
        stack.push_async_callback(queue.stop)
        models = folder_models(settings, load_folder, on_fatal)
        if models:
            stack.push_async_callback(models.stop)
        yield await stack.enter_async_context(
            assembled(
                *(settings, model, queue, child, metrics),
                max_g2p_calls=G2P_CALLS,
                others=models,
            )
        )


def check_files(settings: Settings) -> None:
    """Raises ConfigError for mistakes in the user's files, before anything slow happens."""
    if settings.lexicon_path:
        Lexicon.load(settings.lexicon_path)
    check_defaults(settings)


@asynccontextmanager
async def assembled(
    settings: Settings,
    model: Model,
    queue: SpeechQueue,
    g2p_process: G2PProcess | None,
    metrics: Metrics,
    max_g2p_calls: int = MAX_CALLS_EVER,
    processes: int = 1,
    others: ModelQueues | None = None,
) -> AsyncIterator[Services]:
    """The services around a running queue. Without `g2p_process`, texts are read by the service at G2P_SERVICE_URL.

    `processes` of the server have such services. `others` are the models of MODELS_PATH.
    """
    lexicon = Lexicon.load(settings.lexicon_path) if settings.lexicon_path else None
    other_voices = {name: ModelVoices(folder) for name, folder in others.shelf.models.items()} if others else {}
    voice_book = VoiceBook(model.facts.voices, other_voices)
    custom_voices = CustomVoices(settings.voices_path, voice_book.built_in()) if settings.voices_path else None
    g2p_condition = g2p_process.condition if g2p_process else Condition(Reason.G2P)
    g2p_url = (lambda: g2p_process.url) if g2p_process else settings.g2p_url or ""
    g2p = G2PClient(g2p_url, settings.g2p_timeout, condition=g2p_condition, max_calls=max_g2p_calls)
    if custom_voices:
        voice_book.attach(custom_voices)
    watchers = (watch_lag(metrics.loop_lag.observe), g2p.watch(), *([custom_voices.watch()] if custom_voices else []))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(contextlib.aclosing(g2p))
        await stack.enter_async_context(background(*watchers))
        pace = partial(_pace, queue)
        reader = Reader(g2p, _sizes(settings), lexicon, metrics.g2p_time.time, pace, settings.unspeakable or "refuse")
        limits = SpeechLimits(settings.max_text_length, settings.max_silence, settings.max_clip_seconds)
        clip_memory = ClipMemory(processes)
        metrics.watch_clips(clip_memory.seconds)
        synthesizer = Synthesizer(reader, queue, voice_book, limits, clip_memory, dict(settings.pauses))
        files = tuple(file.condition for file in (lexicon, custom_voices) if file)
        conditions = (g2p_condition, *files, _formats_condition())
        models = None
        if others:

            def speaker(spoken: ModelVoices, lazy: SpeechQueue, g2p: ModelG2P, text: ModelText) -> Synthesizer:
                own_pace = partial(_pace, lazy)
                timer, refuse = metrics.g2p_time.time, settings.unspeakable or "refuse"
                own = Reader(g2p, _sizes(settings), None, timer, own_pace, refuse, text.vocabulary)
                book = VoiceBook.fixed(spoken)
                return Synthesizer(own, lazy, book, limits, clip_memory, dict(settings.pauses), text)

            models = served_models(others, other_voices, g2p, speaker)
            synthesizer.attach(models.choose)
        services = Services(
            *(settings, model, voice_book, pace, queue, g2p, g2p_process, synthesizer, metrics, custom_voices, models),
            defaults=speech_defaults.get(),
            other_conditions=conditions,
        )
        metrics.watch_conditions(lambda: services.conditions)
        metrics.ready.set_function(lambda: services.why_not_ready() is None)
        await _warm_up(g2p, synthesizer)
        yield services


async def _warm_up(g2p: G2PClient, synthesizer: Synthesizer) -> None:
    """Read a text, so that the first request finds everything in memory and a connection to G2P."""
    with contextlib.suppress(KokoroError):  # the G2P service may not be reachable yet, and is not waited for
        await g2p.health()
        await synthesizer.reading(Speech(BUILT_IN_VOICE, "The first text takes longer than the rest."))


def _formats_condition() -> Condition:
    missing = encode.missing_formats()
    message = f"cannot write {' '.join(missing)}: {'; '.join(sorted(set(missing.values())))}"
    return Condition(Reason.FORMATS, message if missing else None)


def _pace(queue: SpeechQueue) -> Pace | None:
    """The level by which streams are cut: the same in all processes, as long as the engines are."""
    factor = queue.real_time_factor()
    return None if factor is None else Pace.from_measurement(factor, queue.speaks_early())


def _sizes(settings: Settings) -> PieceSizes:
    given = settings.first_chunk_tokens
    return PieceSizes(
        given or FIRST_PIECE_PHONEMES,
        settings.min_tokens_per_chunk,
        settings.max_tokens_per_chunk,
        first_is_fixed=given is not None,
    )


def warn_if_open(settings: Settings, keys: tuple[ApiKey, ...]) -> None:
    """Call it once for a server, however many processes that has."""
    if not keys and not is_loopback(settings.host):
        log.warning("anyone who can reach this server may use it (HOST=%s): API_KEYS limits it", settings.host)
    if settings.wyoming_port and not is_loopback(wyoming := settings.wyoming_host or settings.host):
        log.warning("anyone who can reach the Wyoming port may use it, keys or not (WYOMING_HOST=%s)", wyoming)


class ProcessContext(Protocol):
    """The other processes of the server, for an application in one of several API workers."""

    @property
    def name(self) -> str: ...

    @property
    def siblings(self) -> Siblings: ...

    @property
    def limits(self) -> CallerLimits: ...

    def services(self, app: FastAPI, metrics: Metrics) -> AbstractAsyncContextManager[Services]: ...


def create_app(
    settings: Settings,
    load: Callable[[Settings], LoadedModel] = loader.load,
    worker: ProcessContext | None = None,
    load_folder: LoadFolder = folders.load,
    g2p: G2PChild | None = None,
) -> FastAPI:
    """`load` loads the model; tests pass one that loads a small model. With `worker`, the model is in another process.
    `load_folder` loads one of MODELS_PATH. `g2p` as in `running_services`.

    When the device is lost for good, `app.state.device_lost` says why, and `app.state.on_device_lost` is called, which
    must end the process, so that a supervisor can restart it.
    """

    def device_lost(reason: str) -> None:
        log.critical("the device is lost, the process must end reason=%s", reason)
        app.state.device_lost = reason
        app.state.on_device_lost()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        speech_defaults.set(defaults)  # for jobs
        english = asyncio.create_task(asyncio.to_thread(spoken.load, languages.EN_US))
        if not worker:
            warn_if_open(settings, keys)
        if worker:
            services = worker.services(app, metrics)
        else:
            services = running_services(settings, load, metrics, device_lost, load_folder, g2p)
        with tracing.configured(settings.tracing, worker.name if worker else "server"):
            async with (
                services as app.state.services,
                running_jobs(settings, app.state.services, parse_line, anyone=not keys) as app.state.jobs,
            ):
                await english
                yield

    keys = configured_keys(settings)
    defaults = defaults_of(settings)
    metrics = Metrics(worker.name) if worker else Metrics()
    siblings = worker.siblings if worker else Siblings()
    counts = CallerCounts(settings.rate_limit, settings.max_concurrent_requests)
    limits = worker.limits if worker else LocalLimits(counts)
    app = FastAPI(
        title="Kokoro Server",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # `web` has its page: FastAPI's pages load their scripts from another host
        redoc_url=None,
    )
    app.state.device_lost = None
    app.state.on_device_lost = lambda: None
    app.state.siblings = siblings
    app.state.limits = limits
    app.state.streams = StreamStats()
    app.state.running = RunningRequests()
    app.state.watches = Watches()
    app.state.places = StreamPlaces(settings.max_streams, metrics, siblings)
    app.state.answers = SharedLimit(available_memory() // ANSWERS_SHARE // siblings.workers)
    app.state.renderers = Renderers(settings.max_aac_encoders, settings.queue_timeout)
    native = (tts, batch, bulk, reading, voices, jobs, health, monitoring, websocket, web)
    # ElevenLabs' routes come before OpenAI's: of requests for models they take only those with ElevenLabs' key.
    foreign = (elevenlabs.bare, elevenlabs.below_prefix, openai.router, kokoro_fastapi.router)
    routers = [*(module.router for module in native), *foreign]
    app.add_middleware(FastPath, routers=routers)
    app.add_middleware(McpEndpoint)
    app.add_middleware(WithDefaults, defaults=defaults)
    app.add_middleware(GracefulShutdown, running=app.state.running)
    app.add_middleware(
        BodyLimit,
        limit=settings.max_body_size,
        seconds=settings.read_timeout,
        max_marks=settings.max_text_length + OTHER_MARKS,
        uploads=settings.max_upload_size,
    )
    app.add_middleware(ConnectionLimit, limit=settings.max_connections)
    app.add_middleware(Guard, settings=settings, keys=keys, metrics=metrics, limits=limits)
    app.add_middleware(IdleLimit, timeout=settings.stream_idle_timeout, stats=app.state.streams, metrics=metrics)
    app.add_middleware(AccessLog, metrics=metrics, on_unexpected=errors.on_unexpected)
    if tracing.is_wanted(settings.tracing):
        app.add_middleware(TracedRequests)
    errors.install(app)
    for router in routers:
        app.include_router(router)
    for prefix, module in (
        ("/deepgram", deepgram),
        ("/deepgram", deepgram_socket),
        ("/deepgram", deepgram_turns),
        ("/cartesia", cartesia),
        ("/cartesia", cartesia_socket),
    ):
        app.include_router(module.router, prefix=prefix)
        app.include_router(module.router, include_in_schema=False)  # for clients that can be given only the host
    app.include_router(cartesia_voices.router, prefix="/cartesia")
    return app
