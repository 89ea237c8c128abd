"""A stretch of text made ready for G2P: pronunciations taken out of it, and what would confuse G2P cleaned away.

`[Kokoro](/kˈOkəɹO/)` in a text gives the phonemes of a word. Markup that is not of this form is plain text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import regex

from kokoro_server.engine import vocab
from kokoro_server.errors import InvalidInput
from kokoro_server.text.traced import Traced

# Bounded so that markup always fits in a sentence; 510 phonemes are the most the model can say at once.
INLINE = re.compile(r"\[(?P<word>(?=\s*[^\[\]\s])[^\[\]\n]{1,200})\]\(/(?P<phonemes>[^()\n]{1,510})/\)")
CJK = r"\p{Han}\p{Hiragana}\p{Katakana}ー"
# What G2P has a sound for: everything but spaces, controls and marks that are only heard as a pause.
SPOKEN = regex.compile(r"[\p{L}\p{M}\p{N}\p{S}&%@#/\\*§¶†]")

_EMOJI = r"[[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}]--[©®™‼⁉ℹ]]"
_Change = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]
_CLEANING: tuple[_Change, ...] = (
    # Joiners matter between Devanagari letters. U+20E3 is the key drawn around a digit.
    (
        regex.compile(r"(?V1)[\p{Cf}--[\u200c\u200d]]|(?<!\p{Devanagari})[\u200c\u200d]|[\ufe0e\ufe0f\u20e3]"),
        lambda _: "",
    ),
    # espeak would read out its name.
    (regex.compile(rf"(?V1)\s*{_EMOJI}+(?=[\s.,;:!?…)]|\Z)"), lambda _: ""),
    (regex.compile(rf"(?V1){_EMOJI}+"), lambda _: " "),
    (regex.compile(r"[^\s\p{M}]\p{M}+"), lambda match: unicodedata.normalize("NFC", match[0])),
    # A wrapped line; between other letters it is a space.
    (regex.compile(rf"(?<=[{CJK}])\s*[\n\r]\s*(?=[{CJK}])"), lambda _: ""),
    (regex.compile(r"(?V1)[\s\p{Z}\p{Cc}]{2,}|[[\s\p{Z}\p{Cc}]--[ ]]"), lambda _: " "),
    # misaki drops the second half of [any](thing).
    (re.compile(r"\](?=\()"), lambda _: ") "),
    (re.compile(r"[\[\]]"), lambda match: "(" if match[0] == "[" else ")"),
)
_CLEAN = re.compile(r"(?:[!-Z\\^-~]| (?! ))*")  # most English: none of the changes would find anything


@dataclass(frozen=True, slots=True)
class Given:
    """A word whose phonemes are given, by the text itself or by the lexicon."""

    word: Traced
    phonemes: str


Part = Traced | Given


def check(text: str) -> None:
    """Raises InvalidInput if a pronunciation in `text` has phonemes that the model does not know."""
    for match in INLINE.finditer(text):
        if vocab.unknown(match["phonemes"]):
            raise InvalidInput(
                f"{match[0][:80]!r} at character {match.start()}: {named_unknown(match['phonemes'])}", field="text"
            )


def named_unknown(phonemes: str) -> str:
    """Says which of `phonemes` the model does not know."""
    names = ", ".join(f"{character!r} (U+{ord(character):04X})" for character in sorted(vocab.unknown(phonemes))[:10])
    return f"not phonemes of the model: {names}; known are {''.join(vocab.ids())}"


def parts(text: str, start: int = 0) -> Iterator[Part]:
    """`text`, which stands at `start` in the original, cleaned, and the pronunciations in it. None is empty."""
    end = 0
    for match in INLINE.finditer(text):
        yield from _plain(text, start, end, match.start())
        word = Traced.of(match["word"], start + match.start("word")).strip()
        cleaned = clean(word).strip()
        yield Given(cleaned if cleaned.text else word, match["phonemes"])
        end = match.end()
    yield from _plain(text, start, end, len(text))


def _plain(text: str, offset: int, start: int, end: int) -> Iterator[Traced]:
    cleaned = clean(Traced.of(text[start:end], offset + start))
    if cleaned.text:
        yield cleaned


def clean(text: Traced) -> Traced:
    """Without what is not seen or not said; every run of white space is one space."""
    if not _CLEAN.fullmatch(text.text):
        for pattern, replacement in _CLEANING:
            text = text.sub(pattern, replacement)
    return text
