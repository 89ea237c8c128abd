"""The nine languages of Kokoro-82M v1.0."""

from __future__ import annotations

from dataclasses import dataclass

from kokoro_server.errors import UnknownLanguage, UnknownVoice


@dataclass(frozen=True, slots=True)
class Language:
    code: str
    letter: str  # Kokoro's own name for it: the first letter of a voice's name
    name: str


EN_US = Language("en-US", "a", "American English")
EN_GB = Language("en-GB", "b", "British English")
ES = Language("es", "e", "Spanish")
FR = Language("fr-FR", "f", "French")
HI = Language("hi", "h", "Hindi")
IT = Language("it", "i", "Italian")
PT_BR = Language("pt-BR", "p", "Brazilian Portuguese")
JA = Language("ja", "j", "Japanese")
ZH = Language("zh", "z", "Mandarin Chinese")

ENGLISH = (EN_US, EN_GB)
LANGUAGES = (EN_US, EN_GB, ES, FR, HI, IT, PT_BR, JA, ZH)

AUTO = "auto"  # in place of a code: the language that the text is plainly in, else the voice's own

_ALIASES = {
    "en": EN_US,
    "en-uk": EN_GB,
    "es-es": ES,
    "es-mx": ES,
    "es-419": ES,
    "fr": FR,
    "hi-in": HI,
    "it-it": IT,
    "pt": PT_BR,
    "ja-jp": JA,
    "jp": JA,
    "zh-cn": ZH,
    "zh-hans": ZH,
    "cmn": ZH,
}
_BY_LETTER = {language.letter: language for language in LANGUAGES}
_BY_NAME = {language.code.lower(): language for language in LANGUAGES} | _BY_LETTER | _ALIASES


def parse(code: str) -> Language:
    """The language of a code in any case (`en-US`, `pt_br`), of Kokoro's letter for it, or of a common alias."""
    if found := find(code):
        return found
    raise UnknownLanguage(f"unknown language {code[:40]!r}; use one of {known_codes()}", field="language")


def find(code: str) -> Language | None:
    """As `parse`; None if no language has the code."""
    return _BY_NAME.get(code.strip().lower().replace("_", "-"))


def of_voice(voice: str) -> Language:
    """The language of one of Kokoro's voices, by the first letter of its name; that letter alone will do."""
    try:
        return _BY_LETTER[voice[:1]]
    except KeyError:
        raise UnknownVoice(f"voice {voice[:40]!r} does not begin with a language letter; see GET /voices") from None


def of_request(code: str | None, voice: str) -> Language:
    """The language of `code`; without one, or for `auto`, the voice's own."""
    return parse(code) if code and not is_auto(code) else of_voice(voice)


def is_auto(code: str | None) -> bool:
    """Whether `auto` stands in the place of a code."""
    return code is not None and code.strip().lower() == AUTO


def same(one: Language, other: Language) -> bool:
    """Whether they are one language, perhaps of two countries."""
    return one.code.partition("-")[0] == other.code.partition("-")[0]


def known_codes() -> str:
    return ", ".join(language.code for language in LANGUAGES)
