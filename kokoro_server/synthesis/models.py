"""The models of MODELS_PATH beside the server's own: which of them speaks a request, and how they are doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kokoro_server.assets.models.folder import ModelFolder, ModelShelf
from kokoro_server.batching.speech_queue import SpeechQueue
from kokoro_server.errors import EngineUnavailable
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.runtime.json import JsonObject
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.synthesizer import Synthesizer
from kokoro_server.voices import mix
from kokoro_server.voices.of_model import ModelVoices, is_default

RETRY_AFTER = 60.0  # seconds; a person must repair it


class ModelQueues(Protocol):
    """Loads the models of MODELS_PATH, in this process or in the engine process."""

    @property
    def shelf(self) -> ModelShelf: ...
    @property
    def queues(self) -> Mapping[str, SpeechQueue]:
        """One for each model of the shelf."""

    @property
    def conditions(self) -> Sequence[Condition]: ...
    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class ServedModel:
    folder: ModelFolder
    voices: ModelVoices
    queue: SpeechQueue
    synthesizer: Synthesizer

    def shown(self) -> JsonObject:
        card = self.folder.card
        return {
            "name": self.folder.name,
            "title": card.name,
            "license": card.license,
            "state": self.queue.model_state()["state"],
            "languages": [language.code for language in card.spoken],
            "voices": len(self.folder.voices),
            "version": self.folder.version,
        }


class ServedModels:
    def __init__(self, models: Mapping[str, ServedModel], loader: ModelQueues) -> None:
        self.models = models
        self.broken = broken = loader.shelf.broken
        self._loader = loader
        self._broken = tuple(
            Condition(Reason.MODELS, f"the model {name} cannot be used: {reason}") for name, reason in broken.items()
        )

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return (*self._broken, *self._loader.conditions)

    def choose(self, speech: Speech) -> tuple[Synthesizer, Speech] | None:
        """The model of the voice's name, else the one that a field of the request names; None for the server's own.

        A default voice gives way to that field.
        """
        name = mix.model_of(speech.first_voice)
        asked = speech.model in self.models or speech.model in self.broken
        if (
            name is not None
            and (name in self.models or name in self.broken)
            and not (asked and is_default(speech.first_voice))
        ):
            model = self._usable(name)
            return model.synthesizer, replace(speech, model=None)
        if speech.model and asked:
            model = self._usable(speech.model)
            voice = model.voices.given(speech.first_voice)
            speech = replace(speech, model=None)
            if speech.turns:
                turns = (replace(speech.turns[0], voice=voice), *speech.turns[1:])
                return model.synthesizer, replace(speech, turns=turns)
            return model.synthesizer, replace(speech, voice=voice)
        return None

    def shown(self) -> list[JsonObject]:
        """For `/health`."""
        broken = [{"name": name, "state": "broken", "reason": reason} for name, reason in self.broken.items()]
        return [*(model.shown() for model in self.models.values()), *broken]

    def _usable(self, name: str) -> ServedModel:
        if name in self.broken:
            raise EngineUnavailable(
                f"the model {name} cannot be used; /health and the server's log say why", retry_after=RETRY_AFTER
            )
        return self.models[name]
