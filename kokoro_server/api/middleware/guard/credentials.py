"""Where a request carries its API key.

In order: `X-API-Key`, ElevenLabs' `xi-api-key`, `Authorization: Bearer` or Deepgram's `Token`. A page cannot choose the
headers of a WebSocket, so a WebSocket may offer the subprotocols `kokoro, key.<the key in base64url>`, or Deepgram's
`token, <the key>`, of which the server accepts the first; or have `?api_key=` in its URL.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from starlette.types import Scope

SUBPROTOCOL = "kokoro"
KEY_FOLLOWS = ("token", "bearer")  # subprotocols after which the next is the key
KEY_SUBPROTOCOL = "key."
KEY_PARAMETER = "api_key"
KEY_HEADERS = (b"x-api-key", b"xi-api-key")
SCHEMES = (b"bearer", b"token")


def take_key(scope: Scope, headers: Mapping[bytes, bytes]) -> bytes | None:
    """Returns the request's key. It is removed from a WebSocket's URL and subprotocols, which may be logged."""
    in_socket = _take_from_socket(scope) if scope["type"] == "websocket" else None
    if key := next((headers[name] for name in KEY_HEADERS if headers.get(name)), None):
        return key
    scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
    return key.strip() if scheme.lower() in SCHEMES else in_socket


def _take_from_socket(scope: Scope) -> bytes | None:
    offered: list[str] = scope.get("subprotocols", [])
    keys = [_decoded(name.removeprefix(KEY_SUBPROTOCOL)) for name in offered if name.startswith(KEY_SUBPROTOCOL)]
    scope["subprotocols"] = [name for name in offered if not name.startswith(KEY_SUBPROTOCOL)]
    if len(offered) > 1 and offered[0].lower() in KEY_FOLLOWS:
        scope["subprotocols"] = offered[:1]
        keys.append(offered[1].encode())
    parameters = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    keys += [value.encode() for name, value in parameters if name == KEY_PARAMETER]
    scope["query_string"] = urlencode([pair for pair in parameters if pair[0] != KEY_PARAMETER]).encode()
    return keys[0] if keys else None


def accepted_subprotocol(scope: Scope) -> str | None:
    """The subprotocol to answer with, if a key may have come with it."""
    return next((name for name in scope.get("subprotocols", ()) if name.lower() in (SUBPROTOCOL, *KEY_FOLLOWS)), None)


def _decoded(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (ValueError, binascii.Error):
        return b""
