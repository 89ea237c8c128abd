"""The voice of a text whose request asks for `auto`."""

from __future__ import annotations

from typing import Any

import pytest

from kokoro_server.languages import Language, of_voice
from kokoro_server.synthesis.auto_language import asks_for_auto, settled, with_quotations_apart
from kokoro_server.synthesis.speech import Speech, Turn
from kokoro_server.text.script import Delivery, Run
from kokoro_server.text.traced import Traced
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


def languages_of(text: str, voice: str = "af_heart") -> list[tuple[str, str]]:
    """The runs of a text: each with the code of its language."""
    language = of_voice(voice)
    parts = with_quotations_apart([Run(Traced.of(text), Delivery(voice, language))], Voices())
    found = [part for part in parts if isinstance(part, Run)]
    assert "".join(run.text.text for run in found).replace(" ", "") == text.replace(" ", "")
    assert all(text[run.text.starts[0] :].startswith(run.text.text) for run in found)
    assert {run.delivery.voice for run in found} == {voice}
    return [(run.text.text.strip(), run.delivery.language.code) for run in found]


def test_a_quotation_of_another_language_is_read_in_it() -> None:
    assert languages_of("She said: “¿Dónde está la estación de tren?” Nobody answered.") == [
        ("She said:", "en-US"),
        ("“¿Dónde está la estación de tren?”", "es"),
        ("Nobody answered.", "en-US"),
    ]
    assert languages_of('He wrote "je ne sais pas pourquoi", and left.') == [
        ("He wrote", "en-US"),
        ('"je ne sais pas pourquoi",', "fr-FR"),
        ("and left.", "en-US"),
    ]
    assert languages_of("On her door it says 「入ってください」.")[1] == ("「入ってください」.", "ja")
    assert languages_of("Elle a dit : « the weather is nice today ».", "ff_siwis")[1][1] == "en-US"


@pytest.mark.parametrize(
    "text",
    [
        "She said “hola” and left.",  # a word is no quotation
        "The film “Los Olvidados” is old.",
        "She said “the train is late again today”.",
        "He said “buongiorno a tutti, come state oggi?” and left.",  # no voice speaks it
        'A 27" screen, and a 24" one.',
        "No quotation at all.",
    ],
)
def test_other_quotations_are_read_with_the_text(text: str) -> None:
    assert languages_of(text) == [(text, "en-US")]


def test_a_long_quotation_does_not_decide_the_language_of_the_text() -> None:
    assert voice_of("She said: “¿Dónde está la estación de tren? No lo sé.”") == "af_heart"
    assert voice_of("“¿Dónde está la estación de tren?”") == "ef_best"


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
