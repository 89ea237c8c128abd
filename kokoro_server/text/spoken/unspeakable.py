"""Letters that a language's G2P cannot say: it would leave them out, or read them as "Chinese letter"."""

from __future__ import annotations

import regex

from kokoro_server import languages
from kokoro_server.languages import Language
from kokoro_server.text.spoken.matching import Rule, rule

NAME = "unspeakable"
# espeak reads words in these scripts, or at least names their letters.
_ESPEAK = (
    "Latin Greek Cyrillic Armenian Georgian Hebrew Arabic Devanagari Bengali Gurmukhi Gujarati Tamil Kannada Malayalam "
    "Sinhala Hangul"
).split()
_SCRIPTS = {
    languages.JA: ["Latin", "Han", "Hiragana", "Katakana"],
    languages.ZH: ["Latin", "Han"],
}
_NEUTRAL = r"\p{Common}\p{Inherited}"


def _pattern(language: Language) -> str:
    spoken = "".join(rf"\p{{{script}}}" for script in _SCRIPTS.get(language, _ESPEAK))
    return rf"(?V1)[[\p{{L}}\p{{M}}\p{{N}}]--[{spoken}{_NEUTRAL}]]++"


RULES: dict[Language, Rule] = {language: rule(NAME, _pattern(language), " ") for language in languages.LANGUAGES}
# Languages that other models bring have scripts of their own. Chinese letters espeak-ng reads in Cantonese alone.
_OTHERS = rule(NAME, r"(?V1)[\p{Han}\p{Hiragana}\p{Katakana}]++", " ")
_CANTONESE = rule(NAME, r"(?V1)[\p{Hiragana}\p{Katakana}]++", " ")


def rule_of(language: Language) -> Rule:
    return RULES.get(language) or (_CANTONESE if language.code == "yue" else _OTHERS)


# Characters that G2P may not know: all but those of the first block.
_RARE = regex.compile(r"(?V1)[\p{Han}--[\u2e80-\u303f\u4e00-\u9fa5]]")


def rare(text: str, language: Language) -> list[int]:
    """Where `text` has Chinese characters that the language's G2P may not know."""
    return [found.start() for found in _RARE.finditer(text)] if language in _SCRIPTS and not text.isascii() else []


def may_be_in(text: str, language: Language) -> bool:
    """Whether `text` has such letters. Another rule may know words for them."""
    return not text.isascii() and rule_of(language).pattern.search(text) is not None
