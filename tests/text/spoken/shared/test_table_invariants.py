"""What holds for every text in the languages that have a table; `../test_invariants.py` has the same for English."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_server.languages import ES, FR, HI, IT, PT_BR, Language
from kokoro_server.text.spoken import apply, claims
from kokoro_server.text.traced import Traced

LANGUAGES = (ES, FR, HI, IT, PT_BR)
TEXTS = [
    case["text"]
    for path in sorted(Path(__file__).parent.glob("cases_*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))
]
GLUE = [*"-–/.:*_()[] ", "\n", " - ", "", "|", "$", "'", "€", "R$ ", "%"]
# All that may be said, and all that may be passed on: no digit, no sign.
WORDS = regex.compile(r"[\p{L}\p{M}'’.,;:!?…—\-। ]*")
RAW = regex.compile(r"[&@#%/\\*_§¶†‡•\p{N}\p{S}]")
SPOKEN = regex.compile(r"[\p{L}\p{N}\p{S}&%@#/\\*§¶†]")
glued = st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from(GLUE)), min_size=1, max_size=4).map(
    lambda parts: "".join(text + glue for text, glue in parts)
)
signs = st.text("0123456789१९.,:/-–$€£₹R%°ºª'\"khmMx×²½#@&+=<>()[]*_~^|\\ aeIVXpst\n", max_size=40)
languages = st.sampled_from(LANGUAGES)


def check(text: str, language: Language) -> None:
    found, end = claims(text, language), 0
    for claim in found:
        assert end <= claim.start < claim.end <= len(text)
        assert WORDS.fullmatch(claim.words), claim
        assert claim.rule
        end = claim.end
    spoken = apply(found, Traced.of(text))
    left = RAW.search(spoken.text)
    assert not left, (left, spoken.text, found)
    assert len(spoken.starts) == len(spoken.ends) == len(spoken.text)
    assert list(spoken.starts) == sorted(spoken.starts)
    assert list(spoken.ends) == sorted(spoken.ends)
    claimed = [(claim.start, claim.end) for claim in found]
    passed = set(spoken.starts)
    for match in SPOKEN.finditer(text):
        at = match.start()
        assert at in passed or any(start <= at < stop for start, stop in claimed), (match, spoken.text)


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.code)
def test_every_case_in_every_language(language: Language) -> None:
    for text in TEXTS:
        check(text, language)


@settings(deadline=None)
@given(glued, languages)
def test_cases_glued_together(text: str, language: Language) -> None:
    check(text, language)


@settings(deadline=None)
@given(signs, languages)
def test_digits_and_signs_in_any_order(text: str, language: Language) -> None:
    check(text, language)


@settings(deadline=None)
@given(st.text(max_size=30), languages)
def test_any_text(text: str, language: Language) -> None:
    check(text, language)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Era tarde, y nadie hablaba. «¿Por qué?», dijo ella; luego - tras un rato - él rio…", ES),
        ("Il était tard, et personne ne parlait. « Pourquoi ? » dit-elle ; puis - enfin - il rit…", FR),
        ("Era tardi, e nessuno parlava. «Perché?» disse lei; poi - dopo un po' - lui rise…", IT),
        ("Era tarde, e ninguém falava. “Por quê?”, disse ela; depois - enfim - ele riu…", PT_BR),
        ("देर हो चुकी थी, और कोई नहीं बोला। “क्यों?” उसने पूछा; फिर - कुछ देर बाद - वह हँसा…", HI),
    ],
)
def test_plain_text_is_left_alone(text: str, language: Language) -> None:
    assert claims(text, language) == []
