from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest

from kokoro_server.errors import SetupError
from kokoro_server.server.processes.supervisor import socket_folder


def test_a_long_tmpdir_leaves_room_for_the_path_of_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with socket_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(Path(folder) / "engine"))


def test_without_a_folder_for_temporary_files_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    monkeypatch.setattr("kokoro_server.server.processes.supervisor.MAX_FOLDER", 1000)
    with pytest.raises(SetupError, match="TMPDIR"):
        socket_folder()
