"""Readers for models other than Kokoro v1.0. They give the phonemes as they are, as each model has its own symbols."""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from kokoro_server.errors import SetupError
from kokoro_server.g2p import variants
from kokoro_server.g2p.result import G2PResult
from kokoro_server.g2p.service import word_sounds
from kokoro_server.languages import Language

if TYPE_CHECKING:
    Reader = Callable[[str], G2PResult]

_KEPT_WORDS = 1_000  # whose phonemes a reader remembers
_LONG_WORD = re.compile(r"\S{60}(?=\S)")
_SWITCH = re.compile(r"\([a-z]{2,3}(?:-[a-z]+)*\)")  # where espeak-ng changes its language
# espeak-ng's names where they are not our codes.
_NAMES = {"fr-FR": "fr-fr", "pt-BR": "pt-br", "pt-PT": "pt", "zh": "cmn"}


def load(language: Language, english: Reader | None) -> Reader:
    if language == variants.ZH_1_1:
        return _chinese(english)
    return _espeak(language.code.removeprefix(variants.PREFIX))


def _espeak(code: str) -> Reader:
    """As misaki's EspeakG2P reads for fine-tunes. A very long word is cut, as espeak speaks only its beginning."""
    from misaki.espeak import EspeakG2P  # type: ignore[import-untyped]

    try:
        g2p = EspeakG2P(_NAMES.get(code, code))
    except RuntimeError as error:
        raise SetupError(f"espeak-ng has no voice for {code} here ({error})") from error
    g2p.backend.logger.setLevel(logging.ERROR)

    def phonemes_of(text: str) -> str:
        phonemes: str = g2p(_LONG_WORD.sub(r"\g<0> ", text))[0]
        return " ".join(_SWITCH.sub("", phonemes).split())

    alone = lru_cache(_KEPT_WORDS)(phonemes_of)

    def read(text: str) -> G2PResult:
        phonemes = phonemes_of(text)
        return G2PResult(phonemes, word_sounds.by_chunk(text, phonemes, alone))

    return read


def _chinese(english: Reader | None) -> Reader:
    """misaki's version 1.1, which writes bopomofo. Words in Latin letters are English."""
    import jieba  # type: ignore[import-untyped]

    jieba.setLogLevel(logging.WARNING)
    # By default jieba caches its tables in a file that anyone can write to, and trusts it the next time.
    with tempfile.TemporaryDirectory() as private:
        jieba.dt.tmp_dir = private
        jieba.initialize()
    from misaki.zh import ZHG2P  # type: ignore[import-untyped]

    def say(words: str) -> str:
        return english(words).phonemes if english else ""

    g2p = ZHG2P(version="1.1", unk="", en_callable=say)

    def read(text: str) -> G2PResult:
        phonemes: str = g2p(text)[0]
        return G2PResult(" ".join(phonemes.split()))

    return read
