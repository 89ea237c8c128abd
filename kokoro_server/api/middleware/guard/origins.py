"""Which web pages may use the server, and by which names it may be addressed.

A browser lets any page send requests to any address, also to this machine's own. Two headers reveal it: `Origin` names
the page's server, `Host` the name by which ours was found. A page whose own name resolves to 127.0.0.1 (DNS rebinding)
has the same origin as ours for the browser, and only `Host` gives it away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from starlette.types import Message, Scope, Send

from kokoro_server.config.access import ANY, host_name, is_loopback
from kokoro_server.config.settings import Settings
from kokoro_server.errors import HostNotAllowed, OriginNotAllowed

RawHeaders = Mapping[bytes, bytes]

DEFAULT_PORTS = (":80", ":443")
PREFLIGHT_SECONDS = b"7200"  # the longest time that browsers cache the answer
SHOWN = 100  # characters of a foreign name in a message


class OriginCheck:
    def __init__(self, settings: Settings) -> None:
        self._on_loopback = is_loopback(settings.host)
        self._hosts = settings.allowed_hosts
        self._listed = settings.cors_origins
        self._is_known_host = lru_cache(1024)(self._find_host)

    def check(self, scope: Scope, headers: RawHeaders) -> None:
        """Raises Forbidden if the request names a foreign host, or comes from a page that may not use the server."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        on_loopback = self._on_loopback and _came_over_loopback(scope)
        if host and (on_loopback or self._hosts) and not self._is_known_host(host_name(host)):
            raise HostNotAllowed(
                f"this server does not answer to the name {host[:SHOWN]!r}; ALLOWED_HOSTS lists the names it answers to"
            )
        if b"origin" not in headers or not (on_loopback or scope["type"] == "websocket"):
            return
        if not self._allows_origin(headers, host, on_loopback=on_loopback):
            origin = headers[b"origin"].decode("latin-1")
            raise OriginNotAllowed(
                f"pages of {origin[:SHOWN]!r} may not use this server; CORS_ORIGINS lists the origins that may"
            )

    def lists(self, origin: bytes) -> bool:
        return ANY in self._listed or origin.decode("latin-1").lower() in self._listed

    def cors_headers(self, origin: bytes) -> list[tuple[bytes, bytes]]:
        if ANY in self._listed:
            return [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", b"*")]
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"*"),
            (b"vary", b"Origin"),
        ]

    def _allows_origin(self, headers: RawHeaders, host: str, *, on_loopback: bool) -> bool:
        if self.lists(headers[b"origin"]):
            return True
        # Set by the browser and by no page, and right also behind a proxy that changes Host.
        if headers.get(b"sec-fetch-site") == b"same-origin":
            return True
        netloc = headers[b"origin"].decode("latin-1").lower().partition("://")[2]
        if netloc and _without_default_port(netloc) == _without_default_port(host):
            return True
        name = host_name(netloc)
        return (on_loopback and is_loopback(name)) or _is_in(self._hosts, name)

    def _find_host(self, name: str) -> bool:
        return ANY in self._hosts or is_loopback(name) or _is_in(self._hosts, name)


def _is_in(hosts: Iterable[str], name: str) -> bool:
    return any(name == host or (host.startswith("*.") and name.endswith(host[1:])) for host in hosts)


def _came_over_loopback(scope: Scope) -> bool:
    server = scope.get("server")
    return server is not None and is_loopback(server[0])  # else over a Unix socket, which no page can reach


def _without_default_port(netloc: str) -> str:
    for port in DEFAULT_PORTS:
        netloc = netloc.removesuffix(port)
    return netloc


def is_preflight(scope: Scope, headers: RawHeaders) -> bool:
    return scope["type"] == "http" and scope["method"] == "OPTIONS" and b"access-control-request-method" in headers


async def answer_preflight(headers: RawHeaders, send: Send) -> None:
    # Any header: none of ours gives a page more than another client.
    allowed = headers.get(b"access-control-request-headers", b"")
    answer = [
        (b"access-control-allow-methods", b"GET, HEAD, POST, DELETE"),
        (b"access-control-allow-headers", allowed),
        (b"access-control-max-age", PREFLIGHT_SECONDS),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": answer})
    await send({"type": "http.response.body", "body": b""})


def with_headers(send: Send, headers: list[tuple[bytes, bytes]]) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *headers]}
        await send(message)

    return send_with_headers
