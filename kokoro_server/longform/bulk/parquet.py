"""Rows of a Parquet file. A few bytes may stand for gigabytes, so each row is measured before it is made."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from kokoro_server.errors import InvalidInput, SetupError
from kokoro_server.runtime.json import JsonObject

ROWS_AT_ONCE = 32
BYTES_AT_ONCE = 4_000_000  # of rows that are read together, by what the file says of their lengths
UNMEASURED = ("dictionary<", "map<")  # types whose size within others pyarrow does not report


def rows(path: Path, max_bytes: int, max_values: int) -> Iterator[JsonObject | InvalidInput]:
    """The fields of each row, or what is wrong with it. Raises SetupError where the file cannot be read."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise SetupError(f"{path}: Parquet needs pyarrow: pip install 'kokoro-server[parquet]'") from error
    try:
        with ParquetFile(path) as file:
            _check(path, file.schema_arrow)
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(_rows_at_once(file.metadata.row_group(group)), row_groups=[group]):
                    yield from _rows(batch, max_bytes, max_values)
    except ArrowException as error:
        raise SetupError(f"{path}: cannot be read as Parquet: {error}") from error


def memory_taken() -> int:
    """The most bytes that Parquet files have taken in this process at one time, without the rows made from them."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow.default_memory_pool().max_memory() or 0 if pyarrow else 0


def _rows_at_once(group: Any) -> int:
    row_bytes = int(group.total_byte_size) // max(int(group.num_rows), 1)
    return max(1, min(ROWS_AT_ONCE, BYTES_AT_ONCE // max(row_bytes, 1)))


def _check(path: Path, schema: Any) -> None:
    if "id" not in schema.names or len(set(schema.names)) < len(schema.names):
        raise SetupError(f"{path}: its columns must be fields, each once, among them id and text")
    for column in schema:
        if column.type.num_fields and any(kind in str(column.type) for kind in UNMEASURED):
            raise SetupError(f"{path}: the column {column.name} is of a type that cannot be read: {column.type}")


def _rows(batch: Any, max_bytes: int, max_values: int) -> Iterator[JsonObject | InvalidInput]:
    columns = [_dense(column) for column in batch.columns]
    too_long = sum(column.nbytes for column in columns) > max_bytes
    too_many = sum(_values_in(column) for column in columns) > max_values
    if (too_long or too_many) and batch.num_rows > 1:
        for number in range(batch.num_rows):
            yield from _rows(batch.slice(number, 1), max_bytes, max_values)
    elif too_long:
        yield InvalidInput(f"is longer than {max_bytes} bytes")
    elif too_many:
        yield InvalidInput(f"has more than {max_values} values")
    else:
        for number in range(batch.num_rows):
            yield _row(batch.schema.names, columns, number)


def _row(names: list[str], columns: list[Any], number: int) -> JsonObject | InvalidInput:
    fields: JsonObject = {}
    for name, column in zip(names, columns, strict=True):
        try:
            value = _as_json(column[number].as_py())
        except (ValueError, TypeError, OverflowError):  # a time that Python cannot represent, bytes that are no text
            return InvalidInput(f"{name}: cannot be read as text, numbers or lists of them: {column.type}", field=name)
        if value is not None:
            fields[name] = value
    return fields


def _dense(column: Any) -> Any:
    return column.dictionary_decode() if hasattr(column, "dictionary_decode") else column


def _values_in(column: Any) -> int:
    """Values of lists, maps and structs, not counting the row's own."""
    if not column.type.num_fields:
        return 0
    parts = column.flatten()
    inner = parts if isinstance(parts, list) else [parts]
    return sum(len(each) + _values_in(each) for each in inner)


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):  # some programs write texts as bytes
        return value.decode()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    if isinstance(value, dict):
        return {name: _as_json(each) for name, each in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError
