"""Written text and how a person says it."""

from __future__ import annotations

from collections import defaultdict

import pytest

from kokoro_server import languages
from kokoro_server.languages import EN_GB, EN_US, Language
from kokoro_server.text.spoken import apply, claims, passages, speak
from kokoro_server.text.traced import Traced
from tests.text.spoken.readings import FILES, Case, bare, load

CASES = defaultdict[str, list[Case]](list)
for case in load(*FILES):
    CASES[case.kind].append(case)


@pytest.mark.parametrize("kind", CASES)
def test_is_said_as_a_person_would(kind: str) -> None:
    said = [(case, speak(case.text, languages.parse(case.language))) for case in CASES[kind]]
    assert not [(case.text, words, case.say) for case, words in said if not case.accepts(words)]


def test_a_range_has_a_claim_for_each_of_its_words() -> None:
    text = "From 3:30–4:30pm."
    found = [(text[claim.start : claim.end], claim.words) for claim in claims(text, EN_US)]
    assert found == [("3:30", "three thirty"), ("–", "to"), ("4:30pm", "four thirty P.M")]


def test_a_date_has_a_claim_for_each_of_its_words() -> None:
    text = "On Dec. 25, 2024."
    found = [(text[claim.start : claim.end], claim.words) for claim in claims(text, EN_US)]
    assert found == [("Dec.", "December"), ("25", "twenty fifth"), ("2024", "twenty twenty four")]


def test_marks_are_silent_by_a_named_rule() -> None:
    found = claims("**Hi** `you`", EN_US)
    assert {(claim.words, claim.rule) for claim in found} == {("", "emphasis"), ("", "code span")}


@pytest.mark.parametrize(
    ("code", "said"),
    [("speak", "So: x equals one. Done."), ("skip", "So: Done."), ("announce", "So: code block. Done.")],
)
def test_code_is_spoken_skipped_or_announced(code: str, said: str) -> None:
    text = "So:\n```python\nx = 1\n```\nDone."
    assert bare(apply(claims(text, EN_US, code=code), Traced.of(text)).text) == bare(said)


def test_a_kind_can_be_left_out() -> None:
    assert [claim.rule for claim in claims("It is 5 km", EN_US, kinds=["numbers"])] == ["number"]


def test_a_sentence_keeps_its_full_stop() -> None:
    assert speak("We met at 4 p.m. Then we ate.", EN_US) == "We met at four P.M. Then we ate."
    assert speak("Bring food etc. Then go.", EN_US) == "Bring food et cetera. Then go."
    assert speak("It is 5 km. Then go.", EN_GB) == "It is five kilometres. Then go."


def test_a_long_text_is_read_in_passages_that_no_rule_looks_across() -> None:
    text = "It is 5 km to the village.\n\n" * 200 + "```\n" + "x = 1\n\n" * 400 + "```\n" + "1 2 3 " * 4_000
    found = list(passages(text))
    assert "".join(text[start:end] for start, end in found) == text
    assert all(2_000 <= end - start <= 8_010 for start, end in found[:-1])
    assert text[found[0][0] : found[0][1]].endswith("village.\n\n")


@pytest.mark.parametrize(
    ("text", "language", "said"),
    [
        ("a", EN_US, "eh"),
        (" A.\n", EN_US, " eh.\n"),
        ("e", EN_US, "E"),
        ("z", EN_GB, "zed"),
        ("y", languages.ES, "i griega"),
        ("e", languages.PT_BR, "é"),
        ("b", languages.FR, "b"),
        ("a dog", EN_US, "a dog"),
        ("é", languages.FR, "é"),
    ],
)
def test_a_letter_that_is_all_of_a_text_is_read_by_its_name(text: str, language: Language, said: str) -> None:
    """Screen readers send single letters."""
    assert speak(text, language) == said


@pytest.mark.parametrize(
    ("text", "language", "said"),
    [
        (",", EN_US, "comma"),
        (" . ", EN_GB, " dot "),
        ("*", EN_US, "asterisk"),
        ("|", EN_US, "vertical bar"),
        ("_", EN_US, "underscore"),
        ("&", EN_US, "ampersand"),
        ("(", languages.FR, "parenthèse ouvrante"),
        ("?", languages.ES, "signo de interrogación"),
        ("@", languages.IT, "chiocciola"),
        ("/", languages.PT_BR, "barra"),
        ("।", languages.HI, "पूर्ण विराम"),
        ("。", languages.JA, "句点"),
        ("、", languages.ZH, "顿号"),
        ("...", EN_US, "..."),
        ("🙂", EN_US, ""),
        ("Hello, you.", EN_US, "Hello, you."),
    ],
)
def test_a_sign_that_is_all_of_a_text_is_read_by_its_name(text: str, language: Language, said: str) -> None:
    assert speak(text, language, alone=True) == said


@pytest.mark.parametrize("language", languages.LANGUAGES, ids=lambda language: language.code)
def test_every_sign_of_a_keyboard_has_a_name(language: Language) -> None:
    signs = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    assert not [sign for sign in signs if not any(map(str.isalpha, speak(sign, language, alone=True)))]
