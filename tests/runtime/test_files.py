from __future__ import annotations

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


def test_an_unnamed_file_leaves_nothing(tmp_path: Path) -> None:
    with files.unnamed_file(tmp_path / "spool") as file:
        file.write(b"audio")
        file.seek(0)
        assert file.read() == b"audio"
        assert list((tmp_path / "spool").iterdir()) == []
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700
