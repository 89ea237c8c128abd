"""The language that a text is plainly written in."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from kokoro_server import languages
from kokoro_server.languages import Language
from kokoro_server.text.language_of import language_of
from kokoro_server.text.splitter import sentences

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SENTENCES: dict[str, list[str]] = tomllib.loads((HERE / "language_sentences.toml").read_text(encoding="utf-8"))
CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)


def code_of(text: str, likely: Language | None = None) -> str | None:
    found = language_of(text, likely)
    return found.code if found else None


@pytest.mark.parametrize("code", SENTENCES)
def test_sentences_are_of_their_language(code: str) -> None:
    found = {sentence: code_of(sentence) for sentence in SENTENCES[code]}
    wrong = {sentence: other for sentence, other in found.items() if other != code}
    assert len(found) >= 40
    assert len(wrong) <= 0.02 * len(found), wrong


def english_sentences() -> list[str]:
    """All English sentences of the reading tests, and of the documentation."""
    found = [case["text"] for name in ("cases", "sentences") for case in _cases(name)]
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))
        found += [span.text for span in sentences(text)]
    return found


def _cases(name: str) -> list[dict[str, str]]:
    cases: list[dict[str, str]] = json.loads((HERE / "spoken" / f"{name}.json").read_text(encoding="utf-8"))
    return cases


def test_english_is_never_taken_for_another_language() -> None:
    texts = english_sentences()
    assert len(texts) > 2_000
    wrong = {text: code for text in texts if (code := code_of(text)) not in (None, "en-US")}
    assert wrong == {}


@pytest.mark.parametrize(
    "text",
    [
        "Los Angeles",
        "El Paso, Los Angeles, Las Vegas",
        "Rio de Janeiro",
        "Don Quijote de la Mancha",
        "Côte d'Ivoire",
        "Crème brûlée",
        "El Niño",
        "Piña colada",
        "Déjà vu",
        "José García",
        "Penélope Cruz and Javier Bardem",
        "Leonardo da Vinci",
        "Charles de Gaulle",
        "Buenos Aires",
        "Real Madrid 2, Barcelona 1",
        "Moulin Rouge",
        "La La Land",
        "Les Misérables",
        "A la carte",
        "Per se",
        "Spaghetti alla carbonara",
        "Latte, espresso, cappuccino",
        "Raison d'être",
        "Quid pro quo",
        "Allegro con brio",
        "Ed",
        "OK",
        "Taxi",
        "Due: 4 pm",
        "Wi-Fi",
        "42",
        "",
        "!?",
        "Come on",
        "https://www.example.com",
        "Por favor",  # Spanish, or Portuguese
        "Ich habe heute keine Zeit, aber morgen gerne.",
        "Ik wil graag een kopje koffie met melk.",
        "Привет, как дела?",
        "안녕하세요 여러분",
    ],
)
def test_names_loans_and_unknown_languages_say_nothing_plain(text: str) -> None:
    assert code_of(text) in (None, "en-US")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Hola", "es"),
        ("¿Qué tal?", "es"),
        ("Buenos días", "es"),
        ("GRACIAS", "es"),
        ("Bonjour", "fr-FR"),
        ("S’il vous plaît", "fr-FR"),
        ("Il fait froid.", "fr-FR"),
        ("Ciao", "it"),
        ("Buongiorno a tutti", "it"),
        ("Olá", "pt-BR"),
        ("Não sei.", "pt-BR"),
        ("Na\u0303o sei.", "pt-BR"),  # a letter and its mark apart
        ("Good morning", "en-US"),
        ("नमस्ते", "hi"),
        ("こんにちは", "ja"),
        ("カフェ", "ja"),
        ("OKです", "ja"),
        ("東京駅", "ja"),  # 駅 is written in Japan alone
        ("你好", "zh"),
        ("The Japanese word 水 means water.", "en-US"),
    ],
)
def test_a_few_words_may_be_plain(text: str, code: str) -> None:
    assert code_of(text) == code


def test_characters_that_two_languages_share_are_of_the_likely_one() -> None:
    assert code_of("東京") == "zh"
    assert code_of("東京", languages.JA) is None
    assert code_of("你好", languages.JA) == "zh"
