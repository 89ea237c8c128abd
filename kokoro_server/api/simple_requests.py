"""The simplest requests for speech: plain text, the fields of an HTML form, and a URL with everything in its query."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request, Response
from starlette.datastructures import Headers, MutableHeaders

from kokoro_server.api.errors import validated
from kokoro_server.api.middleware.fast_path import FastPathRoute
from kokoro_server.api.schemas.script import MAX_FIELDS
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.errors import BadRequest, InvalidInput, NotJson, TextTooLong
from kokoro_server.runtime.json import JsonObject

PLAIN, FORM, JSON = "text/plain", "application/x-www-form-urlencoded", "application/json"
MULTIPART = "multipart/form-data"
WORDS = {"true": True, "false": False}
MAX_FORM = 1_000_000  # bytes: a letter is up to nine of a form's, and to take these apart takes time

RouteHandler = Callable[[Request], Coroutine[Any, Any, Response]]


class SimpleRoute(FastPathRoute):
    """Also takes plain text, whose other fields are in the query, and HTML forms."""

    def get_route_handler(self) -> RouteHandler:
        handle = super().get_route_handler()

        async def handle_simple(request: Request) -> Response:
            if request.method == "POST" and _media_type(request) == MULTIPART:
                raise NotJson(f"Content-Type: must be {JSON}, {PLAIN} or {FORM} (got {MULTIPART})")
            is_simple = request.method == "POST" and _media_type(request) in (PLAIN, FORM)
            return await handle(await _AsJson.of(request) if is_simple else request)

        return handle_simple


class _AsJson(Request):
    """A request whose body has become JSON."""

    @classmethod
    async def of(cls, request: Request) -> _AsJson:
        made = cls(request.scope, request.receive)
        made._body = await _json_body(request)
        return made

    @property
    def headers(self) -> Headers:
        headers = MutableHeaders(raw=list(self.scope["headers"]))
        headers["content-type"] = JSON
        return headers


def query_request(request: Request) -> TTSRequest:
    """The request of a URL. Raises KokoroError if it is not possible."""
    return validated(TTSRequest.model_validate, _fields(request.scope["query_string"], "the query"))


async def _json_body(request: Request) -> bytes:
    content = await request.body()
    is_form = _media_type(request) == FORM
    if content[:100].lstrip()[:1] == b"{" and (is_form or await asyncio.to_thread(_is_json, content)):
        return content  # curl calls all data of `-d` a form, and a browser's `fetch` calls all strings plain text
    fields = _fields(request.scope["query_string"], "the query")
    if not is_form:
        fields = _once([*fields.items(), ("text", _decoded(content, "the text"))])
    elif len(content) > MAX_FORM:
        raise TextTooLong(f"the form has {len(content)} bytes; at most {MAX_FORM} are allowed: send JSON")
    else:
        fields |= await asyncio.to_thread(_fields, content, "the form")
    return json.dumps(fields).encode()


def _is_json(content: bytes) -> bool:
    try:
        return isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        return False


def _fields(content: bytes, subject: str) -> JsonObject:
    """The fields of a query or a form. An empty one is absent, as in a form that was not filled in.

    What is no field stays, to be refused: it may be the rest of a text with a bare `&` in it.
    """
    try:
        text = _decoded(content, subject)
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except UnicodeDecodeError:
        raise BadRequest(f"{subject} is not UTF-8") from None
    except ValueError:
        raise InvalidInput(f"{subject} has too many fields; at most {MAX_FIELDS} are allowed") from None
    fields = _once([(name, value) for name, value in pairs if value or name not in TTSRequest.model_fields])
    if normalize := fields.get("normalize"):
        fields["normalize"] = WORDS.get(normalize.lower(), normalize.split(","))
    return fields


def _once(pairs: Sequence[tuple[str, Any]]) -> JsonObject:
    fields: JsonObject = {}
    for name, value in pairs:
        if name in fields:
            raise InvalidInput(f"{name}: is given more than once", field=name)
        fields[name] = value
    return fields


def _decoded(content: bytes, subject: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadRequest(f"{subject} is not UTF-8") from None


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
