"""Servers for the tests with other services' packages. These run in an environment of their own, the server in ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import servers
from tests.servers import Server


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("real") / "log"
    with servers.running(servers.REAL, log, FIRST_CHUNK_MAX_TOKENS="50") as server:
        yield server


@pytest.fixture(scope="session")
def tiny_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.running(servers.TINY, tmp_path_factory.mktemp("tiny") / "log") as server:
        yield server
