"""Other ways to read a language than for Kokoro v1.0, by the codes that the G2P service knows them by.

Their phonemes come as the reader gives them: the model that they are for has a vocabulary of its own.
"""

from __future__ import annotations

from kokoro_server import languages
from kokoro_server.languages import Language

PREFIX = "espeak-"
ZH_1_1 = Language("zh-1.1", languages.ZH.letter, languages.ZH.name)  # misaki's for Kokoro v1.1


def by_espeak(language: Language) -> Language:
    return Language(PREFIX + language.code, language.letter, language.name)


def parse(code: str) -> Language:
    """The language of a code of the service. Raises UnknownLanguage, which names those of Kokoro v1.0."""
    if code == ZH_1_1.code:
        return ZH_1_1
    if code.startswith(PREFIX):
        among = (*languages.LANGUAGES, *languages.OTHERS.values())
        return by_espeak(languages.parse(code.removeprefix(PREFIX), among))
    return languages.parse(code)
