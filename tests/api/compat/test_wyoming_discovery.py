"""The port is announced under the name by which Home Assistant looks for it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from zeroconf import NonUniqueNameException

from kokoro_server.api.compat.wyoming import discovery
from kokoro_server.runtime.sockets import bind


class Network:
    """Stands in for multicast, which not every machine has."""

    def __init__(self) -> None:
        self.services: list[Any] = []
        self.closed = False
        self.error: Exception | None = None

    async def async_register_service(self, service: Any) -> None:
        if self.error:
            raise self.error
        self.services.append(service)

    async def async_close(self) -> None:
        self.closed = True


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    network = Network()
    monkeypatch.setattr(discovery, "AsyncZeroconf", lambda: network)
    monkeypatch.setattr("socket.gethostname", lambda: "speech.lan")
    return network


async def test_it_is_announced_and_taken_back(network: Network) -> None:
    with bind("127.0.0.1", 0) as listener:
        async with discovery.announced(listener):
            while not network.services:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert not network.closed
        port = listener.getsockname()[1]
    [service] = network.services
    assert (service.type, service.name) == ("_wyoming._tcp.local.", "kokoro-server-speech._wyoming._tcp.local.")
    assert (service.parsed_addresses(), service.port) == (["127.0.0.1"], port)
    assert network.closed


async def test_a_failure_is_a_line_in_the_log(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    network.error = NonUniqueNameException()
    with bind("127.0.0.1", 0) as listener, caplog.at_level(logging.WARNING):
        async with discovery.announced(listener):
            while not network.closed:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert "not announced by zeroconf" in caplog.text
