"""Lines that no request could be as long as: they come from strangers too, and are read in the server's process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kokoro_server.errors import SetupError, TextTooLong
from kokoro_server.longform.bulk import lines

GOOD = b'{"id": "good", "text": "Good."}\n'


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b'{"id": "a", "text": "' + b"x" * 300 + b'"}', "longer than 100 bytes"),
        (b"x" * 101, "longer than 100 bytes"),
        (b"x" * 202, "longer than 100 bytes"),
        (b'{"id": "a", "lexicon": [' + b"[]," * 20 + b"[]]}", "more than 30 commas and opening brackets"),
    ],
)
def test_a_line_that_is_too_long_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes, complaint: str
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 100)
    monkeypatch.setattr(lines, "MAX_MARKS", 30)
    source = tmp_path / "in.jsonl"
    for end in (b"", b"\n", b"\n" + GOOD):
        source.write_bytes(GOOD + line + end)
        found = list(lines.read(source))
        assert [(each.number, each.id) for each in found[:2]] == [(1, "good"), (2, "line-2")]
        assert found[1].error
        assert complaint in found[1].error.message
        assert [(each.number, each.id) for each in found[2:]] == ([(3, "good")] if end.endswith(GOOD) else [])


@pytest.mark.parametrize("field", ["text", "phonemes"])
def test_a_text_longer_than_its_reader_allows_is_refused_with_line_and_limit(tmp_path: Path, field: str) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(GOOD + json.dumps({"id": "long", field: "x" * 101}).encode() + b"\n" + GOOD)
    good, long, last = lines.read(source, max_text=100)
    assert (good.error, last.error) == (None, None)
    assert (long.number, long.id, long.fields) == (2, "long", {})
    assert isinstance(long.error, TextTooLong)
    assert long.error.field == field
    assert "101 characters; at most 100 are allowed (MAX_TEXT_LENGTH)" in long.error.message


def test_a_line_much_longer_than_any_text_allowed_is_not_parsed(tmp_path: Path) -> None:
    most = lines.max_line(100)
    source = tmp_path / "in.jsonl"
    source.write_bytes(GOOD + b"{" + b" " * most + GOOD[1:] + GOOD)
    _, long, last = lines.read(source, max_text=100)
    assert long.error
    assert f"longer than {most} bytes" in long.error.message
    assert last.error is None
    assert lines.max_line(100_000) < 3_000_000
    assert lines.max_line(lines.MAX_TEXT) == lines.MAX_LINE


def test_a_row_of_csv_that_is_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 100)
    monkeypatch.setattr(lines, "MAX_MARKS", 30)
    source = tmp_path / "in.csv"
    row = 'a,"' + "x\n" * 40 + '",1\n'  # several lines, of a hundred characters at most together
    source.write_text("id,text,lexicon\n" + row * 9)
    assert [each.characters for each in lines.read(source)] == [80] * 9
    for long in ("b," + "x" * 100, 'b,"' + "x\n" * 50, "," * 101):
        source.write_text("id,text,lexicon\n" + row + long + "\n")
        with pytest.raises(SetupError, match=r"line \d+ cannot be read: it is longer than 100 characters"):
            list(lines.read(source))
    source.write_text('id,text,lexicon\nb,x,"[' + "[]," * 20 + '[]]"\n')
    assert isinstance(next(lines.read(source)).fields["lexicon"], str)  # which a request refuses
