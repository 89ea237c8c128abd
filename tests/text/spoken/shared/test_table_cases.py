"""Written text of five languages and how a person says it. One case a line; only the letters count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import regex

from kokoro_server.languages import ES, FR, HI, IT, PT_BR, Language, parse
from kokoro_server.text.spoken import claims, speak

LANGUAGES = (ES, FR, HI, IT, PT_BR)
CASES = {
    path.stem.removeprefix("cases_"): json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(Path(__file__).parent.glob("cases_*.json"))
}


def bare(text: str) -> str:
    """Only the letters, with the signs that are a part of them in Hindi."""
    return regex.sub(r"[^\p{L}\p{M}]", "", text.lower())


def kinds() -> list[Any]:
    return [(code, kind) for code, cases in CASES.items() for kind in dict.fromkeys(case["kind"] for case in cases)]


@pytest.mark.parametrize(("code", "kind"), kinds())
def test_is_said_as_a_person_would(code: str, kind: str) -> None:
    wrong = []
    for case in CASES[code]:
        if case["kind"] == kind:
            said = speak(case["text"], parse(code))
            if bare(said) not in map(bare, case["say"]):
                wrong.append((case["text"], said, case["say"]))
    assert not wrong


def test_a_range_has_a_claim_for_each_of_its_words() -> None:
    text = "De 10–20 km."
    found = [(text[claim.start : claim.end], claim.words) for claim in claims(text, ES)]
    assert found == [("10", "diez"), ("–", "a"), ("20", "veinte"), ("km", "kilómetros")]


@pytest.mark.parametrize(
    ("text", "language", "said"),
    [
        ("Son 5 km. Luego seguimos.", ES, "Son cinco kilómetros. Luego seguimos."),
        ("Pan, vino, etc. Luego nada.", ES, "Pan, vino, etcétera. Luego nada."),
        ("Il vient à 14h30. Puis il part.", FR, "Il vient à quatorze heures trente. Puis il part."),
        ("दूरी 5 km है। फिर चलें।", HI, "दूरी पाँच किलोमीटर है। फिर चलें।"),
    ],
)
def test_a_sentence_keeps_its_full_stop(text: str, language: Language, said: str) -> None:
    assert speak(text, language) == said


def test_a_unit_with_a_slash_can_have_a_power_and_a_divisor() -> None:
    assert speak("7 Mbit/s², 7 Mbit/s/h", FR) == "sept mégabits par seconde carrés, sept mégabits par seconde par heure"


def test_a_kind_can_be_left_out() -> None:
    assert [claim.rule for claim in claims("Son 5 km", ES, kinds=["numbers"])] == ["number"]


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.code)
def test_markdown_is_silent_by_a_named_rule(language: Language) -> None:
    found = claims("**a** `b`", language)
    assert {(claim.words, claim.rule) for claim in found} == {("", "emphasis"), ("", "code span")}


def test_words_that_end_with_a_vowel_sign_are_set_off_from_the_next() -> None:
    assert speak("₹5में", HI) == "पाँच रुपये में"
