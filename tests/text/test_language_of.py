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


# Short phrases, as people type them.
TYPED = {
    "es": [
        "buenos dias a todos",
        "buenos dias",
        "buenas tardes senor",
        "como estas amigo",
        "hola que tal",
        "muchas gracias por todo",
        "donde esta el bano",
        "manana voy a la playa",
        "no se que hacer",
        "feliz cumpleanos",
        "que dia es hoy",
        "hasta manana",
        "te quiero mucho",
        "vamos a comer algo",
        "mi casa es tu casa",
        "estoy muy cansado hoy",
        "cuanto cuesta esto",
        "el nino come una manzana",
        "tengo mucha hambre",
        "nos vemos despues",
        "adios amigos",
        "por favor, ayudame",
        "la cuenta, por favor",
        "habla usted ingles",
        "todo esta bien",
    ],
    "fr-FR": [
        "je suis tres content",
        "bonjour a tous",
        "ca va bien merci",
        "comment ca va",
        "je ne sais pas",
        "ou est la gare",
        "il fait tres froid",
        "a bientot",
        "c'est la vie",
        "bonne annee a tous",
        "joyeux anniversaire",
        "s'il vous plait",
        "je t'aime beaucoup",
        "merci beaucoup pour tout",
        "bon appetit a tous",
        "qu'est-ce que tu fais",
        "nous avons ete a Paris",
        "voila pourquoi",
        "ma soeur est fatiguee",
        "l'ecole est fermee demain",
        "tres bien, merci",
        "ca marche",
        "je suis desole",
        "le cafe est pret",
        "on y va",
    ],
    "it": [
        "grazie mille a tutti",
        "buongiorno a tutti",
        "come stai",
        "ciao come va",
        "va bene cosi",
        "perche non vieni",
        "ti amo tanto",
        "buona notte e sogni d'oro",
        "la citta e bella",
        "dove sei",
        "mi piace molto",
        "tanti auguri a te",
        "ci vediamo domani",
        "non lo so",
        "che cosa vuoi",
        "sono molto felice",
        "quanto costa",
        "il caffe e pronto",
        "grazie di tutto",
        "a presto",
        "mamma mia che bello",
        "scusa il ritardo",
        "piu tardi forse",
        "buon compleanno",
        "un po' di pane, per favore",
    ],
    "pt-BR": [
        "obrigado por tudo",
        "bom dia a todos",
        "tudo bem com voce",
        "nao sei o que fazer",
        "ate amanha",
        "muito obrigado",
        "boa noite, meu amor",
        "eu te amo muito",
        "onde fica o banheiro",
        "voce fala ingles",
        "feliz aniversario",
        "quanto custa isso",
        "estou com saudade",
        "ola, tudo bem",
        "vamos comer pizza hoje",
        "por que nao vem",
        "ele esta em casa",
        "minha mae e professora",
        "a gente se ve depois",
        "que horas sao",
        "parabens pra voce",
        "eu nao entendo",
        "boa tarde a todos",
        "obrigada pela ajuda",
        "ja vou embora",
    ],
}
ENGLISH = [
    "I said buenos dias to everyone",
    "Let's have a siesta, amigo",
    "Que sera, sera",
    "Casa Bonita is open",
    "Hasta la vista, baby",
    "The casa is in San Jose",
    "Mi casa, your casa",
    "No comment",
    "Come on",
    "Ciao for now",
    "Ciao, see you later",
    "Grazie, I said",
    "Merci for the help",
    "Adios, cowboy",
    "Au revoir, friends",
    "Bon appetit",
    "Bon voyage",
    "C'est la vie, I guess",
    "Que pasa, dude",
    "El Nino is coming",
    "Las Vegas en route to Los Angeles",
    "Taco Bell and Del Taco",
    "Carpe diem",
    "Et tu, Brute",
    "Pro bono work",
    "Sans serif",
    "Vice versa",
    "Au pair in Paris",
    "Per diem rates",
    "Pasta alla Norma",
    "Pinot Grigio",
    "A la mode",
    "Par for the course",
    "Tour de France",
    "Coup d'etat in Niger",
    "Crema di Parma",
    "Rio Grande do Sul",
    "Santa Maria della Salute",
    "Mona Lisa",
    "Don Juan de Marco",
    "Ole Miss",
    "I am in a bind",
    "He is on a run",
    "See me at ten",
    "Do as I say",
    "Note: see plan a",
    "Ma and Pa",
    "Sue me",
    "Son, come here",
    "Do me a favor",
    "Dare to try",
    "Ten men met on a train",
    "The menu has poisson and boeuf bourguignon",
    "Sit, stay, come",
    "Fin",
    "Moi",
    "Tres chic",
    "Amor vincit omnia",
    "Ave Maria",
    "Sale ends today",
    "Pain relief",
    "Vide supra",
    "Chat later",
    "Dire straits",
    "Male nurse",
    "Is it a plan",
    "As a man",
]


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


@pytest.mark.parametrize("code", TYPED)
def test_what_is_typed_without_accents_is_of_its_language(code: str) -> None:
    """None is no error: a phrase may be of two languages."""
    found = {text: code_of(text) for text in TYPED[code]}
    assert {text: other for text, other in found.items() if other not in (code, None)} == {}
    assert len([text for text, other in found.items() if other is None]) <= 2


@pytest.mark.parametrize("text", ENGLISH)
def test_english_with_words_of_other_languages_stays_english(text: str) -> None:
    assert code_of(text) in (None, "en-US")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("我喜欢 iPhone 和 MacBook", "zh"),
        ("今天的 meeting 改到三点", "zh"),
        ("OK 没问题", "zh"),
        ("今日のmeetingは3時です", "ja"),
        ("She lives in 北京 now.", "en-US"),
        ("Order the 麻婆豆腐, it's great.", "en-US"),
        ("My name is 王明, nice to meet you.", "en-US"),
    ],
)
def test_han_beside_latin_words(text: str, code: str) -> None:
    assert code_of(text) == code


def test_characters_that_two_languages_share_are_of_the_likely_one() -> None:
    assert code_of("東京") == "zh"
    assert code_of("東京", languages.JA) is None
    assert code_of("你好", languages.JA) == "zh"
