from __future__ import annotations

import pytest

from kokoro_server import languages
from kokoro_server.errors import UnknownLanguage, UnknownVoice
from kokoro_server.languages import LANGUAGES


def test_nine_languages_with_kokoros_letters() -> None:
    assert {language.code: language.letter for language in LANGUAGES} == {
        "en-US": "a",
        "en-GB": "b",
        "es": "e",
        "fr-FR": "f",
        "hi": "h",
        "it": "i",
        "pt-BR": "p",
        "ja": "j",
        "zh": "z",
    }


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.code)
def test_code_in_any_case_and_letter_are_accepted(language: languages.Language) -> None:
    for spelling in (language.code, language.code.lower(), language.code.upper(), language.letter):
        assert languages.parse(spelling) is language


@pytest.mark.parametrize(
    ("alias", "code"), [("en", "en-US"), ("en_gb", "en-GB"), ("fr", "fr-FR"), (" pt ", "pt-BR"), ("zh-CN", "zh")]
)
def test_common_aliases(alias: str, code: str) -> None:
    assert languages.parse(alias).code == code


@pytest.mark.parametrize("code", ["", "klingon", "en-", "de", "x" * 1000])
def test_an_unknown_language_is_refused_with_the_known_ones(code: str) -> None:
    with pytest.raises(UnknownLanguage, match=r"en-US, en-GB, es, fr-FR, hi, it, pt-BR, ja, zh") as refused:
        languages.parse(code)
    assert len(refused.value.message) < 200


def test_a_voice_speaks_the_language_of_its_first_letter() -> None:
    assert languages.of_voice("af_heart").code == "en-US"
    assert languages.of_voice("zf_xiaobei").code == "zh"


@pytest.mark.parametrize("voice", ["", "xx_nobody", "Af_heart"])
def test_a_voice_of_no_language_is_refused(voice: str) -> None:
    with pytest.raises(UnknownVoice):
        languages.of_voice(voice)
