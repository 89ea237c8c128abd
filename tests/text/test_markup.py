from __future__ import annotations

import pytest

from kokoro_server.errors import InvalidInput
from kokoro_server.text import markup
from kokoro_server.text.markup import Pronunciation
from kokoro_server.text.traced import Traced


def read(text: str) -> list[str]:
    return [
        f"{part.word.text}={part.phonemes}" if isinstance(part, Pronunciation) else part.text
        for part in markup.split_pronunciations(text)
    ]


def clean(text: str) -> str:
    return markup.clean(Traced.of(text)).text


def test_pronunciations_are_taken_out_of_the_text() -> None:
    assert read("I am [Kokoro](/kˈOkəɹO/).") == ["I am ", "Kokoro=kˈOkəɹO", "."]
    assert read("[ Dr. Who ](/dˈɑktəɹ hˈu/)") == ["Dr. Who=dˈɑktəɹ hˈu"]
    assert read("Bye [😀](/smˈIl/)") == ["Bye ", "😀=smˈIl"]


def test_a_pronounced_word_keeps_its_offsets() -> None:
    parts = markup.split_pronunciations("I am [Kokoro](/kˈOkəɹO/).", 50)
    (pronunciation,) = (part for part in parts if isinstance(part, Pronunciation))
    assert pronunciation.word.origin(0, 6) == (56, 62)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("[Kokoro](kokoro)", "(Kokoro) (kokoro)"),
        ("[Kokoro](/kokoro)", "(Kokoro) (/kokoro)"),
        ("[Kokoro](//)", "(Kokoro) (//)"),
        ("[](/x/)", "() (/x/)"),
        ("[ ](/x/)", "( ) (/x/)"),
        ("[Kokoro] (/x/)", "(Kokoro) (/x/)"),
        ("[Koko\nro](/x/)", "(Koko ro) (/x/)"),
    ],
)
def test_malformed_markup_is_plain_text(text: str, plain: str) -> None:
    assert read(text) == [plain]


def test_phonemes_that_the_model_does_not_know_are_named() -> None:
    with pytest.raises(InvalidInput, match=r"'\[b\]\(/gↂ/\)' at character 8.*'g' \(U\+0067\), 'ↂ'") as caught:
        markup.check_pronunciations("[a](/a/)[b](/gↂ/)")
    assert caught.value.field == "text"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\r\nb\tc\xa0d\u2028e", "a b c d e"),
        ("ze\u200bro\ufeff so\u00adft", "zero soft"),
        ("a\x00b\x1bc", "a b c"),
        ("cafe\u0301", "café"),
        ("Bye 😀! Great 👨‍👩‍👧 stuff 👍🏽", "Bye! Great stuff"),
        ("日🎉本", "日 本"),
        ("5️⃣ 🇫🇷", "5"),
        ("今日は\n晴れ", "今日は晴れ"),
        ("क्\u200dष", "क्\u200dष"),
        ("© 2024 ™", "© 2024 ™"),
    ],
)
def test_what_is_invisible_or_not_spoken_is_removed(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned
