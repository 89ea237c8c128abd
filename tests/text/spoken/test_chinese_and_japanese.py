"""Chinese and Japanese: `cases_zh.json` and `cases_ja.json`, what holds for every text, and what it costs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_server.languages import JA, ZH, Language
from kokoro_server.text.spoken import KINDS, apply, chinese, claims, japanese, passages, speak
from kokoro_server.text.spoken.cjk import roman
from kokoro_server.text.spoken.japanese.counters import COUNTERS
from kokoro_server.text.traced import Traced
from tests.growth import is_at_most
from tests.text.spoken.test_cost import UNITS, WORST, best_cost
from tests.text.spoken.test_invariants import CASES as ENGLISH_CASES
from tests.text.spoken.test_invariants import GLUE, check

CASES = {
    language: json.loads((Path(__file__).parent / f"cases_{language.code}.json").read_text(encoding="utf-8"))
    for language in (ZH, JA)
}
TEXTS = [case["text"] for cases in CASES.values() for case in cases] + ENGLISH_CASES
both = pytest.mark.parametrize("language", CASES, ids=lambda language: language.code)
glued = st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from(GLUE)), min_size=1, max_size=4).map(
    lambda parts: "".join(text + glue for text, glue in parts)
)
signs = st.text(
    "0123456789０１２.,:/-–$€%°'\"kmMx×²½#@&+=<>()[]*_~^|\\ aIVXp\n年月日個人円点时分第〜～，：／％￥〇①Ⅲ三つ万億",
    max_size=40,
)
PLAIN = {
    ZH: "老面包师已经醒了好几个小时。他揉着面团，猫在炉边睡着了。“你迟到了，”医生说。" * 22,
    JA: "年老いたパン職人は、もう何時間も起きていた。彼は曲を口ずさみながら生地をこね、猫はそばで眠っていた。" * 18,
}
REPEATED = (
    "1年 2月 3日 第2 2~ 1万 1億 1: 1／ ￥1 10〜 1，000， ① Ⅲ 〇 ～ 電話 电话 1-1= 1分の 1/1 a1 a-1 0120- +1 =1- 人/ 1% "
    "1℃ つ （^ 以3- 比分 ： 1、"
).split()
_LONG_VOWEL = re.compile(
    "(?<=[うくすつぬふむゆるぐずぶぷゅおこそとのほもよろごぞどぼぽょ])う|(?<=[えけせてねへめれげぜでべぺ])い"
)
_HIRAGANA = {code + 0x60: code for code in range(ord("ぁ"), ord("ゔ"))}


def bare(text: str) -> str:
    """Only the letters; katakana as hiragana, with long vowels. A lone A is written `eh`."""
    letters = re.sub(r"[\W_]", "", re.sub(r"(?<![a-z])eh(?![a-z])", "a", text.lower()))
    return _LONG_VOWEL.sub("ー", letters.translate(_HIRAGANA))


@both
def test_is_said_as_a_person_would(language: Language) -> None:
    wrong = []
    for case in CASES[language]:
        said = speak(case["text"], language)
        if bare(said) not in map(bare, case["say"]):
            wrong.append((case["text"], said, case["say"]))
    assert not wrong


@both
def test_every_case_keeps_the_invariants(language: Language) -> None:
    for text in TEXTS:
        check(text, language)


@both
@settings(deadline=None)
@given(st.one_of(glued, signs, st.text(max_size=30)))
def test_any_text_keeps_the_invariants(language: Language, text: str) -> None:
    check(text, language)


@pytest.mark.parametrize("ruleset", [chinese.RULESET, japanese.RULESET])
def test_the_kinds_have_the_names_that_a_request_can_give(ruleset: chinese.Ruleset) -> None:
    assert set(ruleset.kinds) <= set(KINDS)


def test_a_range_has_a_claim_for_each_of_its_words() -> None:
    text = "12:00-13:00开放，占10-20%"
    found = [(text[claim.start : claim.end], claim.words) for claim in claims(text, ZH)]
    assert found == [
        ("12:00", "十二点"), ("-", "到"), ("13:00", "十三点"), ("10", "百分之十"), ("-", "到"), ("20%", "二十"),
    ]  # fmt: skip


def test_chinese_words_are_not_set_apart() -> None:
    """Between spaces 一个 would not be one word, and have another tone."""
    assert speak("有1个，2～3只。", ZH) == "有一个，两到三只。"


def test_every_counter_is_said_with_every_number() -> None:
    for name in COUNTERS:
        for number in (*range(1, 11), 14, 20, 300, 8000, 10_000, 123_456_789):
            assert not re.search(r"\d", speak(f"{number}{name}", JA))


def test_a_plain_text_is_left_alone_and_costs_about_a_millisecond() -> None:
    for language, text in PLAIN.items():
        assert claims(text, language) == []
        assert best_cost(text, language) < 0.01  # ten times what it takes on a slow machine


@both
@pytest.mark.parametrize("unit", [*UNITS[::3], *REPEATED])
def test_twice_the_text_costs_about_twice(language: Language, unit: str) -> None:
    claims(unit * 10, language)
    once, twice = unit * (1_000 // len(unit)), unit * (2_000 // len(unit))
    assert is_at_most(WORST, lambda: claims(once, language), lambda: claims(twice, language), harmless=0.05)


def test_a_long_text_without_a_space_is_read_in_passages() -> None:
    text = "老面包师醒了3个小时。" * 1_000
    found = list(passages(text))
    assert "".join(text[start:end] for start, end in found) == text
    assert all(2_000 <= end - start <= 2_100 and text[end - 1] == "。" for start, end in found[:-1])


def test_words_stand_for_the_text_as_written() -> None:
    text = "価格は¥500です"
    spoken = apply(claims(text, JA), Traced.of(text))
    start = spoken.text.index("ご")
    assert text[slice(*spoken.origin(start, start + 1))] == "¥500"


@pytest.mark.parametrize(("text", "number"), [("XIV", 14), ("Ⅷ", 8), ("MCMXCIV", 1994), ("IIX", None), ("VV", None)])
def test_roman_numerals(text: str, number: int | None) -> None:
    assert roman(text) == number
