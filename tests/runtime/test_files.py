from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kokoro_server.runtime import files


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_gets_its_name_when_it_is_whole(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with files.new_file(path, durable=durable) as unfinished:
        unfinished.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_fails_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    unfinished = tmp_path / "b"
    unfinished.write_bytes(b"ne")
    with pytest.raises(ValueError, match="no"), files.new_file(path, unfinished=unfinished):
        raise ValueError("no")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_unnamed_file_does_not_take_the_last_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LEAST_FREE", 1 << 60)
    with pytest.raises(OSError, match="No space left"):
        files.unnamed_file(tmp_path / "spool")
    files.unnamed_file(None).close()  # the system's folder is nobody's store


def test_an_unnamed_file_leaves_nothing(tmp_path: Path) -> None:
    with files.unnamed_file(tmp_path / "spool") as file:
        file.write(b"audio")
        file.seek(0)
        assert file.read() == b"audio"
        assert list((tmp_path / "spool").iterdir()) == []
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
def test_the_folder_of_a_killed_process_is_removed_by_the_next_and_no_other(tmp_path: Path) -> None:
    make = "import sys; from kokoro_server.runtime.files import OwnedFolder; "
    make += "folder = OwnedFolder('kokoro-test-', sys.argv[1]); print(folder.name, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", make, str(tmp_path)]
    (tmp_path / "kokoro-test-of-somebody").mkdir()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        left = Path(process.stdout.readline().strip())
        with files.OwnedFolder("kokoro-test-", str(tmp_path)) as own:
            assert left.is_dir()
            process.kill()
            process.wait()
            with files.OwnedFolder("kokoro-test-", str(tmp_path)):
                assert not left.exists()
                assert Path(own).is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["kokoro-test-of-somebody"]


def test_what_cannot_be_read_ahead_is_left_to_those_who_read_it(tmp_path: Path) -> None:
    files.read_ahead(tmp_path / "missing")
    (tmp_path / "there").write_bytes(b"weights")
    files.read_ahead(tmp_path / "there")
