"""The floor plan: few loose modules, no crowded folder, and words that a stranger understands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kokoro_server"
LOOSE = {"__init__.py", "__main__.py", "errors.py", "languages.py"}
MOST_MODULES = 20  # in one folder


def texts() -> Iterator[tuple[Path, str]]:
    """The text files of package, documents and README. Word lists that are data may hold any word."""
    for path in [ROOT / "README.md", *PACKAGE.rglob("*"), *(ROOT / "docs").rglob("*")]:
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".toml":
            content = path.read_bytes()
            if b"\0" not in content:
                yield path, content.decode("utf-8", errors="replace")


def test_few_modules_are_loose() -> None:
    assert {path.name for path in PACKAGE.glob("*.py")} <= LOOSE


def test_no_folder_is_crowded() -> None:
    folders = [path for path in PACKAGE.rglob("*") if path.is_dir()]
    modules = {folder: len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) for folder in folders}
    assert {str(folder): count for folder, count in modules.items() if count > MOST_MODULES} == {}


@pytest.mark.parametrize("words", ["told", "so many", "anew"])
def test_words_that_hide_their_subject_do_not_occur(words: str) -> None:
    pattern = re.compile(rf"\b{words}\b".replace(" ", r"\s+"), re.IGNORECASE)
    found = [f"{path.relative_to(ROOT)}: {len(hits)}" for path, text in texts() if (hits := pattern.findall(text))]
    assert found == []
