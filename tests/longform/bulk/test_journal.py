"""A damaged journal: each damaged line is made again and reported, and every other line still counts."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kokoro_server.longform.bulk.journal import Journal
from tests.longform.bulk.runs import Bulk, texts, tree, write

LINES = 3


@pytest.fixture
def made(bulk: Bulk, tmp_path: Path) -> tuple[Path, Path, Path]:
    """The source, the output folder and the journal of a run that has ended."""
    source, out = write(tmp_path / "in.jsonl", texts(LINES)), tmp_path / "out"
    assert bulk.run(source, out) == 0
    return source, out, out / ".bulk" / "journal"


def without_checksums(journal: bytes) -> bytes:
    """The journal as earlier versions wrote it."""
    return re.sub(rb"^(.{34})[0-9a-f]{8} (?=\{)", rb"\1", journal, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("damage", "again"),
    [
        (lambda lines: [lines[0][:40] + b"\n", *lines[1:]], 1),
        (lambda lines: [lines[0], lines[1].replace(b"duration", b"durbtion"), *lines[2:]], 1),
        (lambda lines: [lines[0], bytes(len(lines[1])), *lines[2:]], 2),
        (lambda lines: [lines[0], lines[1][:-1], *lines[2:]], 2),
        (lambda lines: [*lines[:2], lines[2][:-10]], 1),
        (lambda lines: [*lines, bytes(4096)], 0),
        (lambda lines: [b"x" * 100_000 + b"\n", *lines], 0),
    ],
    ids=["cut off", "a letter", "zeros", "two in one", "a kill", "zeros at the end", "not ours"],
)
def test_damage_costs_the_damaged_lines_alone_and_is_reported_once(
    bulk: Bulk,
    made: tuple[Path, Path, Path],
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[list[bytes]], list[bytes]],
    again: int,
) -> None:
    source, out, journal = made
    before = tree(out)
    journal.write_bytes(b"".join(damage(journal.read_bytes().splitlines(keepends=True))))
    with caplog.at_level(logging.INFO):
        assert bulk.run(source, out) == 0
    assert len(bulk.backend.spoken) == again
    assert tree(out) == before
    assert "damaged lines: their clips are made again" in caplog.text
    assert "damaged=0" not in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert bulk.run(source, out) == 0
    assert bulk.backend.spoken == []
    assert "damaged=0" in caplog.text


@pytest.mark.parametrize("earlier", [False, True], ids=["with checksums", "without"])
def test_no_byte_of_a_journal_ends_a_run(made: tuple[Path, Path, Path], earlier: bool) -> None:
    """Every byte in turn, here as the journal is read: what does not count is made again."""
    _, _, path = made
    whole = without_checksums(path.read_bytes()) if earlier else path.read_bytes()
    records = [json.loads(line[line.index(b"{") :]) for line in whole.splitlines()]
    keys = [(int(line[1:17], 16), int(line[18:34], 16)) for line in whole.splitlines()]
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        journal = Journal(path)
        found = [journal.find(*key) for key in keys]
        pairs = list(zip(found, records, strict=True))
        intact = [offset is not None and journal.read(offset) == record for offset, record in pairs]
        list(journal.files())
        journal.close()
        broken = whole[:place].count(b"\n")
        assert all(intact[:broken] + intact[broken + 2 :])
        if not earlier:
            assert not intact[broken]
            assert journal.damaged
            assert all(ok or offset is None for ok, offset in zip(intact, found, strict=True))


@pytest.mark.parametrize("shards", [(), ("--shards", "2")])
def test_a_run_ends_right_whatever_bytes_are_wrong(bulk: Bulk, tmp_path: Path, shards: tuple[str, ...]) -> None:
    source, out = write(tmp_path / "in.jsonl", texts(LINES)), tmp_path / "out"
    assert bulk.run(source, out, *shards) == 0
    before, journal = tree(out), out / ".bulk" / "journal"
    whole = journal.read_bytes()
    for place in range(0, len(whole), 61):  # a prime: all parts of a line
        journal.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        assert bulk.run(source, out, *shards) == 0
        assert 1 <= len(bulk.backend.spoken) <= 2
        assert tree(out) == before


def test_a_journal_without_checksums_counts(bulk: Bulk, made: tuple[Path, Path, Path]) -> None:
    source, out, journal = made
    journal.write_bytes(without_checksums(journal.read_bytes()))
    assert bulk.run(source, out) == 0
    assert bulk.backend.spoken == []
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], lines[1][:60] + b"\n", *lines[2:]]))
    assert bulk.run(source, out) == 0
    assert len(bulk.backend.spoken) == 1
