from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_server.text.traced import Traced


def test_what_replaces_a_word_stands_for_all_of_it() -> None:
    text = Traced.of("say nginx now", 100).sub(re.compile("nginx"), lambda _: "engine x")
    assert text.text == "say engine x now"
    assert text.origin(4, 10) == text.origin(11, 12) == (104, 109)
    assert text.origin(13, 16) == (110, 113)


def test_replacements_of_the_same_length_keep_each_character() -> None:
    text = Traced.of("[a]").sub(re.compile(r"[\[\]]"), lambda match: "(" if match[0] == "[" else ")")
    assert (text.text, text.origin(2, 3)) == ("(a)", (2, 3))


@settings(deadline=None)
@given(st.text(alphabet="ab \n", max_size=40), st.sampled_from(["", " ", "xyz"]))
def test_characters_that_stay_know_where_they_were(original: str, replacement: str) -> None:
    text = Traced.of(original).sub(re.compile(r"\s+"), lambda _: replacement).strip()
    for index, character in enumerate(text.text):
        start, end = text.origin(index, index + 1)
        assert original[start:end] == character or original[start:end].isspace()
    assert list(text.starts) == sorted(text.starts)
