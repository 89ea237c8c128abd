"""The voices of a model below MODELS_PATH. Outside of this module their names begin with the model's."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from kokoro_server.assets.models.folder import ModelFolder, scan
from kokoro_server.config.defaults import BUILT_IN_VOICE, SpeechDefaults, speech_defaults
from kokoro_server.config.settings import Settings
from kokoro_server.engine.protocol import Style
from kokoro_server.errors import AssetError, ConfigError, Unavailable, UnknownVoice
from kokoro_server.languages import ALL, LANGUAGES, Language, find, is_auto
from kokoro_server.runtime import files
from kokoro_server.voices import levels, mix
from kokoro_server.voices.book import VoiceSnapshot
from kokoro_server.voices.names import OPENAI_VOICES, VoiceInfo, info_of_name
from kokoro_server.voices.packs import Pack, read_pack

SHOWN = 10  # voices in a message
RETRY_AFTER = 60.0  # seconds; a person must restart the server


class ModelVoices(VoiceSnapshot):
    """Names are taken with the model's and without. In a mix, all voices are of the model."""

    def __init__(self, model: ModelFolder) -> None:
        super().__init__(model.voices, {})
        self._model = model
        self._prefix = f"{model.name}/"
        self._described = {name: self._describe(name) for name in model.voices}
        self._versions = {name: files.version(path) for name, path in model.voices.items()}

    @property
    def version(self) -> str:
        return self._model.version

    def names(self) -> list[str]:
        return [self._prefix + name for name in self._known]

    def of_model(self, _spec: str) -> None:
        return None

    def info(self, name: str) -> VoiceInfo:
        return self._described[next(iter(self._parse(name)))]

    def canonical(self, spec: str) -> str:
        return self._prefix + mix.spell(self._parse(spec))

    def language(self, spec: str) -> str:
        return self.info(spec).language

    def best(self, language: Language) -> str | None:
        names = [name for name in self._known if self._described[name].language == language.letter]
        return self._prefix + names[0] if names else None

    def gain(self, spec: str) -> float:
        return levels.estimated_gain(self.pack(self.canonical(spec)))

    def cached(self, canonical: str) -> Pack | None:
        return super().cached(canonical.removeprefix(self._prefix))

    def pack(self, canonical: str) -> Pack:
        return super().pack(canonical.removeprefix(self._prefix))

    def given(self, voice: str) -> str:
        """The voice of a request that names the model in a field of its own.

        Its voice may be one of the server's or of OpenAI's, as clients must name one: the model's default stands in.
        """
        try:
            return self.canonical(voice)
        except UnknownVoice:
            if voice not in OPENAI_VOICES and not is_default(voice):
                raise
            return self._prefix + self._model.default_voice

    def _load(self, canonical: str) -> Pack:
        """Raises Unavailable for a file that is not the one that was there when the server started."""
        path = self._files.get(canonical)
        if path is not None and files.version(path) != self._versions[canonical]:
            raise Unavailable(
                f"the voice {self._prefix}{canonical} was changed while the server ran; restart the server",
                retry_after=RETRY_AFTER,
            )
        return super()._load(canonical)

    def _parse(self, spec: str) -> dict[str, int]:
        try:
            return mix.parse(mix.without_model(spec, self._model.name), self._known)
        except UnknownVoice as error:
            some = ", ".join([*self._known][:SHOWN]) + (", …" if len(self._known) > SHOWN else "")
            raise UnknownVoice(
                f"the model {self._model.name} has no voice {spec[:80]!r}, but {some}; all voices of a request are of "
                "one model",
                field=error.field,
            ) from None

    def _describe(self, name: str) -> VoiceInfo:
        spoken = self._model.card.language_of(name)
        assert spoken is not None  # the folder has been checked
        plain = info_of_name(name)
        return VoiceInfo(self._prefix + name, plain.title, spoken.language.letter, plain.gender, None)


def is_default(voice: str) -> bool:
    """Whether a voice may be there because a request has named none."""
    return voice == BUILT_IN_VOICE or voice in speech_defaults.get().voices.values()


def defaults_of(settings: Settings) -> SpeechDefaults:
    """The defaults of the settings. DEFAULT_VOICE may name voices of other models, DEFAULT_LANGUAGE their languages."""
    models: Mapping[str, ModelFolder] = {}
    language = of_other_models(settings.default_language)
    if settings.models_path and (language or any("/" in voice for _, voice in settings.default_voice)):
        with suppress(ConfigError):  # which a server reports when it starts
            models = scan(settings.models_path).models
    spoken = {name: model.card.spoken for name, model in models.items()}
    defaults = SpeechDefaults.of(settings, spoken)
    if language and not defaults.voice_of(language) and not defaults.speaks(defaults.voice(), language):
        voices = (ModelVoices(model).best(language) for model in models.values())
        if found := next(filter(None, voices), None):
            return replace(defaults, voices={**defaults.voices, language.code: found})
    return defaults


def of_other_models(code: str | None) -> Language | None:
    """The language of the code, if Kokoro v1.0 does not speak it."""
    language = None if code is None or is_auto(code) else find(code, ALL)
    return None if language in LANGUAGES else language


def check_packs(model: ModelFolder) -> None:
    """Reads every voice. Raises AssetError for one that is damaged."""
    for name in model.voices:
        _pack(model, name)


def some_styles(model: ModelFolder, voices: int, tokens: int) -> list[Style]:
    """The styles of a few voices, evenly among all, for texts of this many phonemes."""
    names = [*model.voices]
    chosen = dict.fromkeys(names[place * len(names) // voices] for place in range(voices))
    return [_pack(model, name)[tokens - 1].copy() for name in chosen]


def _pack(model: ModelFolder, name: str) -> Pack:
    path = model.voices[name]
    try:
        return read_pack(path)
    except OSError as error:
        raise AssetError(f"{path}: cannot be read ({error}); let this user read it") from error
