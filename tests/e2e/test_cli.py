"""The command as a process of its own: against a running server, on a terminal, interrupted, and by itself."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile

from kokoro_server.assets.library import Assets
from kokoro_server.synthesis.http_backend import SECTION
from tests.servers import ROOT, Server

SENTENCE = "The quick brown fox jumps over the lazy dog while seven wizards quietly watch from the hill. "
COMMAND = (sys.executable, "-m", "kokoro_server")
TIMEOUT = 300


def run(*arguments: str, text: str | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=os.environ | environ,
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def last_end(subtitles: str) -> float:
    hours, minutes, seconds = re.findall(r"--> (\d+):(\d+):(\d+[,.]\d+)", subtitles)[-1]
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds.replace(",", "."))


def test_a_text_of_several_sections_is_one_file(tiny_server: Server, tmp_path: Path) -> None:
    text = SENTENCE * (SECTION // len(SENTENCE) + 4)
    (tmp_path / "text.txt").write_text(text)
    ended = run(
        "say", "-f", str(tmp_path / "text.txt"), "-s", "4", "--url", tiny_server.url,
        "-o", str(tmp_path / "a.mp3"), "--subtitles", str(tmp_path / "a.srt"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    duration = soundfile.info(str(tmp_path / "a.mp3")).duration
    shown = (tmp_path / "a.srt").read_text()
    assert abs(last_end(shown) - duration) <= 0.2
    assert shown.count("wizards") == text.count("wizards")
    assert "percent=100" in ended.stderr


def test_standard_input_is_spoken_as_the_server_does(tiny_server: Server, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    ended = run("say", "-f", "-", "-v", "bf_emma", "-o", str(path), "--url", tiny_server.url, text="Hello there.")
    assert ended.returncode == 0, ended.stderr
    asked = httpx.post(f"{tiny_server.url}/tts", json={"text": "Hello there.", "voice": "bf_emma"}, timeout=60)
    assert path.read_bytes() == asked.content


def test_a_terminal_shows_a_bar(tiny_server: Server, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    arguments = ["say", SENTENCE * 4, "-s", "4", "-o", str(tmp_path / "a.wav"), "--url", tiny_server.url]
    process = subprocess.Popen([*COMMAND, *arguments], cwd=ROOT, stderr=theirs)
    os.close(theirs)
    assert process.wait(TIMEOUT) == 0
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert re.search(r"\r\[#+ *\] +\d+% [\d,]+ of \d+ characters, 0:\d\d of audio", shown)
    assert "100%" in shown
    assert "INFO" not in shown


def test_an_interrupted_run_leaves_no_file(tiny_server: Server, tmp_path: Path) -> None:
    arguments = ["say", SENTENCE * 300, "-o", str(tmp_path / "a.mp3"), "--url", tiny_server.url]
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests run in the background have it ignored
    )
    deadline = time.monotonic() + TIMEOUT
    while not any(path.stat().st_size for path in tmp_path.iterdir()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert shown.endswith("kokoro-server: interrupted\n")
    assert "Traceback" not in shown
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_server_is_one_line_and_no_file(tiny_server: Server, tmp_path: Path) -> None:
    ended = run("say", "Hello.", "-v", "af_hart", "-o", str(tmp_path / "a.wav"), "--url", tiny_server.url)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("kokoro-server: there is no voice 'af_hart'; did you mean af_heart")
    assert list(tmp_path.iterdir()) == []


def test_voices_of_a_server(tiny_server: Server) -> None:
    ended = run("voices", "--url", tiny_server.url, "-l", "en-GB")
    assert ended.stdout == "bf_emma          en-GB  female  B-\n"


def test_doctor_says_what_is_wrong_and_what_to_do(tiny_server: Server, tmp_path: Path) -> None:
    g2p = httpx.get(f"{tiny_server.url}/health", timeout=60).json()["g2p"]["url"]
    ended = run("doctor", KOKORO_CACHE_DIR=str(tmp_path), G2P_SERVICE_URL=g2p, PORT="0")
    assert ended.returncode == 1
    assert ended.stderr == "kokoro-server: 1 of the above must be put right\n"
    assert re.search(r"^BAD  weights .*\n +-> kokoro-server assets fetch$", ended.stdout, re.MULTILINE)
    assert re.search(r"^ok   g2p .*'Hello.' as h", ended.stdout, re.MULTILINE)


@pytest.mark.real
def test_it_speaks_with_no_server(assets: Assets, tmp_path: Path) -> None:
    """The whole of it: the real model, and a G2P service of its own."""
    path = tmp_path / "a.wav"
    ended = run("say", "Hello there.", "-o", str(path), "--subtitles", str(tmp_path / "a.srt"))
    assert ended.returncode == 0, ended.stderr
    audio, rate = soundfile.read(str(path))
    assert 0.5 < len(audio) / rate < 3.0
    assert -40 < 20 * np.log10(np.sqrt(np.mean(audio**2))) < -10
    assert "Hello there." in (tmp_path / "a.srt").read_text()
