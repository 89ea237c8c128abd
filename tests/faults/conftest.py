from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import servers
from tests.servers import Server
from tests.services import fake_g2p

Start = Callable[..., Server]


@pytest.fixture(scope="session")
def quick_g2p() -> Iterator[str]:
    """The address of a G2P service for servers that are started only to fail: they need not start one of their own."""
    with fake_g2p.running() as url:
        yield url


@pytest.fixture
def start(tmp_path: Path, quick_g2p: str) -> Iterator[Start]:
    """Starts a server, faulty on cue, that runs until the end of the test."""
    with ExitStack() as stack:

        def run(**environ: str) -> Server:
            log = tmp_path / f"log{len(list(tmp_path.iterdir()))}"
            return stack.enter_context(servers.running(servers.FAULTY, log, G2P_SERVICE_URL=quick_g2p, **environ))

        yield run
