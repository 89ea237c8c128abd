"""Bulk runs for tests: inputs, runs in this process, and what they left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kokoro_server.cli import bulk
from tests.services.bulk import DoubleSpeaker, main

Records = list[dict[str, Any]]


def write(path: Path, lines: Records) -> Path:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def texts(count: int) -> Records:
    voices = ("af_heart", "af_bella", "am_adam")
    return [
        {"id": f"clip-{n:04}", "text": f"This is text number {n}. " * (1 + n % 4), "voice": voices[n % 3], "seed": n}
        for n in range(count)
    ]


def records(path: Path) -> Records:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def tree(out: Path) -> dict[str, bytes]:
    """All that a run leaves for its user: names and contents."""
    files = [path for path in out.rglob("*") if path.is_file() and ".bulk" not in path.parts]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


class Bulk:
    """`kokoro-server bulk` in this process, with a backend that needs no model."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bulk, "_maker", bulk._maker)  # restored at the end, whatever a run puts there
        self.backend = DoubleSpeaker()

    def run(self, *arguments: object) -> int:
        self.backend = DoubleSpeaker()
        return main([str(argument) for argument in arguments], self.backend)
