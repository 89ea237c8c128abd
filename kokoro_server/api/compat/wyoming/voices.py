"""The answer to `describe`, and the voice that a request means."""

from __future__ import annotations

from wyoming.info import Attribution, Info, TtsProgram, TtsVoice
from wyoming.tts import SynthesizeVoice

from kokoro_server import __version__, languages
from kokoro_server.api.agents.text import DeliveryOptions
from kokoro_server.api.compat.lenient import LenientDelivery
from kokoro_server.api.schemas.voices import VoiceAnswer
from kokoro_server.api.voice_lists import list_voices
from kokoro_server.config.defaults import default_language, speech_defaults
from kokoro_server.errors import NotSupported, UnknownLanguage
from kokoro_server.languages import AUTO, Language
from kokoro_server.synthesis.services import Services
from kokoro_server.voices import VoiceBook, VoiceSnapshot

G2P_ANSWER = 0.5  # seconds for the list of installed languages: Home Assistant waits one second for the whole answer
MODEL = Attribution(name="hexgrad", url="https://huggingface.co/hexgrad/Kokoro-82M")
PLAIN_TEXT = "text"


async def info(services: Services) -> Info:
    """All voices. Home Assistant sorts the installed ones by their descriptions, and chooses the first."""
    listed = await list_voices(services, G2P_ANSWER)
    program = TtsProgram(
        name="Kokoro",
        attribution=MODEL,
        installed=True,
        description="Kokoro-82M, spoken by Kokoro Server",
        version=__version__,
        voices=best_first(listed.voices, services.voices.now),
        supports_synthesize_streaming=True,
    )
    return Info(tts=[program])


def best_first(listed: list[VoiceAnswer], voices: VoiceSnapshot) -> list[TtsVoice]:
    """The voices of each language, numbered from its best on."""
    by_name = {voice.name: voice for voice in listed}
    found = list[TtsVoice]()
    for language in languages.ALL:
        default = speech_defaults.get().voice_of(language) or speech_defaults.get().voice()
        ranked = [by_name[name] for name in voices.ranked(language) if name in by_name]
        of_models = [voice for voice in listed if "/" in voice.name and voice.language == language.code]
        ranked = sorted((*ranked, *of_models), key=lambda voice: voice.name != default)
        digits = len(str(len(ranked)))
        found += [_voice(voice, f"{place:0{digits}}") for place, voice in enumerate(ranked, 1)]
    return found


def _voice(voice: VoiceAnswer, place: str) -> TtsVoice:
    grade = f", grade {voice.grade}" if voice.grade else ""
    return TtsVoice(
        name=voice.name,
        attribution=MODEL,
        installed=voice.installed,
        description=f"{place}. {voice.title} ({voice.gender}{grade})",
        version=None,
        languages=[voice.language],
    )


async def delivery(voice: SynthesizeVoice | None, text_format: str | None, voices: VoiceBook) -> DeliveryOptions:
    """How to speak: by the voice's name, else by the language, else in the text's own. Raises KokoroError."""
    if text_format not in (None, PLAIN_TEXT):
        raise NotSupported(f"text_format {text_format[:40]!r} cannot be spoken; send plain text", field="text_format")
    if voice is None:
        return _unnamed()
    if voice.speaker:
        raise NotSupported(f"no voice here has speakers, such as {voice.speaker[:40]!r}", field="speaker")
    if voice.name:
        return LenientDelivery(voice=(await voices.hold(voice.name)).name)
    if voice.language:
        return _of_language(languages.parse(voice.language, languages.ALL), voices)
    return _unnamed()


def _unnamed() -> DeliveryOptions:
    return LenientDelivery(language=default_language() or AUTO)


def _of_language(language: Language, voices: VoiceBook) -> DeliveryOptions:
    named = speech_defaults.get().voice_of(language)
    bests = (each.best(language) for each in (voices.now, *voices.now.models.values()))
    found = named or next(filter(None, bests), None)
    if found is None:
        raise UnknownLanguage(f"no voice speaks {language.code}", field="language")
    own = languages.of_voice(voices.language(found))
    return LenientDelivery(voice=found, language=None if languages.same(own, language) else language.code)
