from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client import scripted
from tests.client.scripted import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted.running() as script:
        yield script
