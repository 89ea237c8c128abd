"""Which web pages may use the server, and by which names it may be addressed.

A browser lets any page send requests to any address, also to this machine's own. Two headers reveal it: `Origin` names
the page's server, `Host` the name by which ours was found. A page whose own name resolves to 127.0.0.1 (DNS rebinding)
has the same origin as ours for the browser, and only `Host` gives it away.

docs/operate/threat-model.md has the rules as tables.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.types import Message, Scope, Send

from kokoro_server.config.access import ANY, host_name, is_address, is_loopback, is_private_name
from kokoro_server.config.settings import Settings
from kokoro_server.errors import HostNotAllowed, NotJson, OriginNotAllowed
from kokoro_server.http.body import UPLOADS

RawHeaders = Mapping[bytes, bytes]
Headers = list[tuple[bytes, bytes]]

DEFAULT_PORTS = (":80", ":443")
PREFLIGHT_SECONDS = b"7200"  # the longest time that browsers cache the answer
SHOWN = 100  # characters of a foreign name in a message
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
WEB_SCHEMES = ("http", "https")  # of pages; every other scheme is an app's or an extension's, which no page can claim
OTHER_SITES = (b"cross-site", b"same-site")  # of Sec-Fetch-Site
FORM = b"multipart/form-data"
SPOKEN_TYPES = (b"text/plain", b"application/x-www-form-urlencoded")
SIMPLE_TYPES = (b"", *SPOKEN_TYPES, FORM)  # sent without a preflight
SIMPLE_PATHS = ("/tts", "/tts/stream")  # speak by GET too, and take plain text and forms
BROWSERS = (b"mozilla/", b"applecoremedia/")  # begin the User-Agent of browsers, and of Safari's player


class OriginCheck:
    """With API keys, the name of the server does not matter: a page that has no key gets nothing by any name."""

    def __init__(self, settings: Settings, *, has_keys: bool) -> None:
        self._has_keys = has_keys
        self._hosts = settings.allowed_hosts
        self._own_names = (host_name(settings.host), socket.gethostname().lower())
        self._listed = settings.cors_origins
        self._is_known_host = lru_cache(1024)(self._find_host)

    def check(self, scope: Scope, headers: RawHeaders) -> Headers:
        """Returns the headers that let a page read the answer.

        Raises Forbidden if the request names a foreign host, or comes from a page that may not use the server. Raises
        NotJson if a page sends something else than JSON where only JSON is read.
        """
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if host and not self._has_keys and _came_over_network(scope) and not self._is_known_host(host_name(host)):
            raise _unknown_host(host_name(host))
        origin = headers.get(b"origin")
        if origin is not None and self._allows(origin.decode("latin-1").lower(), headers, host):
            cors = self._cors_headers(origin)
        elif self._refuses_others(scope, headers) or self._refuses_player(scope, headers, host):
            raise _unknown_origin(origin)
        else:
            cors = []
        if not self._has_keys:
            _check_type(scope, headers, may_be_simple=bool(cors))
        return cors

    def _refuses_others(self, scope: Scope, headers: RawHeaders) -> bool:
        """Whether a request must be refused that no page sent which may use the server."""
        if b"origin" in headers:
            return not self._has_keys or scope["type"] == "websocket" or is_preflight(scope, headers)
        from_page = headers.get(b"sec-fetch-site") in OTHER_SITES
        return (
            from_page and not self._has_keys and (scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS)
        )

    def _refuses_player(self, scope: Scope, headers: RawHeaders, host: str) -> bool:
        """Whether a foreign page may have put a URL that speaks where a browser fetches it without `Origin`.

        Browsers send `Sec-Fetch-Site` only to this machine and over TLS. Elsewhere a page that may use the server is
        known by `Referer` alone, which no page can forge.
        """
        if self._has_keys or not is_speaking_url(scope):
            return False
        site = headers.get(b"sec-fetch-site")
        if site is not None and site not in OTHER_SITES:
            return False
        if site is None and not headers.get(b"user-agent", b"").lower().startswith(BROWSERS):
            return False
        return not self._allows(_page_origin(headers.get(b"referer", b"")), headers, host)

    def _allows(self, origin: str, headers: RawHeaders, host: str) -> bool:
        if ANY in self._listed or origin in self._listed:
            return True
        # Set by the browser and by no page, and right also behind a proxy that changes Host.
        if headers.get(b"sec-fetch-site") == b"same-origin":
            return True
        scheme, separator, netloc = origin.partition("://")
        if not separator:  # "null": a sandboxed frame of any page sends it
            return False
        if scheme not in WEB_SCHEMES or _without_default_port(netloc) == _without_default_port(host):
            return True
        name = host_name(netloc)
        return is_loopback(name) or _is_in(self._hosts, name)

    def _cors_headers(self, origin: bytes) -> Headers:
        if ANY in self._listed:
            return [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", b"*")]
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"*"),
            (b"vary", b"Origin"),
        ]

    def _find_host(self, name: str) -> bool:
        if ANY in self._hosts or _is_in(self._hosts, name) or name in self._own_names:
            return True
        return is_address(name) or is_private_name(name)


def _is_in(hosts: Iterable[str], name: str) -> bool:
    return any(name == host or (host.startswith("*.") and name.endswith(host[1:])) for host in hosts)


def _came_over_network(scope: Scope) -> bool:
    server = scope.get("server")
    return server is None or not server[0].startswith("/")  # else over a Unix socket, which no page can reach


def _without_default_port(netloc: str) -> str:
    for port in DEFAULT_PORTS:
        netloc = netloc.removesuffix(port)
    return netloc


def _unknown_host(name: str) -> HostNotAllowed:
    shown = name[:SHOWN]
    return HostNotAllowed(
        f"this server does not answer to the name {shown!r}; if it is a name of yours for it, "
        f"set ALLOWED_HOSTS={shown} or use API keys"
    )


def _unknown_origin(origin: bytes | None) -> OriginNotAllowed:
    if origin is None:
        return OriginNotAllowed("pages of other origins may not use this server; CORS_ORIGINS lists those that may")
    shown = origin.decode("latin-1")[:SHOWN]
    return OriginNotAllowed(f"pages of {shown!r} may not use this server; if they may, set CORS_ORIGINS={shown}")


def _page_origin(referer: bytes) -> str:
    try:
        page = urlsplit(referer.decode("latin-1").lower())
    except ValueError:
        return "null"
    return f"{page.scheme}://{page.netloc}" if page.netloc else "null"


def is_speaking_url(scope: Scope) -> bool:
    """Whether this is a GET that makes speech."""
    return scope["type"] == "http" and scope["method"] in SAFE_METHODS and scope["path"] in SIMPLE_PATHS


def _check_type(scope: Scope, headers: RawHeaders, *, may_be_simple: bool) -> None:
    """Only what a browser asks for first, in a preflight, may be read as JSON. Programs may leave the type out.

    `may_be_simple`: the page may use the server. Where forms and plain text are read, it may send them.
    """
    if (
        scope["type"] != "http"
        or scope["method"] in SAFE_METHODS
        or not headers.keys() & {b"origin", b"sec-fetch-site"}
    ):
        return
    has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
    sent = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if sent == FORM and scope["path"] in UPLOADS:
        return
    if sent in SPOKEN_TYPES and scope["path"] in SIMPLE_PATHS and may_be_simple:
        return
    if has_body and sent in SIMPLE_TYPES:
        shown = sent.decode("latin-1") or "nothing"
        raise NotJson(f"Content-Type: must be application/json in a request of a web page (got {shown})")


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
    if b"access-control-request-private-network" in headers:  # Chrome, for a public page and a private address
        answer.append((b"access-control-allow-private-network", b"true"))
    await send({"type": "http.response.start", "status": 204, "headers": answer})
    await send({"type": "http.response.body", "body": b""})


def with_headers(send: Send, headers: Headers) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *headers]}
        await send(message)

    return send_with_headers
