"""The voices of a book: which names are known, those of other models included."""

from __future__ import annotations

import pytest

from kokoro_server.client import Voice
from kokoro_server.errors import UnknownVoice
from kokoro_server.longform.books.casting import Casting, VoiceChoice
from kokoro_server.longform.books.options import Options

VOICES = [
    Voice("af_heart", "Heart", "en-US", "female", "A"),
    Voice("bf_emma", "Emma", "en-GB", "female", "B-"),
    Voice("german/df_anna", "Anna", "de", "female", None),
    Voice("german/dm_bert", "Bert", "de", "male", None),
]


@pytest.mark.parametrize(
    "voice",
    [
        "af_heart",
        "bf_emma",
        "af_heart+bf_emma",
        "german/df_anna",
        "german/df_anna+german/dm_bert",
        " german/df_anna+dm_bert",
        "af_heart:1,bf_emma:2",
    ],
)
def test_known_voices_are_taken(voice: str) -> None:
    assert Casting(Options(voice=voice), VOICES).choice(None) == VoiceChoice(voice)
    Casting(Options(dialogue_voice=voice, cast={"Alice": voice}), VOICES)


@pytest.mark.parametrize("voice", ["bf_ema", "german/df_nobody", "german/af_heart", "nobody/df_anna", "df_anna"])
def test_unknown_voices_are_found_before_anything_is_spoken(voice: str) -> None:
    for options in (Options(voice=voice), Options(dialogue_voice=voice), Options(cast={"Alice": voice})):
        with pytest.raises(UnknownVoice):
            Casting(options, VOICES)


def test_languages_of_another_model() -> None:
    casting = Casting(Options(voice="german/df_anna"), VOICES)
    assert casting.choice("de") == VoiceChoice("german/df_anna")
    assert casting.notes == []
    assert Casting(Options(), VOICES).choice("de") == VoiceChoice("german/df_anna")
