from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_server.text.markup import PRONUNCIATION_MARKUP
from kokoro_server.text.splitter import clauses, sentences


def split(text: str, limit: int = 800) -> list[str]:
    return [span.text for span in sentences(text, limit)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Smith met Mrs. Jones. They spoke.", ["Dr. Smith met Mrs. Jones.", "They spoke."]),
        ("Pi is 3.14. Really.", ["Pi is 3.14.", "Really."]),
        ("Use it, e.g. Tuesdays, i.e. Often.", ["Use it, e.g. Tuesdays, i.e. Often."]),
        ("See www.example.com/a.b?c=d. Then go.", ["See www.example.com/a.b?c=d.", "Then go."]),
        ("J. R. R. Tolkien wrote. So it goes.", ["J. R. R. Tolkien wrote.", "So it goes."]),
        ("Look at No. 5 here. He said no. Then left.", ["Look at No. 5 here.", "He said no.", "Then left."]),
        ('"Stop!" he said. "Why?" she asked.', ['"Stop!" he said.', '"Why?" she asked.']),
        ("She left (at last.) He stayed.", ["She left (at last.)", "He stayed."]),
        ("Wait... What? Well… Yes.", ["Wait...", "What?", "Well…", "Yes."]),
        ("你好。今天天气很好！真的吗？", ["你好。", "今天天气很好！", "真的吗？"]),
        ("「こんにちは。」と言った。はい。", ["「こんにちは。」", "と言った。", "はい。"]),
        ("नमस्ते। आप कैसे हैं?", ["नमस्ते।", "आप कैसे हैं?"]),
        ("Chapter One\nIt was late.", ["Chapter One", "It was late."]),
        ("First paragraph\n\nsecond paragraph", ["First paragraph", "second paragraph"]),
        (
            "It was a long line that the editor of the text had wrapped\nAt sixty columns.",
            ["It was a long line that the editor of the text had wrapped\nAt sixty columns."],
        ),
        (
            "Say [Dr. Who](/dˈɑktəɹ hˈu/) now. [pause:1.5s] Go.",
            ["Say [Dr. Who](/dˈɑktəɹ hˈu/) now.", "[pause:1.5s] Go."],
        ),
        ("In the U.S. The law. In the U.S. Army.", ["In the U.S.", "The law.", "In the U.S. Army."]),
        ("At 5 p.m. He left. J. A. Smith stayed.", ["At 5 p.m.", "He left.", "J. A. Smith stayed."]),
        ("Smith Jr. He won. Smith Jr. III won.", ["Smith Jr.", "He won.", "Smith Jr. III won."]),
        ("1. First thing. 2. Second thing.", ["1. First thing.", "2. Second thing."]),
        ("Steps: 1. Wash. 2. Dry.", ["Steps: 1. Wash.", "2. Dry."]),
        ("It was 1990. Then came 10:30. Pi is 3.14. So.", ["It was 1990.", "Then came 10:30.", "Pi is 3.14.", "So."]),
        ("What?! No!! Yes‽ Then.", ["What?!", "No!!", "Yes‽", "Then."]),
        ("He said “Go.” She went.", ["He said “Go.”", "She went."]),
        ("Mail me@a.org. Or see a.b/c?d=e! Now.", ["Mail me@a.org.", "Or see a.b/c?d=e!", "Now."]),
        ("价格是３．５元。好．他走了。", ["价格是３．５元。", "好．", "他走了。"]),
        ("本当？！うん。", ["本当？！", "うん。"]),
        ("One line\r\nAnother\rThird\u2028Fourth", ["One line", "Another", "Third", "Fourth"]),
        (
            "- a long item of a list that goes on and on and on for a while\n- another",
            ["- a long item of a list that goes on and on and on for a while", "- another"],
        ),
        (
            "吾輩は猫である。名前はまだ無い、どこで生れたかとんと見当がつかぬ\n何でも",
            ["吾輩は猫である。", "名前はまだ無い、どこで生れたかとんと見当がつかぬ\n何でも"],
        ),
        ("   \n\t ", []),
        ("no end", ["no end"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert split(text) == expected


def test_run_on_is_broken_at_a_clause_then_between_words_then_between_graphemes() -> None:
    assert split("one two three, four five six", 20) == ["one two three,", "four five six"]
    assert split("one two three four five six", 20) == ["one two three four", "five six"]
    assert split("1,234,567,890 and 9,876,543", 20) == ["1,234,567,890 and", "9,876,543"]
    family = "👨‍👩‍👧‍👦"
    assert split(family * 5, 2 * len(family) + 3) == [family * 2, family * 2, family]


def test_run_on_is_not_broken_in_a_name_a_number_or_markup() -> None:
    assert split("They all went to see Dr. Smith yesterday", 26) == ["They all went to see", "Dr. Smith yesterday"]
    assert split("from 1990–1995 until 10:30 or so", 20) == ["from 1990–1995", "until 10:30 or so"]
    assert split("十二三四五六１２，３４５円、そして", 14) == ["十二三四五六１２，３４５円、", "そして"]
    assert split("costs 10\xa0000\xa0000 euros", 14) == ["costs", "10\xa0000\xa0000", "euros"]
    assert split("say [Dr. Who, M.](/dˈɑk hˈu/) now", 16) == ["say", "[Dr. Who, M.](/dˈɑk hˈu/)", "now"]


def test_only_the_last_span_of_a_run_on_ends_it() -> None:
    assert [span.continues for span in sentences("one two three, four five six. Seven", 20)] == [True, False, False]


@settings(deadline=None)
@given(st.text(alphabet="ab .,!?…\n。、[](/)1\u0301👍", max_size=300), st.integers(5, 60))
def test_nothing_is_lost_and_every_sentence_is_where_it_says(text: str, limit: int) -> None:
    spans = list(sentences(text, limit, offset=7))
    covered = 0
    for span in spans:
        assert text[span.start - 7 : span.end - 7] == span.text
        assert 0 < len(span.text) <= limit or PRONUNCIATION_MARKUP.fullmatch(span.text)
        assert text[covered : span.start - 7].strip() == ""
        covered = span.end - 7
    assert text[covered:].strip() == ""


@settings(deadline=None)
@given(st.text(alphabet="ab ,;:—–、，1…", max_size=60))
def test_clauses_are_all_of_a_sentence(text: str) -> None:
    assert "".join(text[start:end] for start, end in clauses(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "." * 100_000 + "a",
        " " * 100_000,
        "[a](/b/)" * 12_000,
        "[" * 100_000,
        "[a](/" * 20_000,
        "a. " * 33_000,
        ".'" * 50_000,
        "\n" * 100_000,
        "a\n" * 50_000,
        "a" * 100_000,
        "a," * 50_000,
        "e\u0301" * 50_000,
    ],
    ids=lambda text: repr(text[:6]),
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    assert sum(len(span.text) for span in sentences(text)) <= len(text)


@pytest.mark.parametrize("blank", ["\n\n", " \n \t\n", "\r\n\r\n", "\n\n\n\n", "\u2029"])
def test_a_blank_line_ends_a_paragraph_whatever_stands_before_it(blank: str) -> None:
    text = f"A heading{blank}One. Two!{blank}Three\nFour."
    found = [(span.text, span.ends_paragraph) for span in sentences(text)]
    assert found == [
        *(("A heading", True), ("One.", False), ("Two!", True)),
        *(("Three", False), ("Four.", False)),
    ]
