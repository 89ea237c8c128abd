"""The other languages, through the real service."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kokoro_server.g2p.phoneme_map import model_symbols
from kokoro_server.languages import LANGUAGES

GREETINGS = {
    "en-US": "Good morning, how are you? I have 23 apples (really).",
    "en-GB": "Good morning, how are you? I have 23 apples (really).",
    "es": "¿Dónde está la biblioteca? ¡El niño comió 23 manzanas! «Vergüenza», dijo.",
    "fr-FR": "Bonjour, comment ça va ? L'œuf, le cœur, le garçon et 71 pommes à 15h30.",
    "hi": "नमस्ते, आप कैसे हैं? लड़का पढ़ता है। मैं 2024 में दिल्ली में हूँ।",
    "it": "Buongiorno, come stai? Gli gnocchi sono buoni alle 20:30; perché no!",
    "pt-BR": "Olá, tudo bem? O coração da mãe é grande; as lições são difíceis.",
    "ja": "「こんにちは」、世界。【重要】2024年に引っ越しました（笑）。時々、コーヒーを飲む～！",
    "zh": "你好，世界！他说：“好的”（真的吗？）。我在2024年去了北京，女儿喜欢《红楼梦》。",
}


def convert(http: httpx.Client, text: str, lang: str) -> dict[str, Any]:
    response = http.post("/convert", json={"text": text, "lang": lang})
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.code)
def test_every_language_gives_phonemes_the_model_knows(http: httpx.Client, language: Any) -> None:
    result = convert(http, GREETINGS[language.code], language.code)
    assert len(result["phonemes"]) > len(GREETINGS[language.code]) // 2
    assert model_symbols().issuperset(result["phonemes"])
    assert result["dropped"] == []
    assert result["lang"] == language.code
    assert "".join(token["phonemes"] + token["whitespace"] for token in result["tokens"]) == result["phonemes"]


@pytest.mark.parametrize(
    ("lang", "text", "words"),
    [
        ("es", "3,50", "tres coma cincuenta"),
        ("es", "1.000 personas", "mil personas"),
        ("it", "1.234 euro", "1234 euro"),
        ("pt-BR", "2,5", "2 vírgula 5"),
        ("hi", "1,40,000", "140000"),
        ("hi", "3.5", "3 दशमलव 5"),
        ("fr-FR", "à 20:30", "à 20 30"),
        ("ja", "1,500円", "1500円"),
        ("ja", "気温は-5度", "気温は マイナス5度"),
        ("ja", "50％", "50パーセント"),
        ("ja", "3.14", "3点1 4"),
        ("ja", "さんびゃくえん", "三百円"),
        ("ja", "ろっぴゃく", "六百"),
        ("ja", "ごがつはつかです", "五月二十日です"),
        ("ja", "じゅうはっこ", "じゅうハッコ"),
        ("zh", "１０:３０", "10点30分"),
        ("zh", "2024-05-06", "2024年5月6日"),
        ("zh", "气温-5度", "气温负5度"),
    ],
)
def test_numbers_are_read_whole(http: httpx.Client, lang: str, text: str, words: str) -> None:
    assert convert(http, text, lang)["phonemes"] == convert(http, words, lang)["phonemes"]


@pytest.mark.parametrize(("lang", "text"), [("ja", "これはPythonです"), ("zh", "我喜欢Python和ＡＩ")])
def test_latin_words_are_read_as_english(http: httpx.Client, lang: str, text: str) -> None:
    result = convert(http, text, lang)
    assert f" {convert(http, 'Python', 'en-US')['phonemes']} " in result["phonemes"]
    assert result["dropped"] == []


@pytest.mark.parametrize("lang", ["ja", "zh"])
def test_a_latin_word_with_an_accent_is_one_word(http: httpx.Client, lang: str) -> None:
    assert convert(http, "café", lang)["phonemes"] == convert(http, "café", "en-US")["phonemes"]


def test_a_danda_ends_a_sentence(http: httpx.Client) -> None:
    assert convert(http, "नमस्ते। नमस्ते।", "hi")["phonemes"] == "nəmˈʌsteː. nəmˈʌsteː."


def test_no_full_stop_within_a_word(http: httpx.Client) -> None:
    assert convert(http, "लड़का", "hi")["phonemes"] == "lˈʌɽkˌaː"


@pytest.mark.parametrize(("lang", "text", "lost"), [("zh", "你好𠀀", "𠀀"), ("ja", "笑顔😀", "😀")])
def test_what_cannot_be_spoken_is_reported(http: httpx.Client, lang: str, text: str, lost: str) -> None:
    result = convert(http, text, lang)
    assert result["dropped"] == [lost]
    assert result["phonemes"]


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.code)
@pytest.mark.parametrize(
    "text", ["...", "—", "😀", "\x00a\x00b", "¿", "?!", "a\nb", "(", "[]", "\u200b", "「」", "1", "£"]
)
def test_odd_texts_are_answered(http: httpx.Client, language: Any, text: str) -> None:
    assert model_symbols().issuperset(convert(http, text, language.code)["phonemes"])


@pytest.mark.parametrize(
    ("lang", "text", "fewest"),
    [("en-US", "x" * 1000, 3000), ("es", "x" * 1000, 1000), ("ja", "日本" * 500, 2000), ("zh", "你好" * 500, 3000)],
)
def test_a_text_without_a_space_in_it_is_spoken_to_the_end(
    http: httpx.Client, lang: str, text: str, fewest: int
) -> None:
    assert len(convert(http, text, lang)["phonemes"]) > fewest


@pytest.mark.parametrize("lang", ["ja", "zh"])
@pytest.mark.parametrize("sign", ["①", "Ⅷ", "½", "²", "！", "!?", "…"])
def test_long_runs_of_number_signs_and_marks_are_read(http: httpx.Client, lang: str, sign: str) -> None:
    """Their time grew with the cube of the length, or it failed on a number of 800 digits."""
    assert convert(http, "你" + sign * (700 // len(sign)), lang)["phonemes"]


def test_number_signs_in_japanese(http: httpx.Client) -> None:
    assert convert(http, "①番", "ja") == convert(http, "1番", "ja")
