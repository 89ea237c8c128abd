"""Decides whether a request may come in, before its body is read, and which caller it counts for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kokoro_server.api import errors
from kokoro_server.api.middleware.guard.credentials import accepted_subprotocol, take_key
from kokoro_server.api.middleware.guard.origins import (
    OriginCheck,
    answer_preflight,
    is_preflight,
    is_speaking_url,
    with_headers,
)
from kokoro_server.callers.current import caller
from kokoro_server.callers.limits import CallerLimits
from kokoro_server.config import access
from kokoro_server.config.access import ApiKey
from kokoro_server.config.settings import Settings
from kokoro_server.errors import ConfigError, Forbidden, KokoroError, Unauthorized
from kokoro_server.observability.metrics import Metrics

log = logging.getLogger(__name__)

ADDRESS = "@"  # before the address of a caller without a key; no key's name begins with it
PROBES = ("/health/live", "/health/ready")  # open to supervisors, by any host name and without a key
PAGES = ("/", "/docs", "/openapi.json")
PAGE_FILES = "/web/"
METRICS = "/metrics"
IPV6_PREFIX = 64  # bits; a client may have all addresses with the same prefix

NO_KEY = (
    "this server needs an API key: send it as 'Authorization: Bearer KEY' or as X-API-Key, "
    "over a WebSocket also as ?api_key=KEY"
)
WRONG_KEY = "this server does not know this API key"


def configured_keys(settings: Settings) -> tuple[ApiKey, ...]:
    """The keys of `API_KEYS` and of `API_KEYS_FILE`. Raises ConfigError if one of ADMIN_KEYS is none of them."""
    keys = _all_keys(settings)
    if unknown := sorted({*settings.admin_keys} - {key.name for key in keys}):
        raise ConfigError(f"ADMIN_KEYS={','.join(settings.admin_keys)}: no key is called {', '.join(unknown)}")
    return keys


def _all_keys(settings: Settings) -> tuple[ApiKey, ...]:
    if settings.api_keys_file is None:
        return settings.api_keys
    try:
        return access.unique((*settings.api_keys, *access.read_keys(settings.api_keys_file)))
    except OSError as error:
        raise ConfigError(f"API_KEYS_FILE={settings.api_keys_file}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"API_KEYS_FILE={settings.api_keys_file}: {error}") from None


class Guard:
    """ASGI middleware, inside AccessLog and IdleLimit. Refuses with 401, 403, 415 or 429, and sets `caller`."""

    def __init__(
        self, app: ASGIApp, settings: Settings, keys: tuple[ApiKey, ...], metrics: Metrics, limits: CallerLimits
    ) -> None:
        self.app = app
        self._keys = keys
        self._origins = OriginCheck(settings, has_keys=bool(keys))
        self._limits = limits
        self._knows_proxies = bool(settings.forwarded_allow_ips)
        self._open_page = settings.open_page
        self._open_metrics = settings.open_metrics
        self._metrics = metrics
        self._key_requests = {key.name: metrics.key_requests.labels(key.name) for key in keys}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in PROBES:
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        try:
            if cors := self._origins.check(scope, headers):
                send = with_headers(send, cors)
                if is_preflight(scope, headers):
                    await answer_preflight(headers, send)
                    return
            name = await self._identify(scope, headers)
            leave = await self._limits.enter(name) if _is_limited(scope) else None
        except KokoroError as error:
            await self._refuse(error, scope, receive, send)
            return
        if name in self._key_requests:
            self._key_requests[name].inc()
        if subprotocol := accepted_subprotocol(scope):
            send = _with_subprotocol(send, subprotocol)
        token = caller.set(name)
        try:
            await self.app(scope, receive, send)
        finally:
            caller.reset(token)
            if leave:
                leave()

    async def _identify(self, scope: Scope, headers: Mapping[bytes, bytes]) -> str:
        """Returns the caller that the request counts for."""
        address = caller_at(scope["client"][0]) if scope.get("client") else "-"
        if b"x-forwarded-for" in headers and not self._knows_proxies:
            self._warn_of_proxy(address)
        key = take_key(scope, headers)
        if not self._keys:
            return address
        name = access.name_of(key, self._keys) if key else None
        scope["key_name"] = name or "-"
        if name is not None:
            return name
        if self._is_open(scope["path"]):
            return address
        if key is None:
            raise Unauthorized(NO_KEY)
        await self._limits.count(address)  # guesses are limited too
        raise Unauthorized(WRONG_KEY)

    def _warn_of_proxy(self, address: str) -> None:
        self._knows_proxies = True  # for the log: once is enough
        log.warning(
            "X-Forwarded-For is ignored, so all clients of a proxy count as one; if this is your proxy, set "
            "FORWARDED_ALLOW_IPS=%s",
            address.removeprefix(ADDRESS),
        )

    def _is_open(self, path: str) -> bool:
        is_page = path in PAGES or path.startswith(PAGE_FILES)
        return (is_page and self._open_page) or (path == METRICS and self._open_metrics)

    async def _refuse(self, error: KokoroError, scope: Scope, receive: Receive, send: Send) -> None:
        self._metrics.refused.labels(error.code).inc()
        if isinstance(error, Forbidden):
            log.info("refused: %s", error.message)
        response = await errors.on_kokoro_error(HTTPConnection(scope), error)
        await response(scope, receive, send)


def _is_limited(scope: Scope) -> bool:
    """Limits count only requests that make speech: the page polls other endpoints every second."""
    return scope["type"] == "websocket" or bool(scope["method"] == "POST") or is_speaking_url(scope)


def caller_at(address: str) -> str:
    """The caller of a request without a key."""
    return ADDRESS + _network(address)


@lru_cache(4096)
def _network(address: str) -> str:
    """The address; for IPv6 the network, as one client may use all its addresses."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return "unknown"  # a proxy's header may have something else
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(IPv6Network((parsed, IPV6_PREFIX), strict=False))


def _with_subprotocol(send: Send, subprotocol: str) -> Send:
    """A browser drops a WebSocket whose subprotocols are all left unanswered."""

    async def send_with_subprotocol(message: Message) -> None:
        if message["type"] == "websocket.accept":
            message = {**message, "subprotocol": subprotocol}
        await send(message)

    return send_with_subprotocol
