from __future__ import annotations

import pytest

from kokoro_server.bulk import maker
from tests.bulk.runs import Bulk


@pytest.fixture
def bulk(monkeypatch: pytest.MonkeyPatch) -> Bulk:
    monkeypatch.setattr(maker, "RETRY_AFTER", 0.0)
    return Bulk(monkeypatch)
