"""The nine languages of Kokoro-82M v1.0, and those that other models may bring."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from types import MappingProxyType

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

# That espeak-ng reads for models that were trained on them. Their codes stand in the place of Kokoro's letters.
_OTHERS = """af Afrikaans, am Amharic, an Aragonese, ar Arabic, as Assamese, az Azerbaijani, ba Bashkir, be Belarusian,
bg Bulgarian, bn Bengali, bs Bosnian, ca Catalan, cs Czech, cy Welsh, da Danish, de German, el Greek, eo Esperanto,
et Estonian, eu Basque, fa Persian, fi Finnish, ga Irish, gd Scottish Gaelic, gu Gujarati, he Hebrew, hr Croatian,
ht Haitian Creole, hu Hungarian, hy Armenian, id Indonesian, is Icelandic, ka Georgian, kk Kazakh, kn Kannada,
ko Korean, ku Kurdish, ky Kyrgyz, la Latin, lb Luxembourgish, lt Lithuanian, lv Latvian, mk Macedonian, ml Malayalam,
mr Marathi, ms Malay, mt Maltese, my Burmese, nb Norwegian, ne Nepali, nl Dutch, or Odia, pa Punjabi, pl Polish,
pt-PT European Portuguese, qu Quechua, ro Romanian, ru Russian, sd Sindhi, si Sinhala, sk Slovak, sl Slovenian,
sq Albanian, sr Serbian, sv Swedish, sw Swahili, ta Tamil, te Telugu, th Thai, tk Turkmen, tr Turkish, tt Tatar,
ug Uyghur, uk Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, yue Cantonese"""
OTHERS = MappingProxyType(
    {
        code: Language(code, code, name)
        for code, name in (entry.split(" ", 1) for entry in _OTHERS.replace("\n", " ").split(", "))
    }
)

ALL = (*LANGUAGES, *OTHERS.values())

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


def parse(code: str, among: Collection[Language] = LANGUAGES) -> Language:
    """The language of a code in any case (`en-US`, `pt_br`), of Kokoro's letter for it, or of a common alias.

    It must be `among` those of the model that speaks.
    """
    if (found := find(code, among)) is not None and found in among:
        return found
    raise UnknownLanguage(f"unknown language {code[:40]!r}; use one of {known_codes(among)}", field="language")


def find(code: str, among: Collection[Language] = LANGUAGES) -> Language | None:
    """As `parse`; None if no language has the code."""
    spelled = code.strip().lower().replace("_", "-")
    return next((each for each in among if each.code.lower() == spelled), None) or _BY_NAME.get(spelled)


def of_voice(voice: str) -> Language:
    """The language of one of Kokoro's voices, by the first letter of its name; that letter alone will do.

    For the code of a language that another model brings, that language.
    """
    if voice in OTHERS:
        return OTHERS[voice]
    try:
        return _BY_LETTER[voice[:1]]
    except KeyError:
        raise UnknownVoice(f"voice {voice[:40]!r} does not begin with a language letter; see GET /voices") from None


def of_request(code: str | None, voice: str, among: Collection[Language] = LANGUAGES) -> Language:
    """The language of `code`; without one, or for `auto`, the voice's own."""
    return parse(code, among) if code and not is_auto(code) else of_voice(voice)


def is_auto(code: str | None) -> bool:
    """Whether `auto` stands in the place of a code."""
    return code is not None and code.strip().lower() == AUTO


def same(one: Language, other: Language) -> bool:
    """Whether they are one language, perhaps of two countries."""
    return one.code.partition("-")[0] == other.code.partition("-")[0]


def known_codes(among: Collection[Language] = LANGUAGES) -> str:
    return ", ".join(language.code for language in among)
