"""Maps phonemes to the model's symbols: a phoneme that it has no symbol for becomes the nearest one that it has."""

from __future__ import annotations

import logging
import unicodedata
from functools import cache

from kokoro_server.engine import vocab
from kokoro_server.engine.vocab import ModelVocabulary

log = logging.getLogger(__name__)

_SIMILAR_SOUNDS = {
    "g": "ɡ",  # the letter g, for IPA's own sign
    "ɫ": "l",
    "ɬ": "l",
    "ɭ": "l",
    "ɱ": "m",
    "ʍ": "w",
    "ɦ": "h",
    "ħ": "h",
    "ʕ": "ʔ",
    "ʀ": "ʁ",
    "ʐ": "ʒ",
    "ʑ": "ʒ",
    "ʏ": "y",
    "ʉ": "u",
    "ɵ": "ø",
    "ɘ": "ə",
    "ɞ": "ɜ",
    "ɝ": "ɜɹ",
    "ᵿ": "ʊ",
    "ä": "a",
}
_SIMILAR_MARKS = {
    "–": "—",
    "―": "—",
    "~": "—",
    "～": "—",
    "〜": "—",
    "⋯": "…",
    "«": "(",  # misaki writes Japanese brackets so
    "»": ")",
    "[": "(",
    "]": ")",
    "{": "(",
    "}": ")",
    "『": "“",
    "』": "”",
    "„": "“",
    "‟": "“",
    "，": ",",
    "、": ",",
    "。": ".",
    "！": "!",
    "？": "?",
    "：": ":",
    "；": ";",
    "（": "(",
    "）": ")",
    "।": ".",
    "॥": ".",
    "؟": "?",
}
# Not spoken in any language, so they are left out without notice.
_UNSPOKEN = "¿¡-‐‑'‘’`´·・*_/\\|ˑ͡^͜\u0329\u032f\u200b\u200c\u200d\u2060\ufeff\ufe0e\ufe0f"
_SAME = {"g": "ɡ"} | _SIMILAR_MARKS | dict.fromkeys(_UNSPOKEN, "")
_REPLACEMENTS = _SIMILAR_SOUNDS | _SIMILAR_MARKS | dict.fromkeys(_UNSPOKEN, "")


@cache
def model_symbols() -> frozenset[str]:
    """Every character in the model's vocabulary."""
    return frozenset(vocab.ids())


def to_model_symbols(phonemes: str) -> tuple[str, str]:
    """`phonemes` in the model's symbols, and the characters that had to be left out, each once."""
    if model_symbols().issuperset(phonemes):
        return phonemes, ""
    kept, dropped = [], {}
    for character in phonemes:
        replacement = _replacement(character)
        if replacement is None:
            dropped[character] = True
            _warn_once(character)
        else:
            kept.append(replacement)
    return "".join(kept), "".join(dropped)


def to_symbols_of(vocabulary: ModelVocabulary, phonemes: str) -> tuple[str, str]:
    """`phonemes` in the symbols of any model, and the characters that it has none for, each once.

    For a model other than Kokoro v1.0, only marks are replaced by similar ones: its own sounds are not ours to choose.
    """
    if vocabulary is vocab.built_in():
        return to_model_symbols(phonemes)
    if not vocabulary.unknown(phonemes):
        return phonemes, ""
    kept, dropped = list[str](), dict[str, bool]()
    for character in phonemes:
        replacement = character if character in vocabulary.ids else _SAME.get(character)
        if replacement is None and character.isspace():
            replacement = " "
        if replacement is None or vocabulary.unknown(replacement):
            dropped[character] = True
        else:
            kept.append(replacement)
    return "".join(kept), "".join(dropped)


@cache
def _replacement(character: str) -> str | None:
    if character in model_symbols():
        return character
    if character.isspace():
        return " "
    if character in _REPLACEMENTS:
        return _REPLACEMENTS[character]
    known = "".join(part for part in unicodedata.normalize("NFD", character) if part in model_symbols())
    return known or None


@cache
def _warn_once(character: str) -> None:
    name = unicodedata.name(character, "unnamed")
    log.warning("left out character=%s name=%r: the model has no symbol for it", ascii(character), name)
