from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from kokoro_server.audio.formats import SUFFIXES
from kokoro_server.audio.wav import pcm16
from kokoro_server.cli import CommandFailed, sinks
from kokoro_server.cli.sinks import Player, Write
from tests.audio_files import RATE, decode

SECOND = pcm16((0.5 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)).astype(np.float32))


class Trouble(Exception):
    pass


def fail_after(write: Write) -> None:
    write(SECOND)
    raise Trouble


def write_much(write: Write) -> None:
    for _ in range(50):  # more than a pipe holds
        write(SECOND)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_holds_what_was_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"tone{suffix}"
    with sinks.audio_file(path) as write:
        for _ in range(3):
            write(SECOND)
    audio = decode(path.read_bytes(), SUFFIXES[suffix])
    assert len(audio) / RATE == pytest.approx(3.0, abs=0.1)
    assert np.sqrt(np.mean(audio**2)) == pytest.approx(0.35, abs=0.02)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failure_leaves_what_was_there_before(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"tone{suffix}"
    path.write_bytes(b"before")
    with pytest.raises(Trouble), sinks.audio_file(path) as write:
        fail_after(write)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
@pytest.mark.parametrize("suffix", [".wav", ".mp3", ".flac", ".pcm"])
def test_a_full_disk_is_named_with_the_file(tmp_path: Path, suffix: str) -> None:
    import resource

    path = tmp_path / f"tone{suffix}"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))  # bytes: a file that cannot grow
        with pytest.raises(CommandFailed) as failed, sinks.audio_file(path) as write:
            write_much(write)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert failed.value.message.startswith(f"{path}: cannot be written: ")
    assert any(words in failed.value.message for words in ("is the disk full?", "File too large"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "says"),
    [("nowhere/a.wav", "No such file"), ("folder.wav", "is not a file"), ("a.txt", ".mp3"), ("a", "must be one of")],
)
def test_a_file_that_cannot_be_is_refused_in_words(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "folder.wav").mkdir()
    with pytest.raises(CommandFailed, match=says), sinks.audio_file(tmp_path / name):
        pass


def program(folder: Path, code: str) -> tuple[str, ...]:
    script = folder / "player.py"
    script.write_text(f"import sys\n{code}\n")
    return sys.executable, str(script)


READS_ALL = "open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
READS_FILE = "open(sys.argv[1], 'wb').write(open(sys.argv[2], 'rb').read())"


@pytest.mark.parametrize(("reads", "code"), [("raw", READS_ALL), ("wav", READS_ALL), ("file", READS_FILE)])
def test_a_player_gets_all_of_it(tmp_path: Path, reads: str, code: str) -> None:
    heard = tmp_path / "heard"
    with sinks.playing(Player((*program(tmp_path, code), str(heard)), reads)) as write:
        write(SECOND)
        write(SECOND)
    assert heard.read_bytes()[0 if reads == "raw" else 44 :] == SECOND * 2
    assert heard.read_bytes().startswith(b"RIFF") == (reads != "raw")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("sys.stdin.buffer.read(); sys.exit('no sound card')", "status 1 .*no sound card; -o FILE"),
        ("pass", "status 0 before all was played"),
    ],
)
def test_a_player_that_fails_is_reported(tmp_path: Path, code: str, says: str) -> None:
    with (
        pytest.raises(CommandFailed, match=says),
        sinks.playing(Player(program(tmp_path, code), "raw")) as write,
    ):
        write_much(write)


def test_a_player_is_stopped_when_speech_fails(tmp_path: Path) -> None:
    forever = Player(program(tmp_path, "import time; time.sleep(600)"), "raw")
    with pytest.raises(Trouble), sinks.playing(forever):
        raise Trouble


def test_the_first_player_that_is_installed_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandFailed, match=r"no player is installed.*-o FILE"):
        sinks.find_player()
    for name in ("aplay", "paplay"):
        (tmp_path / name).touch(0o755)
    assert sinks.find_player().name == "paplay"
