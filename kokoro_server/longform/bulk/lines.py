"""The input of a bulk run: JSON lines, CSV or Parquet, read line by line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kokoro_server.errors import InvalidInput, KokoroError, SetupError, TextTooLong
from kokoro_server.longform.bulk import parquet
from kokoro_server.runtime.json import JsonObject

MAX_ID = 1_000  # characters
MAX_LINE = 20_000_000  # bytes; of CSV, characters
MAX_TEXT = MAX_LINE  # characters, where no server sets a limit
BYTES_PER_CHARACTER = 12  # of a text, at most: two escapes of JSON
OTHER_BYTES = 1_000_000  # of a line beside its text: a lexicon, escaped, takes less
MAX_MARKS = 150_000  # commas and opening brackets: JSON has one for each value, which takes 60 bytes or more in memory
# Of a CSV file. Other cells are parsed as JSON where they are valid JSON.
TEXT_FIELDS = ("id", "text", "phonemes", "voice", "language")
SUFFIXES = (".jsonl", ".ndjson", ".csv", ".parquet")


@dataclass(frozen=True, slots=True)
class BulkLine:
    """A line of the input. `fields` is its request without the id; `error` says why the line cannot be used."""

    number: int  # in the file, from 1; of Parquet, the row
    id: str
    fields: JsonObject
    error: KokoroError | None = None

    @property
    def characters(self) -> int:
        text = self.fields.get("text") or self.fields.get("phonemes")
        return len(text) if isinstance(text, str) else 1


def max_line(max_text: int) -> int:
    """The bytes that a line may have whose text has at most `max_text` characters."""
    return min(MAX_LINE, BYTES_PER_CHARACTER * max_text + OTHER_BYTES)


def read(path: Path, max_text: int = MAX_TEXT) -> Iterator[BulkLine]:
    """The lines of a file in order, bad ones with an error. Raises SetupError where the file cannot be read.

    Lines that are much longer than a text of `max_text` characters are not parsed.
    """
    readers = {".csv": _csv, ".parquet": _parquet, ".jsonl": _json_lines, ".ndjson": _json_lines}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise SetupError(f"{path}: the input is a file of {' '.join(SUFFIXES)}, or - for JSON lines")
    try:
        for line in reader(path, max_line(max_text)):
            yield _bounded(line, max_text)
    except OSError as error:
        raise SetupError(f"{path}: cannot be read: {error.strerror or error}") from error


def _bounded(line: BulkLine, max_text: int) -> BulkLine:
    for field in ("text", "phonemes"):
        text = line.fields.get(field)
        if isinstance(text, str) and len(text) > max_text:
            complaint = f"{field} has {len(text)} characters; at most {max_text} are allowed (MAX_TEXT_LENGTH)"
            return BulkLine(line.number, line.id, {}, TextTooLong(complaint, field=field))
    return line


def _json_lines(path: Path, most: int) -> Iterator[BulkLine]:
    with path.open("rb") as file:
        for number, line in enumerate(_cut_lines(file, most), 1):
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if text.strip():
                yield _json_line(number, text, most)


def _cut_lines(file: IO[bytes], most: int) -> Iterator[bytes]:
    """Lines, each cut off after one byte more than `most`."""
    while line := file.readline(most + 1):
        yield line
        while len(line) > most and not line.endswith(b"\n"):
            line = file.readline(most + 1)


def _json_line(number: int, text: bytes, most: int) -> BulkLine:
    if len(text) > most:
        return _bad(number, f"is longer than {most} bytes")
    if _marks(text) > MAX_MARKS:
        return _bad(number, f"has more than {MAX_MARKS} commas and opening brackets")
    try:
        fields = json.loads(text)
    except UnicodeDecodeError as error:
        return _bad(number, f"is no UTF-8 text (byte {error.start})")
    except (ValueError, RecursionError) as error:
        return _bad(number, f"is not valid JSON: {error}")
    if not isinstance(fields, dict):
        return _bad(number, "is no JSON object")
    return _line(number, fields)


def _marks(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _csv(path: Path, most: int) -> Iterator[BulkLine]:
    csv.field_size_limit(max(MAX_LINE, csv.field_size_limit()))  # one limit for the whole process
    with path.open(encoding="utf-8-sig", newline="") as file:
        row_text = _RowText(file, most)
        rows = csv.reader(row_text, strict=True)  # else a quote that is never closed would take the rest of the file
        try:
            header = [name.strip() for name in next(rows, [])]
            if "id" not in header or len(set(header)) < len(header):
                raise SetupError(f"{path}: the first line must name the fields, each once, among them id and text")
            before, row_text.taken = rows.line_num, 0
            for row in rows:
                number = before + 1
                before, row_text.taken = rows.line_num, 0  # a quoted cell may span several lines
                if not row:
                    continue
                if len(row) > len(header):
                    yield _bad(number, f"has {len(row)} cells; the first line names {len(header)}")
                    continue
                cells = zip(header, row, strict=False)
                yield _line(number, {name: _cell(name, cell) for name, cell in cells if cell})
        except UnicodeDecodeError as error:  # the file is decoded ahead of the line that is read
            byte = f"byte 0x{error.object[error.start]:02x}"
            raise SetupError(f"{path}: is no UTF-8 text: it has the {byte} after line {rows.line_num}") from error
        except csv.Error as error:
            raise SetupError(f"{path}: line {rows.line_num + 1} cannot be read: {error}") from error


class _RowText:
    """The lines of a CSV file. A row takes at most `most` characters."""

    def __init__(self, file: IO[str], most: int) -> None:
        self._file, self._most = file, most
        self.taken = 0  # characters of the row so far

    def __iter__(self) -> Iterator[str]:
        while line := self._file.readline(self._most + 1 - self.taken):
            self.taken += len(line)
            if self.taken > self._most:
                raise csv.Error(f"it is longer than {self._most} characters")
            yield line


def _cell(name: str, text: str) -> Any:
    if name in TEXT_FIELDS or _marks(text.encode()) > MAX_MARKS:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _parquet(path: Path, most: int) -> Iterator[BulkLine]:
    for number, row in enumerate(parquet.rows(path, most, MAX_MARKS), 1):
        yield _line(number, row) if isinstance(row, dict) else _bad(number, row.message, row.field)


def _line(number: int, fields: JsonObject) -> BulkLine:
    id = fields.pop("id", None)
    if isinstance(id, int) and not isinstance(id, bool):
        id = str(id)
    if not isinstance(id, str) or not 0 < len(id) <= MAX_ID:
        return _bad(number, f"id: must be a text of 1 to {MAX_ID} characters, or a whole number", "id")
    if any("\ud800" <= character <= "\udfff" for character in id):
        return _bad(number, "id: holds half of a surrogate pair", "id")
    return BulkLine(number, id, fields)


def _bad(number: int, complaint: str, field: str | None = None) -> BulkLine:
    return BulkLine(number, f"line-{number}", {}, InvalidInput(complaint, field=field))
