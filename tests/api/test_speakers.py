"""Several speakers in one request: voice tags and turns, over HTTP."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import httpx
import numpy as np
import pytest

from tests.audio_files import decode
from tests.servers import Server

# A line break between speakers, so that each is a sentence of its own.
TAGGED = "Who is there? [voice:am_adam]A friend.\n[voice:bf_emma]Come in, colour! [/voice]Thank you."


def post(server: Server, path: str, **body: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=300)


def captioned(server: Server, **body: Any) -> dict[str, Any]:
    answer = post(server, "/tts/captioned", format="pcm", **body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def words(answer: dict[str, Any], text: str) -> list[str]:
    """The words, which must be in order and in the text."""
    for word in answer["words"]:
        assert text[word["char_start"] : word["char_end"]] == word["text"]
    starts = [word["start"] for word in answer["words"]]
    offsets = [word["char_start"] for word in answer["words"]]
    assert starts == sorted(starts)
    assert offsets == sorted(offsets)
    assert answer["words"][-1]["end"] <= answer["duration"]
    return [word["text"] for word in answer["words"]]


def rms(content: bytes) -> float:
    return float(np.sqrt(np.mean(decode(content, "pcm") ** 2)))


def test_a_tag_changes_the_voice_from_there_on(tiny_server: Server) -> None:
    answer = captioned(tiny_server, text=TAGGED)
    spoken = ["Who", "is", "there", "A", "friend", "Come", "in", "colour", "Thank", "you"]
    assert words(answer, TAGGED) == spoken
    alone = post(tiny_server, "/tts", text="[voice:am_adam]A friend.", format="pcm")
    assert alone.content == post(tiny_server, "/tts", text="A friend.", voice="am_adam", format="pcm").content
    assert alone.content != post(tiny_server, "/tts", text="A friend.", format="pcm").content


def test_subtitles_have_no_tags(tiny_server: Server) -> None:
    subtitles = post(tiny_server, "/tts/captioned", text=TAGGED, format="srt").text
    assert "[" not in subtitles
    assert "A friend." in subtitles


def test_another_voice_has_its_own_language_unless_the_request_names_one(tiny_server: Server) -> None:
    def phonemes(**body: Any) -> str:
        found: str = post(tiny_server, "/text/reading", **body).json()["phonemes"]
        return found

    british = phonemes(text="Tomato.", voice="bf_emma")
    assert british != phonemes(text="Tomato.")
    assert phonemes(text="[voice:bf_emma]Tomato.") == british
    assert phonemes(text="[voice:bf_emma]Tomato.", language="en-US") == phonemes(text="Tomato.")
    assert phonemes(turns=[{"text": "Tomato.", "voice": "bf_emma"}]) == british
    assert phonemes(turns=[{"text": "Tomato.", "language": "en-GB"}]) == british


def test_a_dialogue_is_one_clip_with_times_across_its_turns(tiny_server: Server) -> None:
    turns = [
        {"text": "Who is there?"},
        {"text": "A friend.", "voice": "am_adam", "speed": 1.5},
        {"text": "Come in!", "voice": "bf_emma", "pitch": 2, "volume": -6},
    ]
    joined = "\n".join(turn["text"] for turn in turns)  # type: ignore[misc]
    short, long = (captioned(tiny_server, turns=turns, turn_pause=pause) for pause in (0, 2))
    assert words(short, joined) == ["Who", "is", "there", "A", "friend", "Come", "in"]
    assert words(long, joined) == words(short, joined)
    assert long["duration"] == pytest.approx(short["duration"] + 4, abs=0.001)
    assert long["words"][5]["start"] == pytest.approx(short["words"][5]["start"] + 4, abs=0.001)
    streamed = post(tiny_server, "/tts/stream", turns=turns, turn_pause=2, format="pcm")
    assert len(streamed.content) / 2 / 24_000 == pytest.approx(long["duration"], abs=0.5)  # it is cut otherwise
    batch = post(tiny_server, "/tts/batch", requests=[{"turns": turns}])
    with zipfile.ZipFile(io.BytesIO(batch.content)) as file:
        assert "tts_001_af_heart.wav" in file.namelist()


def test_a_turns_volume_is_its_own(tiny_server: Server) -> None:
    def loudness(**body: Any) -> float:
        return rms(post(tiny_server, "/tts", format="pcm", **body).content)

    plain = loudness(text="A friend.")
    assert loudness(turns=[{"text": "A friend.", "volume": -6}]) == pytest.approx(plain * 10 ** (-6 / 20), rel=0.02)
    assert loudness(turns=[{"text": "A friend.", "volume": -6}], volume=3) == pytest.approx(
        plain * 10 ** (-6 / 20), rel=0.02
    )
    assert loudness(turns=[{"text": "A friend."}], volume=-6) == pytest.approx(plain * 10 ** (-6 / 20), rel=0.02)


def test_aliases_name_voices(tiny_server: Server) -> None:
    aliases = {"narrator": "am_adam", "both": "af_bella+af_sky"}
    plain = post(tiny_server, "/tts", text="A friend.", voice="am_adam", format="pcm").content
    for body in ({"text": "[voice:narrator]A friend."}, {"turns": [{"text": "A friend.", "voice": "narrator"}]}):
        assert post(tiny_server, "/tts", voice_aliases=aliases, format="pcm", **body).content == plain
    answer = post(tiny_server, "/tts", voice_aliases=aliases, voice="both", text="A friend.")
    assert answer.headers["x-voice-used"] == "af_bella+af_sky"
    theirs = {"input": "[voice:marin]A friend. [voice:narrator]Come in.", "voice_aliases": aliases}
    assert post(tiny_server, "/v1/audio/speech", allow_voice_tags=True, voice="af_bella", **theirs).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "field", "told"),
    [
        ({"text": "Hi [voice:nobody]there."}, 400, "text", "'[voice:nobody]' at character 3: there is no voice"),
        ({"turns": [{"text": "Hi."}, {"text": "Ho.", "voice": "nobody"}]}, 400, "turns.1.voice", "nobody"),
        ({"turns": [{"text": "Hi.", "language": "xx"}]}, 400, "turns.0.language", "xx"),
        ({"turns": [{"text": "Hi.", "speed": 9}]}, 422, "turns.0.speed", "4"),
        ({"turns": [{"text": "Hi.", "mood": "sad"}]}, 422, "turns.0.mood", "there is no such field"),
        ({"turns": []}, 422, "turns", "at least 1"),
        ({"turns": None}, 422, "text", "exactly one of"),
        ({"turns": [{"text": "a"}] * 1001}, 422, "turns", "at most 1000"),
        ({"turns": [{"text": "Hi."}], "text": "Ho."}, 422, "text", "exactly one of"),
        ({"turns": [{"text": "Hi [pause:x]"}]}, 422, "turns", "at character 3"),
        ({"turns": [{"text": "..."}]}, 422, "turns", "nothing that can be spoken"),
        ({"turns": [{"text": "a"}] * 100, "turn_pause": 30}, 422, "turns", "MAX_SILENCE"),
        ({"text": "".join(f"[voice:af_heart({n})+am_adam]a " for n in range(1, 40))}, 422, "text", "voices"),
        ({"text": "[voice:af_heart]a [voice:am_adam]b " * 2_700}, 422, "text", "too often"),
    ],
)
def test_what_is_wrong_is_named(tiny_server: Server, body: dict[str, Any], status: int, field: str, told: str) -> None:
    answer = post(tiny_server, "/tts", **body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (status, field), answer.text
    assert told in answer.json()["error"]["message"]


def test_a_word_in_brackets_is_no_tag(tiny_server: Server) -> None:
    reading = post(tiny_server, "/text/reading", text="My [voice](/vˈYs/) and [voice] are mine.").json()
    assert "vˈYs" in reading["phonemes"]
    assert [word["text"] for word in reading["words"]] == ["My", "voice", "and", "voice", "are", "mine"]
