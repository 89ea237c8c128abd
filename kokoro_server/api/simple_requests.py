"""The simplest requests for speech: plain text, the fields of an HTML form, and a URL with everything in its query."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request, Response
from starlette.datastructures import Headers, MutableHeaders

from kokoro_server.api.errors import validated
from kokoro_server.api.middleware.fast_path import FastPathRoute
from kokoro_server.api.schemas.script import MAX_FIELDS
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.errors import BadRequest, InvalidInput
from kokoro_server.runtime.json import JsonObject

PLAIN, FORM, JSON = "text/plain", "application/x-www-form-urlencoded", "application/json"
WORDS = {"true": True, "false": False}

RouteHandler = Callable[[Request], Coroutine[Any, Any, Response]]


class SimpleRoute(FastPathRoute):
    """Also takes plain text, whose other fields are in the query, and HTML forms."""

    def get_route_handler(self) -> RouteHandler:
        handle = super().get_route_handler()

        async def handle_simple(request: Request) -> Response:
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
    if is_form and content.lstrip()[:1] == b"{":  # curl calls all data of `-d` a form
        return content
    fields = _fields(request.scope["query_string"], "the query")
    if is_form:
        fields |= _fields(content, "the form")
    else:
        fields["text"] = _decoded(content, "the text")
    return json.dumps(fields).encode()


def _fields(content: bytes, subject: str) -> JsonObject:
    """The fields of a query or a form. An empty one is absent, as in a form that was not filled in."""
    try:
        pairs = parse_qsl(_decoded(content, subject), errors="strict", max_num_fields=MAX_FIELDS)
    except UnicodeDecodeError:
        raise BadRequest(f"{subject} is not UTF-8") from None
    except ValueError:
        raise InvalidInput(f"{subject} has too many fields; at most {MAX_FIELDS} are allowed") from None
    fields: JsonObject = dict(pairs)
    if normalize := fields.get("normalize"):
        fields["normalize"] = WORDS.get(normalize.lower(), normalize.split(","))
    return fields


def _decoded(content: bytes, subject: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadRequest(f"{subject} is not UTF-8") from None


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
