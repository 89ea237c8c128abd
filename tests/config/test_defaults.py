"""DEFAULT_VOICE, DEFAULT_LANGUAGE and DEFAULT_FORMAT: what they may hold, and which voice they mean."""

from __future__ import annotations

from typing import get_args

import pytest

from kokoro_server.audio.formats import Format
from kokoro_server.config.defaults import SpeechDefaults
from kokoro_server.config.kinds import AudioFormat
from kokoro_server.config.settings import Settings
from kokoro_server.errors import ConfigError


def defaults(**environ: str) -> SpeechDefaults:
    return SpeechDefaults.of(Settings.load(environ, dotenv=None))


@pytest.mark.parametrize(
    ("voice", "language", "expected"),
    [
        ("", None, "af_heart"),
        ("", "fr", "af_heart"),
        ("af_bella", None, "af_bella"),
        ("af_bella", "fr", "af_bella"),
        ("en=af_bella,fr=ff_siwis", None, "af_bella"),
        ("en=af_bella, fr = ff_siwis", "FR", "ff_siwis"),
        ("en=af_bella,fr=ff_siwis", "en-GB", "af_bella"),
        ("en=af_bella,en-GB=bf_emma", "en-GB", "bf_emma"),
        ("en-GB=bf_emma", "b", "bf_emma"),
        ("fr=ff_siwis", None, "af_heart"),
        ("fr=ff_siwis", "auto", "af_heart"),
        ("fr=ff_siwis", "klingon", "af_heart"),  # an error elsewhere
        ("am_adam,fr=ff_siwis", "it", "am_adam"),
        ("am_adam,fr=ff_siwis", "f", "ff_siwis"),
        ("af_bella:0.7,af_sky:0.3,fr=ff_siwis", None, "af_bella:0.7,af_sky:0.3"),
        ("af_bella(2)+af_sky(1)", "en", "af_bella(2)+af_sky(1)"),
    ],
)
def test_voice_of_a_language(voice: str, language: str | None, expected: str) -> None:
    assert defaults(DEFAULT_VOICE=voice).voice(language) == expected


def test_default_language_chooses_the_voice() -> None:
    chosen = defaults(DEFAULT_VOICE="en=af_bella,fr=ff_siwis", DEFAULT_LANGUAGE="fr")
    assert chosen.voice() == "ff_siwis"
    assert chosen.voice("en") == "af_bella"
    assert chosen.language == "fr-FR"


def test_any_case() -> None:
    chosen = defaults(DEFAULT_LANGUAGE="EN_us", DEFAULT_FORMAT="MP3")
    assert (chosen.language, chosen.format) == ("en-US", "mp3")
    assert defaults(DEFAULT_LANGUAGE="AUTO").language == "auto"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("DEFAULT_VOICE", "xx=af_bella", "fr-FR"),
        ("DEFAULT_VOICE", "fr=", "en=af_bella,fr=ff_siwis"),
        ("DEFAULT_VOICE", "fr=ff_siwis,fr-FR=ff_siwis", "one for each language"),
        ("DEFAULT_VOICE", "auto=af_bella", "one for each language"),
        ("DEFAULT_VOICE", "af_bella,,", "a voice such as"),
        ("DEFAULT_LANGUAGE", "klingon", "auto or one of en-US"),
        ("DEFAULT_FORMAT", "ogg", "one of wav, pcm, mp3, opus, flac, aac"),
    ],
)
def test_wrong_value_names_setting_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}=") as error:
        defaults(**{name: value})
    assert allowed in error.value.message


def test_formats_are_those_of_the_audio() -> None:
    assert get_args(AudioFormat) == get_args(Format)
