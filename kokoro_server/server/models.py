"""The models of MODELS_PATH in a running server: each has its own queue, and is loaded when it is first used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from kokoro_server.assets.models.folder import ModelFolder, ModelShelf
from kokoro_server.batching.lazy_queue import LazyQueue
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.queue import BatchQueue
from kokoro_server.config.settings import Settings
from kokoro_server.engine.folders import LoadFolder
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.vocab import ModelVocabulary
from kokoro_server.errors import EngineUnavailable
from kokoro_server.g2p.client import G2PClient
from kokoro_server.g2p.of_model import ModelG2P
from kokoro_server.runtime.threads import in_daemon_thread
from kokoro_server.synthesis.models import ServedModel, ServedModels
from kokoro_server.synthesis.speech import ModelText
from kokoro_server.synthesis.synthesizer import Synthesizer
from kokoro_server.voices.of_model import ModelVoices, check_packs

log = logging.getLogger(__name__)

RETRY_AFTER = 30.0  # seconds
StartModel = Callable[[ModelFolder], Awaitable[tuple[LoadedModel, BatchQueue]]]
MakeSynthesizer = Callable[[ModelVoices, LazyQueue, ModelG2P, ModelText], Synthesizer]


async def folder_loader(
    settings: Settings, load: LoadFolder, on_fatal: Callable[[str], object], folder: ModelFolder
) -> tuple[LoadedModel, BatchQueue]:
    """A model, loaded in a thread, and its running queue."""

    def loaded() -> LoadedModel:
        check_packs(folder)
        model = load(settings, folder)
        model.measure()
        return model

    model = await in_daemon_thread(loaded)
    queue = BatchQueue(model.engines, BatchingOptions.of(settings), model=model.reloadable, on_fatal=on_fatal)
    await queue.start()
    return model, queue


def served_models(
    shelf: ModelShelf,
    voices: Mapping[str, ModelVoices],
    options: BatchingOptions,
    start: StartModel,
    g2p: G2PClient,
    synthesizer: MakeSynthesizer,
) -> ServedModels:
    """Nothing is loaded yet."""
    served = dict[str, ServedModel]()
    for name, folder in shelf.models.items():
        vocabulary = ModelVocabulary(folder.config.vocabulary, folder.config.content["n_token"])
        text = ModelText(tuple(each.language for each in folder.card.languages), vocabulary, name)
        queue = LazyQueue(name, options, partial(_started, start, served, name))
        speaks = synthesizer(voices[name], queue, ModelG2P(g2p, folder, vocabulary), text)
        served[name] = ServedModel(folder, voices[name], queue, speaks)
    return ServedModels(served, shelf.broken)


async def _started(start: StartModel, served: Mapping[str, ServedModel], name: str) -> BatchQueue:
    """Raises EngineUnavailable, and sets the model's condition, if it cannot be loaded."""
    model = served[name]
    try:
        loaded, queue = await start(model.folder)
    except asyncio.CancelledError:
        raise
    except Exception as error:
        reason = getattr(error, "message", None) or f"{type(error).__name__}: {error!s:.200}"
        log.warning("a model cannot be loaded name=%s", name, exc_info=error)
        model.condition.set(f"the model {name} cannot be loaded, and each request for it tries again: {reason}")
        raise EngineUnavailable(
            f"the model {name} cannot be loaded; /health and the server's log say why", retry_after=RETRY_AFTER
        ) from error
    model.condition.clear()
    model.loaded_conditions = lambda: loaded.conditions
    return queue
