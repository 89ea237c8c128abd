"""English through the real service."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kokoro_server.g2p.phoneme_map import model_symbols

SENTENCES = [
    "Hello, world!",
    "In 2024, 1,234,567.89 people ate 3.14 pies; 21st, 100th, the 1990s, .5 and -5.",
    "The meeting is at 3:05pm on 12/25/2024, or 10:30 a.m., 14:00, 7:00 PM (2024-05-06).",
    "Dr. Smith paid $3.50, £20, €5.99 and ¥500; $1.5 million.",
    "NASA, U.S.A., e.g., i.e., etc., vs. Mr. Jones Jr., St. James's, No. 5.",
    "She said “hello” and ‘bye’ — it's rock ’n’ roll… \"plain\" 'single' «angled»",
    "Visit https://www.example.com/path?x=1&y=2#top or example.org now.",
    "Mail foo.bar+baz@example.com today.",
    "A state-of-the-art, well-known mother-in-law; 1-2, 1–2, 10-20.",
    "Line one\nline two\n\nline three\r\nline four\ttab",
    "two  spaces   here, non-breaking\u00a0space, zero\u200bwidth, soft\u00adhyphen",
    "café naïve résumé Zürich Ångström ﬁne e\u0301",
    "AT&T uses C++, C# and F#; 2+2=4, x^2 < y > z ~ 3 * 4, 50% off, -5°C, 72 °F, ½ cup.",
    "日本 Москва Ελλάδα 한국 สวัสดี שלום ＡＢＣ１２３ ① 😀 ❤️ → • © ™ № § ❓",
    "iPhone 15, GPT-4o, COVID-19, 5G, H2O, B2B, qwrtz xkcd zzzyx Nguyen.",
    "A (parenthetical) [bracketed] {braced} <tag> `code` *bold* _under_ ~~x~~ | \\ /",
    "[Kokoro](/kˈOkəɹO/) is [great](+1) and [this](-1) is [3:05pm](/nˈW/) at 3:05pm.",
    "Yes!!! What?! No... hmm; well: a/b, and/or.",
    "...",
    "—",
    "x" * 200 + " and " + "a-1" * 70 + " end",
]


def convert(http: httpx.Client, text: str, lang: str = "en-US") -> dict[str, Any]:
    response = http.post("/convert", json={"text": text, "lang": lang})
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


@pytest.mark.parametrize("lang", ["en-US", "en-GB"])
@pytest.mark.parametrize("text", SENTENCES)
def test_tokens_make_up_the_text_and_the_phonemes(http: httpx.Client, text: str, lang: str) -> None:
    result = convert(http, text, lang)
    tokens = result["tokens"]
    if "](" not in text:
        assert "".join(token["text"] + token["whitespace"] for token in tokens) == text
    assert "".join(token["phonemes"] + token["whitespace"] for token in tokens) == result["phonemes"]
    assert model_symbols().issuperset(result["phonemes"])
    assert result["dropped"] == []


@pytest.mark.parametrize("text", SENTENCES)
def test_whatever_has_a_letter_or_a_digit_is_spoken(http: httpx.Client, text: str) -> None:
    for token in convert(http, text)["tokens"]:
        if any(character.isalnum() for character in token["text"]):
            assert any(character.isalpha() for character in token["phonemes"]), token


def test_phonemes_in_the_text_are_used_as_they_are(http: httpx.Client) -> None:
    tokens = convert(http, "I am [Kokoro](/kˈOkəɹO/).")["tokens"]
    assert tokens[2] == {"text": "Kokoro", "whitespace": "", "phonemes": "kˈOkəɹO"}


def test_phonemes_in_the_text_stay_with_their_word_after_a_range(http: httpx.Client) -> None:
    tokens = convert(http, "From 40–60 to [Kokoro](/kˈOkəɹO/) and [New York](/nˌu jˈɔɹk/) it is.")["tokens"]
    sounds = {token["text"]: token["phonemes"] for token in tokens}
    assert (sounds["Kokoro"], sounds["New York"]) == ("kˈOkəɹO", "nˌu jˈɔɹk")
    assert [token["text"] for token in tokens][-3:] == ["it", "is", "."]


def test_phonemes_in_the_text_can_be_for_a_part_of_a_word(http: httpx.Client) -> None:
    tokens = convert(http, "un[do](/du/)ing")["tokens"]
    assert "".join(token["text"] for token in tokens) == "undoing"
    assert "du" in [token["phonemes"] for token in tokens]


def test_phonemes_in_the_text_that_the_model_does_not_know_are_reported(http: httpx.Client) -> None:
    result = convert(http, "[x](/aↂb/)")
    assert (result["phonemes"], result["dropped"]) == ("ab", ["ↂ"])


def test_british_is_not_american(http: httpx.Client) -> None:
    assert convert(http, "water", "en-US")["phonemes"] == "wˈɔTəɹ"
    assert convert(http, "water", "en-GB")["phonemes"] == "wˈɔːtə"
