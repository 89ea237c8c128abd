"""Fixtures for tests of the model's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assets import sandbox as asset_sandbox
from tests.assets.sandbox import Sandbox


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    return asset_sandbox.isolated(tmp_path, monkeypatch)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
