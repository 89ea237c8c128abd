"""Which phonemes of a text belong to which of its words."""

from __future__ import annotations

import pytest

from kokoro_server.g2p.service.word_sounds import by_chunk, by_sound
from tests.growth import is_at_most

ALONE = {"rien": ""} | {
    "y": "iɡʁˈɛk",
    "25": "vɛ̃t sˈɛ̃k",
    "que": "kˈə",
    "Qu'est-ce": "kɛs",
    "parce": "paʁs",
    "qu'il": "kˈil",
    "rien": "",
}


def alone(word: str) -> str:
    return ALONE.get(word.strip(".,"), word)


@pytest.mark.parametrize(
    ("text", "phonemes", "expected"),
    [
        ("uno dos", "uno dos", "uno=uno dos=dos"),
        ("¿uno, dos?", "uno, dos?", "uno=uno =, dos=dos =?"),
        ("« uno » — dos", "“uno” — dos", "=“ uno=uno =” — dos=dos"),
        ("uno—dos", "uno—dos", "uno=uno =— dos=dos"),
        ("po' d'acqua, 'po'.", "po daka, po.", "po'=po d'acqua=daka =, po=po =."),
        ("25 parce", "vɛ̃t sɛ̃k paʁs", "25=vɛ̃t sɛ̃k parce=paʁs"),
        ("Qu'est-ce que parce", "kɛskə paʁs", "Qu'est-ce=kɛs que=kə parce=paʁs"),
        ("parce qu'il y 25", "paʁskˌil i vɛ̃tsˈɛ̃k", "parce=paʁs qu'il=kˌil y=i 25=vɛ̃tsˈɛ̃k"),
        ("uno rien dos", "uno dos", "uno=uno dos=dos"),
        ("…", "…", "=…"),
        ("", "", ""),
    ],
)
def test_by_chunk(text: str, phonemes: str, expected: str) -> None:
    tokens = by_chunk(text, phonemes, alone)
    assert tokens is not None
    assert " ".join(f"{token.text}={token.phonemes}" for token in tokens) == expected
    assert "".join(token.phonemes + token.whitespace for token in tokens) == phonemes


def test_sounds_of_which_no_word_is_known_have_no_tokens() -> None:
    assert by_chunk("a", " ".join("bcdfghjklmnpqrstvwxz"), alone) is None


@pytest.mark.parametrize(
    ("words", "phonemes", "expected"),
    [
        ((("你好", "ni↓xau↓"), ("吗", "ma")), "ni↓xau↓, ma?", "你好=ni↓xau↓ =, 吗=ma =?"),
        ((("行", "iʔ"), ("て", "te")), "iʔte", "行=iʔ て=te"),
        ((("「", "“"), ("MP", "ˌɛm pˈi")), "“ˌɛm pˈi", "=“ MP=ˌɛm pˈi"),
        ((("a", "a"),), "b a", None),
        ((("a", "a"),), "a b", None),
    ],
)
def test_by_sound(words: tuple[tuple[str, str], ...], phonemes: str, expected: str | None) -> None:
    tokens = by_sound(phonemes, words)
    said = tokens and " ".join(f"{token.text}={token.phonemes}" for token in tokens)
    assert said == expected


@pytest.mark.parametrize("word", ["25 ", "que Qu'est-ce ", "y rien "])
def test_time_grows_with_the_length_alone(word: str) -> None:
    def align(text: str) -> object:
        phonemes = " ".join(alone(each) for each in text.split())
        return by_chunk(text, phonemes.replace("s k", "sk"), alone)

    assert is_at_most(16, lambda: align(word * 100), lambda: align(word * 800), harmless=0.02)
