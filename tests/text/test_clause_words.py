"""Clauses that begin without a mark, and the cuts before them."""

from __future__ import annotations

import pytest

from kokoro_server import languages
from kokoro_server.languages import Language
from kokoro_server.text.clause_words import clause_words
from kokoro_server.text.pace import Pace
from kokoro_server.text.pieces import Piece, PieceSizes
from kokoro_server.text.reader import Reader
from tests.text.fake_g2p import FakeG2P


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("we went home because it rained", ["because"]),
        ("he sat down and then he told us a story", ["and"]),
        ("bread and butter or milk and honey", []),
        ("the box in which it came was empty", []),
        ("she stayed for a while and left", []),
        ("nobody knew who had called", []),
        ("Although it rained", []),  # a sentence begins there in any case
        ("the man WHO called was late", ["WHO"]),
    ],
)
def test_english_words_that_begin_a_clause(text: str, starts: list[str]) -> None:
    table = clause_words(languages.EN_GB)
    assert table is not None
    words = text.split()
    assert [words[index] for index in table.starts(words)] == starts


def test_other_languages_have_no_table_yet() -> None:
    assert clause_words(languages.ES) is clause_words(None) is None


async def pieces(text: str, language: Language = languages.EN_US, factor: float = 0.4) -> list[str]:
    reader = Reader(FakeG2P(), PieceSizes(), pace=lambda: Pace(factor))
    items = [item async for item in reader.pieces(text, language, cutting="stream")]
    return [text[item.start : item.end] for item in items if isinstance(item, Piece)]


async def test_a_long_sentence_is_cut_before_such_a_word() -> None:
    head, tail = "The old man sat down on the bench", "because his legs were tired from it."
    assert await pieces(f"{head} {tail}") == [head, tail]


@pytest.mark.parametrize(
    "text",
    [
        "He sat down because of it.",  # short
        "The old man by the river who had seen it.",  # one clause is short
        "The old man sat down on the bench beside all of his tired friends.",
        "The red box in which the old letters came was as empty as before.",
    ],
)
async def test_other_sentences_stay_whole(text: str) -> None:
    assert await pieces(text) == [text]


async def test_a_mark_before_the_word_is_the_cut() -> None:
    head, tail = "The old man sat down on the bench,", "because his legs were tired from it."
    assert await pieces(f"{head} {tail}") == [head, tail]
