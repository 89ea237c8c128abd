"""deploy/ray-serve.yaml, deployed as `serve deploy` does it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests import servers
from tests.servers import Server, say

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("deployed") / "log"
    with servers.running(("-m", "tests.services.ray_configuration"), log) as server:
        yield server


def test_it_speaks_with_g2p_apart(deployed: Server) -> None:
    answer = say(deployed, "Hello.")
    assert answer.is_success, answer.text
    assert len(answer.content) > 10_000
    assert "ServeReplica:kokoro:G2P" in deployed.lines()


def test_the_probes_of_the_ray_service_are_answered(deployed: Server) -> None:
    assert httpx.get(f"{deployed.url}/-/healthz", timeout=30).is_success
    assert httpx.get(f"{deployed.url}/health/ready", timeout=30).is_success
