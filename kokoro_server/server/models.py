"""The models of MODELS_PATH in a running server: each has its own queue, and is loaded when it is first used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from kokoro_server.assets.models.folder import ModelFolder, ModelShelf, check_unchanged, scan
from kokoro_server.batching.lazy_queue import LazyQueue
from kokoro_server.batching.model_slots import ModelSlot, ModelSlots
from kokoro_server.batching.policy import BatchingOptions
from kokoro_server.batching.queue import BatchQueue
from kokoro_server.batching.speech_queue import SpeechQueue
from kokoro_server.config.settings import Settings
from kokoro_server.engine.folders import CALIBRATED_TOKENS, CALIBRATED_VOICES, MAX_LOADED, LoadFolder
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.vocab import ModelVocabulary
from kokoro_server.errors import EngineUnavailable
from kokoro_server.g2p.client import G2PClient
from kokoro_server.g2p.of_model import ModelG2P
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.runtime.threads import in_daemon_thread
from kokoro_server.synthesis.models import ModelQueues, ServedModel, ServedModels
from kokoro_server.synthesis.speech import ModelText
from kokoro_server.synthesis.synthesizer import Synthesizer
from kokoro_server.voices.of_model import ModelVoices, check_packs, some_styles

log = logging.getLogger(__name__)

RETRY_AFTER = 30.0  # seconds
MakeSynthesizer = Callable[[ModelVoices, SpeechQueue, ModelG2P, ModelText], Synthesizer]


@dataclass(slots=True, eq=False)
class FolderModel:
    """A model in the process that loads it."""

    folder: ModelFolder
    queue: LazyQueue
    condition: Condition = field(default_factory=lambda: Condition(Reason.MODELS))  # whether it can be loaded
    loaded: LoadedModel | None = None

    @property
    def identity(self) -> str:
        return self.folder.identity

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return (self.condition, *(self.loaded.conditions if self.loaded else ()))


class FolderModels:
    """All models of the shelf, in the process that loads them. A `synthesis.models.ModelQueues`.

    Nothing is loaded yet. At most MAX_LOADED are at once.
    """

    def __init__(
        self, settings: Settings, shelf: ModelShelf, load: LoadFolder, on_fatal: Callable[[str], object]
    ) -> None:
        self.shelf = shelf
        self._settings = settings
        self._load = load
        self._on_fatal = on_fatal
        options = BatchingOptions.of(settings)
        slots = ModelSlots(MAX_LOADED, options.queue_timeout)
        self.models = {
            name: FolderModel(folder, LazyQueue(name, options, slots, partial(self._started, name)))
            for name, folder in shelf.models.items()
        }

    @property
    def queues(self) -> Mapping[str, SpeechQueue]:
        return {name: model.queue for name, model in self.models.items()}

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return tuple(condition for model in self.models.values() for condition in model.conditions)

    async def stop(self) -> None:
        await asyncio.gather(*(model.queue.stop() for model in self.models.values()))

    async def _started(self, name: str, slot: ModelSlot) -> BatchQueue:
        """Raises EngineUnavailable, and sets the model's condition, if it cannot be loaded."""
        model = self.models[name]
        try:
            loaded = await in_daemon_thread(partial(self._loaded, model.folder))
            options = BatchingOptions.of(self._settings)
            queue = BatchQueue(loaded.engines, options, model=loaded.reloadable, on_fatal=self._on_fatal, slot=slot)
            await queue.start()
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
        model.loaded = loaded
        return queue

    def _loaded(self, folder: ModelFolder) -> LoadedModel:
        check_unchanged(folder)
        check_packs(folder)
        model = self._load(self._settings, folder, some_styles(folder, CALIBRATED_VOICES, CALIBRATED_TOKENS))
        model.measure()
        return model


def folder_models(settings: Settings, load: LoadFolder, on_fatal: Callable[[str], object]) -> FolderModels | None:
    """None without MODELS_PATH."""
    return FolderModels(settings, scan(settings.models_path), load, on_fatal) if settings.models_path else None


def served_models(
    loader: ModelQueues, voices: Mapping[str, ModelVoices], g2p: G2PClient, synthesizer: MakeSynthesizer
) -> ServedModels:
    served = dict[str, ServedModel]()
    for name, folder in loader.shelf.models.items():
        vocabulary = ModelVocabulary(folder.config.vocabulary, folder.config.content["n_token"])
        text = ModelText(folder.card.spoken, vocabulary, name)
        speaks = synthesizer(voices[name], loader.queues[name], ModelG2P(g2p, folder, vocabulary), text)
        served[name] = ServedModel(folder, voices[name], loader.queues[name], speaks)
    return ServedModels(served, loader)
