"""Announces the port in the local network by zeroconf (mDNS), so that Home Assistant offers it by itself."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import AbstractAsyncContextManager, suppress
from ipaddress import ip_address

from zeroconf import Error
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from kokoro_server.runtime.background import background

log = logging.getLogger(__name__)

SERVICE = "_wyoming._tcp.local."
MDNS_ADDRESS = ("224.0.0.251", 5353)


def announced(listener: socket.socket) -> AbstractAsyncContextManager[None]:
    """Announces the port until the end of the block. If that is not possible, the log says so."""
    return background(_announce(listener))


async def _announce(listener: socket.socket) -> None:
    """Announces the service until cancelled, then withdraws it."""
    try:
        service = _service(listener)
        network = AsyncZeroconf()
    except OSError as error:
        log.warning("not announced by zeroconf error=%s", error)
        return
    try:
        await network.async_register_service(service)
        log.info("announced by zeroconf name=%s addresses=%s", service.name, service.parsed_addresses())
        await asyncio.Event().wait()
    except (Error, OSError) as error:
        log.warning("not announced by zeroconf name=%s error=%r", service.name, error)
    finally:
        with suppress(Error, OSError):
            await network.async_close()  # announces that the service is gone


def _service(listener: socket.socket) -> AsyncServiceInfo:
    host, port = listener.getsockname()[:2]
    address = _own_address() if ip_address(host).is_unspecified else host
    name = f"kokoro-server-{socket.gethostname().partition('.')[0]}"[:63]  # the longest label
    return AsyncServiceInfo(SERVICE, f"{name}.{SERVICE}", port=port, parsed_addresses=[address])


def _own_address() -> str:
    """This machine's address in the local network. Nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(MDNS_ADDRESS)
        return str(probe.getsockname()[0])
