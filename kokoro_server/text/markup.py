"""Prepares text for G2P: takes out the pronunciations in it and removes what would confuse G2P.

`[Kokoro](/kˈOkəɹO/)` in a text gives the phonemes of a word. Markup that is not of this form is plain text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import regex

from kokoro_server.engine import vocab
from kokoro_server.engine.vocab import ModelVocabulary
from kokoro_server.errors import InvalidInput
from kokoro_server.text.traced import Traced

# The lengths are bounded so that markup always fits in a sentence. The model can say at most 510 phonemes at once.
PRONUNCIATION_MARKUP = re.compile(r"\[(?P<word>(?=\s*[^\[\]\s])[^\[\]\n]{1,200})\]\(/(?P<phonemes>[^()\n]{1,510})/\)")
CJK = r"\p{Han}\p{Hiragana}\p{Katakana}ー"
# G2P has a sound for these: everything but spaces, controls and marks that are only heard as a pause.
SPEAKABLE = regex.compile(r"[\p{L}\p{M}\p{N}\p{S}&%@#/\\*§¶†]")

_EMOJI = r"[[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}]--[©®™‼⁉ℹ]]"
_Substitution = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]
_CLEANUPS: tuple[_Substitution, ...] = (
    # Joiners matter between Devanagari letters. U+20E3 is the key drawn around a digit.
    (
        regex.compile(r"(?V1)[\p{Cf}--[\u200c\u200d]]|(?<!\p{Devanagari})[\u200c\u200d]|[\ufe0e\ufe0f\u20e3]"),
        lambda _: "",
    ),
    # espeak would read out an emoji's name.
    # The look-behinds keep a long run of spaces or emojis from being tried at each of them.
    (regex.compile(rf"(?V1)(?:(?<!\s)\s++|(?<![\s{_EMOJI}])){_EMOJI}++(?=[\s.,;:!?…)]|\Z)"), lambda _: ""),
    (regex.compile(rf"(?V1){_EMOJI}+"), lambda _: " "),
    (regex.compile(r"[^\s\p{M}]\p{M}+"), lambda match: unicodedata.normalize("NFC", match[0])),
    # A line that is wrapped between two CJK characters. Between other letters a line break is a space.
    (regex.compile(rf"(?<=[{CJK}])\s*[\n\r]\s*(?=[{CJK}])"), lambda _: ""),
    (regex.compile(r"(?V1)[\s\p{Z}\p{Cc}]{2,}|[[\s\p{Z}\p{Cc}]--[ ]]"), lambda _: " "),
    # misaki drops the second half of [any](thing).
    (re.compile(r"\](?=\()"), lambda _: ") "),
    (re.compile(r"[\[\]]"), lambda match: "(" if match[0] == "[" else ")"),
)
_ALREADY_CLEAN = re.compile(r"(?:[!-Z\\^-~]| (?! ))*")  # most English: no cleanup would change it


@dataclass(frozen=True, slots=True)
class Pronunciation:
    """A word whose phonemes the user has given, in the text itself or in the lexicon."""

    word: Traced
    phonemes: str


Part = Traced | Pronunciation


def check_pronunciations(
    text: str, origin: Sequence[int] | None = None, vocabulary: ModelVocabulary | None = None
) -> None:
    """Raises InvalidInput if a pronunciation in `text` has phonemes that the model does not know.

    Its place is that in the text, or the one that `origin` has for each character.
    """
    known = vocabulary or vocab.built_in()
    for match in PRONUNCIATION_MARKUP.finditer(text):
        if known.unknown(match["phonemes"]):
            place = origin[match.start()] if origin else match.start()
            raise InvalidInput(
                f"{match[0][:80]!r} at character {place}: {describe_unknown(match['phonemes'], known)}", field="text"
            )


def describe_unknown(phonemes: str, vocabulary: ModelVocabulary | None = None) -> str:
    """A message that names those of `phonemes` that the model does not know."""
    known = vocabulary or vocab.built_in()
    names = ", ".join(f"{character!r} (U+{ord(character):04X})" for character in sorted(known.unknown(phonemes))[:10])
    return f"not phonemes of the model: {names}; known are {''.join(known.ids)}"


def split_pronunciations(
    text: str, start: int = 0, read: Callable[[Traced], Traced] = lambda text: text
) -> Iterator[Part]:
    """The cleaned `text` and the pronunciations in it, in order, none empty. `start` is its offset in the original.

    `read` puts into words what stands between the pronunciations.
    """
    end = 0
    for match in PRONUNCIATION_MARKUP.finditer(text):
        yield from _plain(text, start, end, match.start(), read)
        word = Traced.of(match["word"], start + match.start("word")).strip()
        cleaned = clean(word).strip()
        yield Pronunciation(cleaned if cleaned.text else word, match["phonemes"])
        end = match.end()
    yield from _plain(text, start, end, len(text), read)


def _plain(text: str, offset: int, start: int, end: int, read: Callable[[Traced], Traced]) -> Iterator[Traced]:
    if start < end:
        cleaned = clean(read(Traced.of(text[start:end], offset + start)))
        if cleaned.text:
            yield cleaned


def clean(text: Traced) -> Traced:
    """`text` without characters that are invisible or not spoken; every run of white space becomes one space."""
    if not _ALREADY_CLEAN.fullmatch(text.text):
        for pattern, replacement in _CLEANUPS:
            text = text.sub(pattern, replacement)
    return text
