"""Maps phonemes to the model's symbols: a phoneme that it has no symbol for becomes the nearest one that it has."""

from __future__ import annotations

import logging
import unicodedata
from functools import cache

from kokoro_server.engine import vocab

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
