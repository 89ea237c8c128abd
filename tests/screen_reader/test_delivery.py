from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import pytest

from kokoro_server.screen_reader import message as messages
from kokoro_server.screen_reader.delivery import SpeechSettings, of_listing
from kokoro_server.screen_reader.message import ReaderMessage
from tests.screen_reader.driver import VOICES


@pytest.mark.parametrize(("rate", "speed"), [(-100, 0.5), (-50, 0.707), (0, 1), (50, 1.732), (100, 3), (1000, 3)])
def test_each_step_of_the_rate_is_the_same_ratio(rate: int, speed: float) -> None:
    settings = SpeechSettings()
    assert settings.set("rate", str(rate))
    assert settings.speed == pytest.approx(speed, abs=0.001)


def test_pitch_and_volume() -> None:
    settings = SpeechSettings({"pitch": "-50", "volume": "0"})
    assert settings.semitones == -3
    assert settings.decibels == pytest.approx(-6.02)
    assert SpeechSettings({"volume": "-100"}).decibels == -60
    assert SpeechSettings().decibels == 0
    assert not settings.set("pitch", "high")


@pytest.mark.parametrize(
    ("asked", "voice"),
    [
        ({}, "af_heart"),
        ({"voice": "male1", "language": "en"}, "af_heart"),  # what everybody asks for who does not choose
        ({"voice": "male1", "language": "en-GB"}, "bf_emma"),
        ({"voice": "male1", "language": "fr"}, "ff_siwis"),
        ({"voice": "male2", "language": "en"}, "am_adam"),
        ({"voice": "male3", "language": "fr"}, "ff_siwis"),
        ({"voice": "female1", "language": "en-US"}, "af_heart"),
        ({"voice": "female2", "language": "en-US"}, "af_bella"),
        ({"voice": "child_male", "language": "en-US"}, "am_fenrir"),
        ({"voice": "male1", "language": "de"}, "af_heart"),
        ({"synthesis_voice": "bf_emma", "language": "en-US"}, "bf_emma"),
        ({"synthesis_voice": "nobody", "language": "fr"}, "ff_siwis"),
        ({"synthesis_voice": "NULL", "language": "NULL", "voice": "NULL"}, "af_heart"),
    ],
)
def test_the_voice(asked: dict[str, str], voice: str) -> None:
    found = SpeechSettings(asked).voice(of_listing({"voices": VOICES}), "af_heart")
    assert found
    assert found.name == voice


def test_marks_survive_names_and_spelling() -> None:
    message = messages.parse('<speak>X <mark name="1"/>Y, <mark name="2"/>Z</speak>')
    assert message == ReaderMessage("X Y, Z", ((2, "1"), (5, "2")))
    for changed in (messages.punctuated(message, "all", str.lower), messages.spelled(message, str.lower)):
        at = {name: changed.text[place:] for place, name in changed.marks}
        found = {name: [each for each in text if each in "XYZ"] for name, text in at.items()}
        assert found == {"1": ["Y", "Z"], "2": ["Z"]}


def test_a_long_message_is_said_in_parts() -> None:
    text = "A sentence of words. " * 1000
    places = tuple((at, str(at)) for at in range(0, len(text) + 1, 777))
    parts = messages.split(ReaderMessage(text, places), 5_000)
    assert "".join(part.text for part in parts) == text
    assert max(len(part.text) for part in parts) <= 5_000
    assert all(part.text.endswith(". ") for part in parts)
    assert [name for part in parts for _, name in part.marks] == [name for _, name in places]
    assert len(messages.split(ReaderMessage("x" * 12_000), 5_000)) == 3


def test_the_module_imports_nothing_but_the_standard_library() -> None:
    code = "import sys; import kokoro_server.screen_reader.protocol; print(*sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-P", "-S", "-c", code], capture_output=True, text=True, cwd=".", check=False
    )
    if shown.returncode:  # without site-packages the package is found only where it stands
        code = f"import sys; sys.path.insert(0, '.'); {code.partition(';')[2]}"
        shown = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    modules = {name.partition(".")[0] for name in shown.stdout.split()}
    assert modules <= {*sys.stdlib_module_names, "kokoro_server", "__main__"}


@pytest.mark.parametrize("text", ["some words here - and <more> & " * 60, "-" * 3_000, "a" * 6_000, "é-" * 1_500])
def test_parts_of_a_spelled_text_are_documents(text: str) -> None:
    spelled = messages.spelled(ReaderMessage(text, ((1_000, "__spd_1"),)), messages.unicode_name)
    parts = messages.split(spelled, 5_000)
    assert len(parts) > 1
    assert all(len(part.text) <= 5_000 for part in parts)
    heard = "".join("".join(ElementTree.fromstring(part.text).itertext()) for part in parts)
    assert heard == "".join(ElementTree.fromstring(spelled.text).itertext())
    ((after, (at, name)),) = [(part.text, mark) for part in parts for mark in part.marks]
    assert name == "__spd_1"
    place = spelled.marks[0][0]
    assert after[at:].removesuffix("</speak>") == spelled.text[place : place + len(after) - at - len("</speak>")]
