"""G2P for a model below MODELS_PATH: its languages, read as its `model.toml` says, in its own symbols."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from kokoro_server.assets.models.card import CardLanguage
from kokoro_server.assets.models.folder import ModelFolder
from kokoro_server.engine.vocab import ModelVocabulary
from kokoro_server.errors import Unspeakable
from kokoro_server.g2p import variants
from kokoro_server.g2p.client import G2PClient
from kokoro_server.g2p.phoneme_map import to_symbols_of
from kokoro_server.g2p.result import G2PResult
from kokoro_server.languages import Language

_NAMED = 10  # phonemes or letters at most in a message


class ModelG2P:
    """A `text.reader.G2P`. A phoneme that the model has no symbol for is an error, not left out."""

    def __init__(self, client: G2PClient, model: ModelFolder, vocabulary: ModelVocabulary) -> None:
        self._client = client
        self._name = model.name
        self._vocabulary = vocabulary
        self._languages = {each.language: each for each in model.card.languages}

    async def convert(self, texts: Sequence[str], language: Language, *, bulk: bool = False) -> list[G2PResult]:
        spoken = self._languages[language]
        if spoken.g2p == "table":
            return [self._by_table(text, spoken) for text in texts]
        read = await self._client.convert(texts, _service_language(spoken), bulk=bulk)
        return [self._in_own_symbols(result, spoken) for result in read]

    def _by_table(self, text: str, spoken: CardLanguage) -> G2PResult:
        written = text.lower()
        unread = _pattern(tuple(spoken.letters)).sub("", written)
        if letters := "".join(dict.fromkeys(each for each in unread if each.isalnum())):
            raise Unspeakable(
                f"the table of [languages.{spoken.language.code}] in the model.toml of {self._name} has no entry for "
                f"{letters[:_NAMED]!r}; write the words in another way, or add it to `letters`",
                field="text",
            )
        return self._in_own_symbols(G2PResult(_replaced(written, spoken.letters)), spoken)

    def _in_own_symbols(self, result: G2PResult, spoken: CardLanguage) -> G2PResult:
        phonemes, tokens = self._own(result.phonemes, spoken), None
        if result.tokens is not None:
            tokens = tuple(token._replace(phonemes=self._own(token.phonemes, spoken)) for token in result.tokens)
            if "".join(token.phonemes + token.whitespace for token in tokens).rstrip() != phonemes.rstrip():
                tokens = None
        return replace(result, phonemes=phonemes, tokens=tokens)

    def _own(self, phonemes: str, spoken: CardLanguage) -> str:
        own, dropped = to_symbols_of(self._vocabulary, _replaced(phonemes, spoken.symbols))
        if dropped:
            named = ", ".join(f"{each!r} (U+{ord(each):04X})" for each in dropped[:_NAMED])
            raise Unspeakable(
                f"the model {self._name} has no symbols for these sounds of the text: {named}; write the words in "
                f"another way, or let [languages.{spoken.language.code}] of its model.toml replace them by `symbols`",
                field="text",
            )
        return own


def _service_language(spoken: CardLanguage) -> Language:
    if spoken.g2p == "espeak":
        return variants.by_espeak(spoken.language)
    return variants.ZH_1_1 if spoken.g2p == "misaki-1.1" else spoken.language


def _replaced(text: str, table: Mapping[str, str]) -> str:
    """`text` with the longest keys that fit replaced; the rest is left as it is."""
    if not table:
        return text
    return _pattern(tuple(table)).sub(lambda match: table[match[0]], text)


@cache
def _pattern(keys: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(keys, key=len, reverse=True))))
