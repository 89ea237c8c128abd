"""What holds for every text: claims are in order, say words only, and leave no digit and no sign behind."""

from __future__ import annotations

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kokoro_server.languages import EN_GB, EN_US, ENGLISH, LANGUAGES, Language
from kokoro_server.text.spoken import apply, claims
from kokoro_server.text.traced import Traced
from tests.text.spoken.readings import FILES, load

CASES = [case.text for case in load(*FILES)]
GLUE = [*"-–/.:*_()[] ", "\n", " - ", "", "|", "$", "'"]
# All that may be said, and all that may be passed on: no digit, no sign.
WORDS = regex.compile(r"[\p{L}\p{M}'’.,;:!?…—\- ]*")
PASSED_ON = regex.compile(r"[\p{L}\p{M}\p{Z}\p{Cc}\p{Cf}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}]*")
RAW = regex.compile(r"[&@#%/\\*_§¶†‡•\p{N}\p{S}]")
glued = st.lists(st.tuples(st.sampled_from(CASES), st.sampled_from(GLUE)), min_size=1, max_size=4).map(
    lambda parts: "".join(text + glue for text, glue in parts)
)
signs = st.text("0123456789.,:/-–$€%°'\"kmMx×²½#@&+=<>()[]*_~^|\\ aIVXpPst\n", max_size=40)


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
    assert PASSED_ON.fullmatch(spoken.text)
    assert len(spoken.starts) == len(spoken.ends) == len(spoken.text)
    assert list(spoken.starts) == sorted(spoken.starts)
    assert list(spoken.ends) == sorted(spoken.ends)


@pytest.mark.parametrize("language", ENGLISH, ids=lambda language: language.code)
def test_every_case(language: Language) -> None:
    for text in CASES:
        check(text, language)


@settings(deadline=None)
@given(glued)
@example("2024-03-05–2024-03-06/10:30")
def test_cases_glued_together(text: str) -> None:
    check(text, EN_US)


@settings(deadline=None)
@given(signs)
def test_digits_and_signs_in_any_order(text: str) -> None:
    check(text, EN_GB)


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text(text: str) -> None:
    check(text, EN_US)


def test_plain_text_is_left_alone() -> None:
    text = "It was late, and nobody spoke. “Why?” she asked; then - after a while - he laughed…"
    assert claims(text, EN_US) == []
    assert apply([], Traced.of(text)).text == text


def test_what_is_untouchable_is_not_claimed() -> None:
    assert [claim.start for claim in claims("5 [5](/fˈIv/) 5", EN_US, untouchable=[(2, 13)])] == [0, 14]


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.code)
def test_every_number_sign_of_unicode_can_be_met(language: Language) -> None:
    """`regex` may know a newer Unicode than Python does."""
    signs = regex.findall(r"[\p{N}\p{Pc}]", "".join(map(chr, range(0x110000))))
    text = " ".join(signs)
    claimed = {place for claim in claims(text, language) for place in range(claim.start, claim.end)}
    assert [sign for place, sign in enumerate(text) if sign != " " and place not in claimed] == []


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.code)
@pytest.mark.parametrize("form", ["{}", "${}", "{}%", "{} km", "-{}", "{}.5", "1/{}", "{}-{}", "{} €"])
def test_no_number_is_too_long(language: Language, form: str) -> None:
    """Python makes an int of at most 4,300 digits."""
    assert claims(form.format("9" * 4400, "9" * 4400), language)
