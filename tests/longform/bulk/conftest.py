from __future__ import annotations

import pytest

from kokoro_server.longform.bulk.makers import local as maker
from tests.longform.bulk.runs import Bulk


@pytest.fixture
def bulk(monkeypatch: pytest.MonkeyPatch) -> Bulk:
    monkeypatch.setattr(maker, "RETRY_AFTER", 0.0)
    return Bulk(monkeypatch)
