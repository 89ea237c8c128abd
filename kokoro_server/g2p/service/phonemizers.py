"""Text to phonemes in each language. Loads GPL code: for the G2P service only.

No phonemizer is safe for use by two threads at once.
"""

from __future__ import annotations

import logging
import re
import tempfile
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, ClassVar

import regex

from kokoro_server import languages
from kokoro_server.g2p import variants
from kokoro_server.g2p.phoneme_map import to_model_symbols
from kokoro_server.g2p.result import G2PResult
from kokoro_server.g2p.service import stubs, word_sounds
from kokoro_server.languages import Language

Phonemizer = Callable[[str], G2PResult]
NativeReading = tuple[str, list[tuple[str, str]]]  # the phonemes of a text, and its words with theirs

_KEPT_WORDS = 5_000  # whose phonemes a reader remembers
_LATIN_WORDS = regex.compile(r"\p{Latin}+(?:[ '’&.+-]+\p{Latin}+|\d+\p{Latin}+)*")
_FULLWIDTH_TO_ASCII = {ord(wide): ord(wide) - 0xFEE0 for wide in "０１２３４５６７８９"} | {
    code: code - 0xFEE0 for code in (*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))
}
_LONG_WORD = re.compile(r"\S{60}(?=\S)")
_LONG_NUMBER = re.compile(r"\d{13,}")
_CLAUSE = re.compile(r".{1,80}?[。！？!?、，\n]{1,9}[」』）”]{0,9}|.{1,80}", re.DOTALL)
_LONG_RUN = re.compile(r"([^\w\s])\1{3,}")
_DATE = re.compile(r"(?<!\d)(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)")
_CLOCK = re.compile(r"(?<![\d:])(\d{1,2})[:：]([0-5]\d)(?![\d:])")
_MINUS = re.compile(r"(?<![A-Za-z0-9-])[-−](?=\d)")
_NUMBER_SIGNS = regex.compile(r"[\p{No}\p{Nl}]")
_THOUSANDS = re.compile(r"(?<=\d)[,，](?=\d{3}(?!\d))")


def load(language: Language, english: Phonemizer | None = None) -> Phonemizer:
    """The phonemizer of `language`, in a second or so. `english` reads the Latin words in Japanese and Chinese."""
    stubs.install()
    if language in languages.ENGLISH:
        from kokoro_server.g2p.service.english import English

        return English(british=language == languages.EN_GB)
    if language == languages.JA:
        return Japanese(english)
    if language == languages.ZH:
        return Chinese(english)
    if language == variants.ZH_1_1 or language.code.startswith(variants.PREFIX):
        from kokoro_server.g2p.service import for_models

        return for_models.load(language, english)
    return Espeak(language)


class Espeak:
    """The languages that espeak-ng speaks for Kokoro."""

    # How numbers are written: the mark between thousands, and the word for the decimal mark.
    _NUMBER_FORMATS: ClassVar = {
        languages.ES: (r"\.(?=\d{3}(?!\d))", "coma"),
        languages.FR: (r"\.(?=\d{3}(?!\d))", "virgule"),
        languages.HI: (r",(?=\d{2,3}(?!\d))", "दशमलव"),
        languages.IT: (r"\.(?=\d{3}(?!\d))", "virgola"),
        languages.PT_BR: (r"\.(?=\d{3}(?!\d))", "vírgula"),
    }

    def __init__(self, language: Language) -> None:
        from misaki.espeak import EspeakG2P  # type: ignore[import-untyped]

        thousands, self._decimal = self._NUMBER_FORMATS[language]
        self._thousands = re.compile(r"(?<=\d)" + thousands)
        self._g2p = EspeakG2P(language.code.lower())
        # espeak warns of every foreign word, although it reads it by that language's rules, as configured.
        self._g2p.backend.logger.setLevel(logging.ERROR)
        self._alone = lru_cache(_KEPT_WORDS)(lambda word: self._read(word).phonemes)

    def __call__(self, text: str) -> G2PResult:
        read = self._read(text)
        return replace(read, tokens=word_sounds.by_chunk(text, read.phonemes, self._alone))

    def _read(self, text: str) -> G2PResult:
        phonemes: str = self._g2p(self._normalize(text))[0]
        # This espeak writes ɽ, as in लड़का, as `r.`. At the full stop the model would pause within the word.
        return _to_result(phonemes.replace("r.", "ɽ"))

    def _normalize(self, text: str) -> str:
        """Puts the marks in a number in words, as espeak would not get to see them. A danda becomes a full stop.

        A very long word is cut into parts, as espeak speaks only its beginning.
        """
        text = _LONG_WORD.sub(r"\g<0> ", text)
        text = self._thousands.sub("", text)
        text = re.sub(r"(?<=\d)[.,](?=\d)", f" {self._decimal} ", text)
        text = _CLOCK.sub(r"\1 \2", text)
        return text.replace("।", ".").replace("॥", ".")


class Japanese:
    """misaki's default for Japanese (`cutlet`), with unidic-lite, whose dictionary comes in the package."""

    _SIGNS: ClassVar = {
        "%": "パーセント",
        "％": "パーセント",
        "℃": "度",
        "°C": "度",
        "~": "〜",
        "&": "アンド",
        "＆": "アンド",
    }
    # Kana that the dictionary takes apart: it reads びや for びゃ, and は in はつか and じゅうはっこ as a particle.
    _NUMBERS = re.compile("(?:さんび|ろっぴ|はっぴ)ゃ(?:く|っ[か-ぽ])|(?<=じゅう)はっ[か-ぽ]")
    _TWENTIETH = re.compile(r"(?<=がつ)\s?はつか")
    _KATAKANA: ClassVar = {code: code + 0x60 for code in range(ord("ぁ"), ord("ゔ"))}

    def __init__(self, english: Phonemizer | None) -> None:
        self._english = english
        self._cutlet = _load_cutlet()

    def __call__(self, text: str) -> G2PResult:
        return _with_english_words(self._normalize(text), self._english, self._native)

    def _native(self, text: str) -> NativeReading:
        # Clause by clause, as cutlet's time grows with the cube of the length.
        phonemes, words = list[str](), list[tuple[str, str]]()
        for clause in _CLAUSE.findall(_LONG_RUN.sub(r"\1\1\1", text)):
            phonemes.append(self._cutlet(clause)[0])
            words += self._cutlet.words
        return " ".join(phonemes), words

    def _normalize(self, text: str) -> str:
        text = _normalize_cjk_numbers(text, minutes=r"\1時\2分", minus="マイナス")
        text = re.sub(r"(\d)\.(\d+)", lambda number: f"{number[1]}点{' '.join(number[2])}", text)
        for sign, word in self._SIGNS.items():
            text = text.replace(sign, word)
        text = self._TWENTIETH.sub("二十日", text)
        return self._NUMBERS.sub(lambda found: found[0].translate(self._KATAKANA), text)


class Chinese:
    """misaki's default for Chinese, which is what the v1.0 voices were trained on."""

    def __init__(self, english: Phonemizer | None) -> None:
        import jieba  # type: ignore[import-untyped]

        self._english = english
        jieba.setLogLevel(logging.WARNING)
        # By default jieba caches its tables in a file that anyone can write to, and trusts it the next time.
        with tempfile.TemporaryDirectory() as private:
            jieba.dt.tmp_dir = private
            jieba.initialize()
        from misaki.zh import ZHG2P  # type: ignore[import-untyped]

        self._g2p: Callable[[str], tuple[str, None]] = ZHG2P()
        self._words = list[tuple[str, str]]()
        read_word = getattr(ZHG2P.word2ipa, "__wrapped__", ZHG2P.word2ipa)

        @wraps(read_word)
        def noted(word: str) -> str:
            """misaki calls this for each word that jieba finds."""
            sound: str = read_word(word)
            self._words.append((word, sound))
            return sound

        ZHG2P.word2ipa = staticmethod(noted)

    def __call__(self, text: str) -> G2PResult:
        normalized = _normalize_cjk_numbers(text, minutes=r"\1点\2分", minus="负")
        return _with_english_words(normalized, self._english, self._native)

    def _native(self, text: str) -> NativeReading:
        self._words = []
        return self._g2p(text)[0], self._words


def _normalize_cjk_numbers(text: str, *, minutes: str, minus: str) -> str:
    text = _THOUSANDS.sub("", _NUMBER_SIGNS.sub(_plain, text.translate(_FULLWIDTH_TO_ASCII)))
    text = _LONG_NUMBER.sub(lambda number: " ".join(number[0]), text)
    text = _DATE.sub(lambda date: f"{date[1]}年{int(date[2])}月{int(date[3])}日", text)
    return _MINUS.sub(minus, _CLOCK.sub(minutes, text))


def _plain(sign: re.Match[str]) -> str:
    """① and Ⅷ in digits and letters: misaki does the same, but later, when a long number has not been taken apart."""
    return unicodedata.normalize("NFKC", sign[0])


def _with_english_words(text: str, english: Phonemizer | None, native: Callable[[str], NativeReading]) -> G2PResult:
    """`text` by `native`, except for its Latin words: their letters are not phonemes, though they look like them."""
    parts, words, end = list[str](), list[tuple[str, str]](), 0
    if english:
        for latin in _LATIN_WORDS.finditer(text):
            for phonemes, said in (_native(text[end : latin.start()], native), _english(latin[0], english)):
                parts.append(phonemes)
                words += said
            end = latin.end()
    phonemes, said = native(text) if english is None else _native(text[end:], native)
    result = _to_result(" ".join((*parts, phonemes)))
    return replace(result, tokens=word_sounds.by_sound(result.phonemes, (*words, *said)))


def _native(text: str, native: Callable[[str], NativeReading]) -> NativeReading:
    return native(text) if text.strip() else ("", [])


def _english(text: str, english: Phonemizer) -> NativeReading:
    read = english(text)
    return read.phonemes, [(token.text, token.phonemes) for token in read.tokens or ()]


def _to_result(phonemes: str) -> G2PResult:
    symbols, dropped = to_model_symbols(phonemes)
    tidy = re.sub(r" +(?=[,.!?;:)”…])|(?<=[(“]) +", "", re.sub(r" +", " ", symbols))
    return G2PResult(tidy.strip(), dropped=dropped)


def _load_cutlet() -> Any:
    import unidic_lite  # type: ignore[import-untyped]
    from fugashi import Tagger  # type: ignore[import-untyped]
    from misaki.cutlet import HEPBURN, Cutlet  # type: ignore[import-untyped]

    class UnidicLiteCutlet(Cutlet):  # type: ignore[misc]
        def __init__(self) -> None:
            """As misaki's own, except for the dictionary, which misaki expects to have been downloaded."""
            folder = Path(unidic_lite.DICDIR)
            self.tagger = Tagger(f'-r "{folder / "mecabrc"}" -d "{folder}"')
            self.table = dict(HEPBURN)
            self.exceptions: dict[str, str] = {}
            self.words: list[tuple[str, str]] = []  # of the last text, each with its phonemes
            self._surfaces: list[str] = []

        def _romaji_tokens(self, words: Any) -> Any:
            self._surfaces = []
            tokens = super()._romaji_tokens(words)
            self.words = [(text, token.surface) for text, token in zip(self._surfaces, tokens, strict=True)]
            return tokens

        def _romaji_word(self, word: Any) -> str:
            """A word that cannot be read is left as it is, to be reported, where misaki leaves it out."""
            romaji: str = super()._romaji_word(word)
            self._surfaces.append(word.surface)
            return romaji or str(word.surface)

    return UnidicLiteCutlet()
