"""What README and docs say is short, plain, and names things that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import AliasChoices

from kokoro_server.config.settings import Settings
from tests.docs import pages
from tests.servers import ROOT

README_LINES = 150
AVOIDED = re.compile(r"\b(told|so many|anew)\b", re.IGNORECASE)
SETTING = re.compile(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)(?:=[^`]*)?`")
OTHERS = {  # variables that are not settings of the server
    "KOKORO_API_KEY",  # of the clients
    "OPENAI_BASE_URL",
    "TRITON_CACHE_DIR",
}
OTHER_PREFIXES = ("OTEL_", "TEST_", "FAULT_", "SERVER_PYTHON", "RAY_", "CUDA_", "OMP_", "ORT_", "HF_")


def variables() -> set[str]:
    aliases = [field.validation_alias for field in Settings.model_fields.values()]
    return {str(name) for alias in aliases if isinstance(alias, AliasChoices) for name in alias.choices}


def test_readme_is_short_and_begins_with_sound() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= README_LINES
    first_screen = "\n".join(lines[:25])
    assert "make serve" in first_screen
    assert "curl http://localhost:8880/tts" in first_screen
    assert "make test" in "\n".join(lines)


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_words_that_readers_stumble_over_are_avoided(page: Path) -> None:
    assert AVOIDED.findall(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", [page for page in pages.PAGES if "develop" not in page.parts], ids=pages.name)
def test_settings_that_a_page_names_exist(page: Path) -> None:
    named = set(SETTING.findall(page.read_text(encoding="utf-8"))) - OTHERS
    assert sorted(name for name in named - variables() if not name.startswith(OTHER_PREFIXES)) == []
