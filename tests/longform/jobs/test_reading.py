"""What is told of a document is small, whatever is in it: all of it is kept, and sent with every event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kokoro_server.api.schemas.jobs import BookRequest
from kokoro_server.errors import UnreadableDocument
from kokoro_server.longform.jobs import reading


def told_of(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "upload.md"
    path.write_text(text)
    options = BookRequest.model_validate({}).model_dump()
    return reading.read({"path": str(path), "name": "a.md", "options": options, "voices": [], "target": None})


def test_a_title_of_a_megabyte(tmp_path: Path) -> None:
    told = told_of(tmp_path, f"# {'Sea ' * 250_000}\n\nIt was calm.\n")
    assert told["chapters"][0]["title"].startswith("Sea Sea")
    assert len(json.dumps(told)) < 5_000


def test_more_chapters_than_a_book_has(tmp_path: Path) -> None:
    with pytest.raises(UnreadableDocument, match="10000 chapters"):
        told_of(tmp_path, "# A\n\nHi.\n\n" * 10_001)
