from __future__ import annotations

import io
import logging
import re
import sys
import time
from pathlib import Path

import pytest

from kokoro_server.assets import progress
from kokoro_server.assets.progress import DownloadProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _frequent_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "POLL_S", 0.02)


def as_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make stderr a terminal. This is no fixture: pytest sets stderr anew between a fixture and its test."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def download(folder: Path) -> None:
    """Write a file of two megabytes, slowly enough to be measured in between."""
    for _ in range(2):
        with (folder / "archive").open("ab") as file:
            file.write(bytes(1_000_000))
        time.sleep(0.4)


def fail(folder: Path) -> None:
    download(folder)
    raise OSError("connection lost")


def test_a_terminal_sees_a_bar_that_advances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    with DownloadProgress("model.onnx", 4_000_000) as shown:
        shown.advance(2_000_000)
        with shown.watching(tmp_path, 2_000_000):
            download(tmp_path)
    lines = re.findall(r"\rmodel\.onnx \[#* *\] +(\d+)% (\d) MB of 4 MB", terminal.getvalue())
    assert ("75", "3") in lines
    assert lines[-1] == ("100", "4")
    assert terminal.getvalue().endswith("\n")


def test_a_download_that_fails_ends_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    with pytest.raises(OSError, match="lost"), DownloadProgress("a", 4_000_000) as shown, shown.watching(tmp_path, 9):
        fail(tmp_path)
    assert terminal.getvalue().endswith("\n")


def test_a_download_that_fails_at_once_draws_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    with pytest.raises(OSError), DownloadProgress("a", 9) as shown, shown.watching(tmp_path, 9):
        raise OSError
    assert terminal.getvalue() == ""


def test_without_a_terminal_there_are_lines_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "kokoro_server")
    with DownloadProgress("model.onnx", 4_000_000) as shown:
        shown.advance(2_000_000)
        shown.advance(1)  # too little for a line of its own
        with shown.watching(tmp_path, 1_999_999):
            download(tmp_path)
    messages = [record.getMessage() for record in caplog.records]
    assert [message for message in messages if "percent=50" in message] == messages[:1]
    assert "fetching what=model.onnx percent=75 of_mb=4" in messages
    assert messages[-1] == "fetching what=model.onnx percent=100 of_mb=4"
    assert capsys.readouterr().err == ""
