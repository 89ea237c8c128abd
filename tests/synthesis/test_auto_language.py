"""The voice of a text whose request asks for `auto`."""

from __future__ import annotations

from typing import Any

import pytest

from kokoro_server.languages import Language
from kokoro_server.synthesis.auto_language import asks_for_auto, settled
from kokoro_server.synthesis.speech import Speech, Turn
from tests.text.test_script import AnyVoice

SPANISH = "La luz de la cocina está encendida."
ENGLISH = "The kitchen light is on."


class Voices(AnyVoice):
    """One voice for each language but Italian."""

    def best(self, language: Language) -> str | None:
        return None if language.letter == "i" else f"{language.letter}f_best"


def voice_of(text: str, voice: str = "af_heart", **fields: Any) -> str:
    speech = settled(Speech(voice, text, language="auto", **fields), Voices())
    assert not asks_for_auto(speech)
    assert (speech.language, speech.text) == (None, text)
    return speech.voice


@pytest.mark.parametrize(
    ("text", "voice", "spoken_by"),
    [
        (SPANISH, "af_heart", "ef_best"),
        (SPANISH, "em_alex", "em_alex"),
        (ENGLISH, "af_heart", "af_heart"),
        (ENGLISH, "bm_george", "bm_george"),  # British English is English
        (ENGLISH, "ff_siwis", "af_best"),
        ("Buongiorno a tutti, come state?", "af_heart", "af_heart"),  # no voice speaks it
        ("OK", "ff_siwis", "ff_siwis"),
        ("東京", "jf_alpha", "jf_alpha"),
        ("東京", "af_heart", "zf_best"),
        ("", "af_heart", "af_heart"),
    ],
)
def test_the_voice_stays_unless_the_text_is_plainly_of_another_language(text: str, voice: str, spoken_by: str) -> None:
    assert voice_of(text, voice) == spoken_by


def test_what_a_tag_gives_to_another_voice_does_not_count() -> None:
    assert voice_of(f"Good morning. [voice:em_alex]{SPANISH} {SPANISH}") == "af_heart"
    assert voice_of(f"[voice:af_sky]Good morning to all of you.[/voice] {SPANISH}") == "ef_best"


def test_an_alias_stays_a_name_unless_the_voice_changes() -> None:
    aliases = {"narrator": "bm_george", "bm_george": "narrator"}
    assert voice_of(ENGLISH, "narrator", voice_aliases=aliases) == "narrator"
    assert voice_of(SPANISH, "narrator", voice_aliases=aliases) == "ef_best"


def test_ssml_counts_without_its_tags_and_may_name_the_language_itself() -> None:
    assert voice_of(f'<speak><p>{SPANISH}</p> <break time="1s"/></speak>', ssml=True) == "ef_best"
    assert voice_of(f'<speak xml:lang="en-US">{SPANISH}</speak>', ssml=True) == "af_heart"


def test_phonemes_are_of_no_language() -> None:
    speech = settled(Speech("af_heart", phonemes="həlˈO", language="auto"), Voices())
    assert (speech.voice, speech.language) == ("af_heart", None)


def test_each_turn_has_its_own_language() -> None:
    turns = (Turn(SPANISH), Turn(ENGLISH), Turn(SPANISH, "bm_george"), Turn(SPANISH, language="en-US"))
    speech = settled(Speech("af_heart", turns=turns, language="auto"), Voices())
    assert [turn.voice for turn in speech.turns] == ["ef_best", "af_heart", "ef_best", None]
    assert [turn.language for turn in speech.turns] == [None, None, None, "en-US"]


def test_a_turn_may_ask_for_it_alone() -> None:
    turns = (Turn(SPANISH), Turn(SPANISH, language="Auto"), Turn(ENGLISH, language="auto"))
    speech = settled(Speech("af_heart", turns=turns, language="fr-FR"), Voices())
    assert [(turn.voice, turn.language) for turn in speech.turns] == [
        (None, None),
        ("ef_best", "es"),
        ("af_heart", "en-US"),
    ]
