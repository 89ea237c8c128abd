"""Every word that a table can say has a sound through the real G2P."""

from __future__ import annotations

import pytest
import regex

from kokoro_server import languages
from kokoro_server.g2p.service import phonemizers
from kokoro_server.languages import Language
from kokoro_server.text.spoken import french, hindi, italian, portuguese, spanish
from kokoro_server.text.spoken.shared.table import LanguageTable

TABLES = {
    languages.ES: spanish.TABLE,
    languages.FR: french.TABLE,
    languages.HI: hindi.TABLE,
    languages.IT: italian.TABLE,
    languages.PT_BR: portuguese.TABLE,
}
NUMBERS = [*range(100), *range(100, 1000, 100), 1_000, 1_000_000, 2_000_000]


def words(table: LanguageTable) -> set[str]:
    said = [table.count(number, "") for number in NUMBERS]
    said += [table.ordinal(number, "º", "") for number in range(1, 31)]
    vocabulary = table.words
    said += [name for noun in vocabulary.units.values() for name in noun]
    said += [name for currency in vocabulary.currencies.values() for name in currency.unit]
    said += vocabulary.months
    for entries in (
        vocabulary.signs,
        vocabulary.address_marks,
        vocabulary.titles,
        vocabulary.before_numbers,
        vocabulary.abbreviations,
        vocabulary.rates,
    ):
        said += entries.values()
    return {word for each in said for word in each.split()}


@pytest.mark.parametrize("language", TABLES, ids=lambda language: language.code)
def test_every_word_is_heard(language: Language) -> None:
    phonemizer = phonemizers.load(language)
    assert [
        word for word in sorted(words(TABLES[language])) if not regex.search(r"\p{L}", phonemizer(word).phonemes)
    ] == []
