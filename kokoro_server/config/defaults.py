"""The voice, the language and the format of requests that name none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from kokoro_server import languages
from kokoro_server.config.kinds import ALL_LANGUAGES, AudioFormat
from kokoro_server.languages import Language

if TYPE_CHECKING:
    from kokoro_server.config.settings import Settings

BUILT_IN_VOICE = "af_heart"


@dataclass(frozen=True, slots=True)
class SpeechDefaults:
    voices: Mapping[str, str] = field(default_factory=dict)  # by code; ALL_LANGUAGES for those that are not named
    language: str | None = None  # None: the voice's own
    format: AudioFormat | None = None  # None: that of each protocol
    unspeakable: Literal["refuse", "skip"] | None = None  # None: as each protocol has it
    model_languages: Mapping[str, Collection[Language]] = field(
        default_factory=dict
    )  # of models that have a voice here

    @classmethod
    def of(
        cls, settings: Settings, model_languages: Mapping[str, Collection[Language]] = MappingProxyType({})
    ) -> SpeechDefaults:
        named = dict(settings.default_voice), settings.default_language, settings.default_format
        return cls(*named, settings.unspeakable, model_languages)

    @classmethod
    def described(
        cls, voices: Mapping[str, str], language: str | None, listed: Iterable[tuple[str, str]]
    ) -> SpeechDefaults:
        """`listed` are all voices with the codes of their languages."""
        spoken = defaultdict[str, set[Language]](set)
        for name, code in listed:
            model, slash, _ = name.partition("/")
            if slash and (known := languages.find(code, languages.ALL)):
                spoken[model].add(known)
        return cls(voices, language, model_languages=spoken)

    def voice(self, language: str | None = None) -> str:
        """The voice for a language of any spelling; without one, for DEFAULT_LANGUAGE."""
        code = language or self.language
        known = None if code is None or languages.is_auto(code) else languages.find(code, languages.ALL)
        if known and (named := self.voice_of(known)):
            return named
        of_all = self.voices.get(ALL_LANGUAGES)
        if of_all and (known is None or language in (None, self.language) or self.speaks(of_all, known)):
            return of_all
        return self.voice_of(languages.EN_US) or BUILT_IN_VOICE

    def speaks(self, voice: str, language: Language) -> bool:
        """Kokoro's own voices read all of its languages, those of another model only the ones that it has."""
        return language in self.model_languages.get(voice.partition("/")[0], languages.LANGUAGES)

    def voice_of(self, language: Language) -> str | None:
        """The voice that DEFAULT_VOICE names for a language, of this country before others."""
        same = (code for code in self.voices if code and languages.same(languages.parse(code, languages.ALL), language))
        return self.voices.get(language.code) or next((self.voices[code] for code in same), None)


# Those of the server that answers, or of the command that runs. Tasks inherit them.
speech_defaults: ContextVar[SpeechDefaults] = ContextVar("speech_defaults", default=SpeechDefaults())  # noqa: B039


def default_voice(language: str | None = None) -> str:
    return speech_defaults.get().voice(language)


def default_language() -> str | None:
    return speech_defaults.get().language
