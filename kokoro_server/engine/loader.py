"""From settings to a model that is ready to speak."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from kokoro_server.config import Settings
from kokoro_server.engine import assets
from kokoro_server.engine.protocol import Engine
from kokoro_server.engine.voices import VoiceBook

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Model:
    """An engine, its voices, and where its weights came from."""

    engine: Engine
    voices: VoiceBook
    precision: str
    source: str


def load(settings: Settings) -> Model:
    """Fetch what is missing, load it and warm it up. Takes seconds, or minutes when files must be fetched."""
    found = assets.ensure(settings.cache_dir, settings.asset_source, settings.model_path)
    started = time.perf_counter()
    from kokoro_server.engine.torch_engine import TorchEngine  # torch takes a second to import

    engine = TorchEngine.load(found.weights, settings.device, settings.precision, settings.gpu_memory_fraction)
    engine.warmup()
    log.info(
        "model ready device=%s precision=%s source=%s seconds=%.1f",
        engine.device,
        found.precision,
        found.source,
        time.perf_counter() - started,
    )
    return Model(engine, VoiceBook(found.voices), found.precision, found.source)
