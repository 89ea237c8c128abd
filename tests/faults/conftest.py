from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import servers
from tests.servers import Server


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose engine misbehaves on cue, for all rows that it outlives. Nobody is turned away because the machine is slow."""
    log = tmp_path_factory.mktemp("faulty") / "log"
    with servers.running(servers.FAULTY, log, QUEUE_TIMEOUT="600", JOB_TIMEOUT="600") as server:
        yield server
