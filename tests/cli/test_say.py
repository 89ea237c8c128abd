from __future__ import annotations

import io
import logging
import random
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from kokoro_server.cli import CommandFailed, say
from kokoro_server.config.settings import Settings
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import SAMPLES_PER_FRAME, Result, Row
from kokoro_server.errors import EngineError, KokoroError
from kokoro_server.observability import logs
from kokoro_server.synthesis.captions import Cue
from tests import tiny
from tests.batching.doubles import EchoEngine
from tests.servers import Server

BOOK_LENGTH = 30_000
STAMP = re.compile(r"(\d+):(\d+):(\d+)[,.](\d+) --> (\d+):(\d+):(\d+)[,.](\d+)")


def book(length: int) -> str:
    """Prose of random sentences and paragraphs, with a pause in the middle."""
    chance = random.Random(1)
    vocabulary = "the quick brown fox jumps over a lazy dog while seven wizards watch from their distant hill".split()
    paragraphs: list[str] = []
    while sum(map(len, paragraphs)) < length:
        sentences = (
            " ".join(chance.choices(vocabulary, k=chance.randint(5, 18))).capitalize() + chance.choice(".!?")
            for _ in range(chance.randint(2, 6))
        )
        paragraphs.append(" ".join(sentences))
    paragraphs.insert(len(paragraphs) // 2, "[pause:3s]")
    return "\n\n".join(paragraphs)


def times(subtitles: str) -> list[tuple[float, float]]:
    def seconds(hours: str, minutes: str, rest: str, thousandths: str) -> float:
        return int(hours) * 3600 + int(minutes) * 60 + int(rest) + int(thousandths) / 1000

    return [(seconds(*found[:4]), seconds(*found[4:])) for found in STAMP.findall(subtitles)]


def options(**given: Any) -> Namespace:
    defaults: dict[str, Any] = {
        "text": None, "file": None, "voice": "af_heart", "speed": 1.0, "language": None,
        "output": None, "subtitles": None, "url": None, "explain": False,
        "dry_run": False, "chapters": None, "dialogue_voice": None, "voice_of": [], "loudness": None,
        "read_along": None, "format": None, "keep_work": False,
    }  # fmt: skip
    return Namespace(**defaults | given)


class Brisk(EchoEngine):
    """Speaks so fast that a book is soon written: a frame for each phoneme."""

    def synthesize(self, rows: Sequence[Row]) -> list[Result]:
        return [_shortened(result) for result in super().synthesize(rows)]


def _shortened(result: Result) -> Result:
    durations = np.ones_like(result.durations)
    return Result(result.audio[: len(durations) * SAMPLES_PER_FRAME] / 2, durations)


@pytest.fixture
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """Random voices, and an engine that answers at once."""
    return LoadedModel((Brisk(),), ModelFacts(tiny.write_voices(tmp_path_factory.mktemp("voices")), "fp32", "path"))


Speak = Callable[..., int]


@pytest.fixture
def speak(model: LoadedModel, tiny_server: Server) -> Speak:
    """`say`, embedded, but for the G2P service, of which the test server's is used."""
    url = httpx.get(f"{tiny_server.url}/health", timeout=60).json()["g2p"]["url"]

    def speak(**given: Any) -> int:
        return say.run(Settings(g2p_url=url), options(**given), lambda _settings: model)

    return speak


def test_a_book_becomes_one_file_with_subtitles_that_line_up(
    speak: Speak, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kokoro_server")
    text = book(BOOK_LENGTH)
    (tmp_path / "book.txt").write_text(text)
    audio, subtitles = tmp_path / "book.mp3", tmp_path / "book.srt"
    assert speak(file=str(tmp_path / "book.txt"), output=audio, subtitles=subtitles) == 0

    duration = soundfile.info(str(audio)).duration
    cues = times(subtitles.read_text())
    assert duration > 600
    assert abs(cues[-1][1] - duration) <= 0.2
    assert all(start < end for start, end in cues)
    assert all(end <= following for (_, end), (following, _) in pairwise(cues))
    shown = STAMP.sub("", subtitles.read_text())
    assert [word for word in shown.split() if not word.isdigit()] == text.replace("[pause:3s]", "").split()

    percentages = [int(found) for found in re.findall(r"percent=(\d+)", caplog.text)]
    assert percentages == sorted(percentages)
    assert percentages[-1] == 100
    assert len(percentages) >= 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["book.mp3", "book.srt", "book.txt"]


def test_subtitles_are_where_the_words_are(speak: Speak, tmp_path: Path) -> None:
    """The one gap in the subtitles is the silence in the audio."""
    audio, subtitles = tmp_path / "a.wav", tmp_path / "a.vtt"
    speak(text=book(6000), output=audio, subtitles=subtitles)
    samples, rate = soundfile.read(str(audio))
    silent = np.flatnonzero(samples == 0)
    cues = times(subtitles.read_text())
    gaps = [(end, start) for (_, end), (start, _) in pairwise(cues) if start - end > 1.5]
    assert len(gaps) == 1
    run = max(np.split(silent, np.flatnonzero(np.diff(silent) > 1) + 1), key=len)
    assert len(run) / rate >= 3.0
    assert gaps[0][0] == pytest.approx(run[0] / rate, abs=0.5)
    assert gaps[0][1] == pytest.approx(run[-1] / rate, abs=0.5)


def test_a_terminal_sees_a_bar(speak: Speak, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(logs, "configure", lambda _level: None)
    speak(text=book(3000), output=tmp_path / "a.wav")
    shown = terminal.getvalue()
    assert len(re.findall(r"\r\[#* *\] +\d+% [\d,]+ of 3,\d\d\d characters, \d+:\d\d of audio", shown)) > 3
    assert "100%" in shown.rpartition("\r")[2]
    assert shown.endswith("\n")


def test_without_a_file_a_player_is_heard(speak: Speak, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    player, heard = tmp_path / "aplay", tmp_path / "heard"
    player.write_text(f"#!/bin/sh\n/bin/cat > {heard}\n")
    player.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    text = "The quick brown fox jumps. [pause:100ms] " * 20  # cut alike, heard at once or not
    assert speak(text=text) == 0
    assert speak(text=text, output=tmp_path / "a.pcm") == 0
    assert heard.read_bytes() == (tmp_path / "a.pcm").read_bytes()


def test_a_failure_in_the_middle_leaves_no_file(speak: Speak, model: LoadedModel, tmp_path: Path) -> None:
    [engine] = model.engines
    assert isinstance(engine, EchoEngine)

    def fail_later(_rows: object) -> None:
        if len(engine.calls) > 3:
            raise RuntimeError("a bad row")

    engine.before = fail_later
    with pytest.raises(EngineError):
        speak(text=book(6000), output=tmp_path / "a.mp3", subtitles=tmp_path / "a.srt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"text": "  "}, "nothing to say"),
        ({"text": "half \udcff"}, "not valid UTF-8"),
        ({"text": "..."}, "nothing that can be spoken"),
        ({"text": "Hi.", "voice": "af_hart"}, "did you mean af_heart"),
        ({"text": "Hi.", "language": "xx"}, "unknown language"),
        ({"text": "Hi.", "subtitles": Path("a.txt")}, ".srt or .vtt"),
        ({"file": "no-such-book.txt"}, "no-such-book.txt: cannot be read: No such file"),
    ],
)
def test_what_cannot_be_said_is_explained(speak: Speak, tmp_path: Path, given: dict[str, Any], says: str) -> None:
    with pytest.raises(KokoroError, match=says):
        speak(**{"output": tmp_path / "a.wav"} | given)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_another_encoding_is_refused(speak: Speak, tmp_path: Path) -> None:
    latin = tmp_path / "latin.txt"
    latin.write_bytes("Café".encode("latin-1"))
    with pytest.raises(CommandFailed, match=r"latin.txt: is no UTF-8 text \(byte 3\)"):
        speak(file=str(latin), output=tmp_path / "a.wav")


@pytest.mark.parametrize(("end", "seconds", "expected"), [(9.5, 10, 10), (10.4, 10, 10), (4.0, 10, 4.0)])
def test_the_last_subtitle_stays_until_the_sound_ends(end: float, seconds: float, expected: float) -> None:
    first, last = say.extend_last_cue([Cue(0, 1, "a"), Cue(2, end, "b")], seconds)
    assert first == Cue(0, 1, "a")
    assert last == Cue(2, expected, "b")


def test_explain_shows_what_would_be_said(
    tiny_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lexicon = tmp_path / "lexicon.toml"
    lexicon.write_text('[en]\nnginx = "engine x"\n', encoding="utf-8")
    text = "nginx is **$5**."
    settings = Settings.load({"LEXICON_PATH": str(lexicon)}, dotenv=None)
    assert say.run(settings, options(text=text, explain=True)) == 0
    *table, blank, said = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in table] == ["rule", "lexicon", "emphasis", "money", "emphasis"]
    assert (blank, said) == ("", "engine x is five dollars.")
    assert say.run(settings, options(text=text, explain=True, url=tiny_server.url)) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nginx is five dollars."
