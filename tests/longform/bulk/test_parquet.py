"""Parquet files from strangers: values that JSON does not have, and bytes that stand for many more."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kokoro_server.errors import SetupError, UnreadableDocument
from kokoro_server.longform.bulk import lines, parquet
from kokoro_server.longform.jobs import reading

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "in.parquet"


def repeated(text: str, times: int) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int32()), pa.array([text]))


def test_values_that_json_does_not_have_are_put_in_its_words_or_cost_their_row_alone(source: Path) -> None:
    times = [None, datetime.datetime(2026, 1, 1), None]
    columns = {
        "id": pa.array([b"a", b"b", b"c"], pa.binary()),
        "text": pa.array([b"One.", b"Two.", b"\xff\xfe"], pa.binary()),
        "speed": [Decimal("1.5"), Decimal("1.0"), None],
        "lexicon": [{"a": b"b"}, None, None],
        "when": times,
    }
    pq.write_table(pa.table(columns), source)
    one, two, three = lines.read(source)
    assert (one.id, one.fields) == ("a", {"text": "One.", "speed": 1.5, "lexicon": {"a": "b"}})
    assert two.error
    assert two.error.field == "when"
    assert three.error
    assert three.error.field == "text"


@pytest.mark.parametrize(
    "table",
    [
        lambda: pa.table({"text": ["One."]}),
        lambda: pa.Table.from_arrays([pa.array(["a"]), pa.array(["One."]), pa.array(["Two."])], ["id", "text", "text"]),
    ],
)
def test_columns_are_fields_each_once(source: Path, table: Any) -> None:
    pq.write_table(table(), source)
    with pytest.raises(SetupError, match="each once, among them id"):
        list(lines.read(source))


@pytest.mark.parametrize(
    "type", [lambda: pa.list_(pa.dictionary(pa.int32(), pa.string())), lambda: pa.map_("str", "str")]
)
def test_a_type_whose_size_is_not_told_is_refused(source: Path, type: Any) -> None:
    pq.write_table(pa.table({"id": ["a"], "lexicon": pa.array([None], type())}), source)
    with pytest.raises(SetupError, match="the column lexicon is of a type"):
        list(lines.read(source))


@pytest.mark.parametrize("with_schema", [False, True])
def test_a_row_that_is_too_long_costs_no_other(
    source: Path, monkeypatch: pytest.MonkeyPatch, with_schema: bool
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 1000)
    monkeypatch.setattr(lines, "MAX_MARKS", 30)
    table = {
        "id": ["a", "b", "c"],
        "text": pa.array(["One.", "x" * 2000, "Three."]).dictionary_encode(),
        "turns": pa.array([None, None, [[None]] * 20], pa.list_(pa.list_(pa.null()))),
    }
    pq.write_table(pa.table(table), source, store_schema=with_schema)
    one, two, three = lines.read(source)
    assert one.fields == {"text": "One."}
    assert two.error
    assert "longer than 1000 bytes" in two.error.message
    assert three.error
    assert "more than 30 values" in three.error.message


def test_a_file_of_kilobytes_that_would_take_gigabytes_is_refused(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"id": ["a"] * 100, "text": repeated("x" * 1_000_000, 100)}), source, store_schema=False)
    assert source.stat().st_size < 100_000
    before = pa.default_memory_pool().max_memory()
    monkeypatch.setattr(reading, "PARQUET_MEMORY", before + 1_000_000)
    with pytest.raises(UnreadableDocument, match="too much memory"):
        reading.read({"path": str(source), "name": "in.parquet", "max_text": lines.MAX_TEXT})


def test_long_rows_are_read_a_few_at_a_time(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them together would take 64 MB."""
    text = "".join(map(chr, range(32, 1_000))) * 2_000
    rows = 32
    pq.write_table(
        pa.table({"id": list(map(str, range(rows))), "text": [text + str(n) for n in range(rows)]}),
        source,
        use_dictionary=False,
        row_group_size=rows,
    )
    sizes, read = list[int](), parquet._rows
    monkeypatch.setattr(parquet, "_rows", lambda batch, *limits: sizes.append(batch.nbytes) or read(batch, *limits))
    found = list(lines.read(source, max_text=100))
    assert len(found) == rows
    assert all(line.error and "longer than" in line.error.message for line in found)
    assert max(sizes) < 2 * parquet.BYTES_AT_ONCE
