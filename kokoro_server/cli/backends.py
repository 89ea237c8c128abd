"""The backend that a command speaks with: a model in this process, or a server."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kokoro_server import languages
from kokoro_server.cli import CommandFailed
from kokoro_server.config.settings import Settings
from kokoro_server.engine.loader import LoadModel
from kokoro_server.errors import UnknownVoice
from kokoro_server.observability.metrics import Metrics
from kokoro_server.server.app import running_services
from kokoro_server.synthesis.http_backend import HttpBackend
from kokoro_server.synthesis.speech_backend import LocalBackend, SpeechBackend
from kokoro_server.voices.custom import catalogued

log = logging.getLogger(__name__)

UNLIMITED_S = 30 * 86_400.0  # seconds: nobody else waits for this model, and a book takes long
MIN_ENGINE_TIMEOUT_S = 300.0  # a busy CPU takes a while for a long piece


def check_speech(settings: Settings, url: str | None, *voices: str | None, language: str | None = None) -> None:
    """Refuse an unknown voice or language before the model is loaded. A server that is asked does so by itself."""
    if url:
        return
    known = catalogued(settings)
    for voice in filter(None, voices):
        try:
            known.canonical(voice)
        except UnknownVoice as error:
            raise CommandFailed(error.message.replace("GET /voices", "'kokoro-server voices'")) from error
    if language and not languages.is_auto(language):
        languages.parse(language, languages.ALL if settings.models_path else languages.LANGUAGES)


@asynccontextmanager
async def open_backend(
    settings: Settings, url: str | None, load: LoadModel, *, live: bool = False
) -> AsyncIterator[SpeechBackend]:
    """Texts may have any length and take any time. `live`: for `stream` alone."""
    if url:
        async with HttpBackend.connect(url, settings.key_to_send, live=live) as backend:
            yield backend
        return
    alone = settings.model_copy(
        update={
            "max_text_length": sys.maxsize,
            "max_silence": UNLIMITED_S,
            "max_clip_seconds": UNLIMITED_S,
            "queue_timeout": UNLIMITED_S,
            "bulk_queue_timeout": UNLIMITED_S,
            "engine_timeout": max(settings.engine_timeout, MIN_ENGINE_TIMEOUT_S),
        }
    )
    async with running_services(alone, load, Metrics(), _device_lost) as services:
        yield LocalBackend(services)


def _device_lost(reason: str) -> None:
    log.critical("the device is lost reason=%s", reason)
