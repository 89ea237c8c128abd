"""Exceptions as HTTP responses. All have the JSON shape of their path: see `error_shapes`."""

from __future__ import annotations

import logging
import math
import reprlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection

from kokoro_server.api import error_shapes
from kokoro_server.api.schemas.speech import TEXT_OR_PHONEMES
from kokoro_server.config.access import CHALLENGE
from kokoro_server.errors import (
    CLIENT_CLOSED_REQUEST,
    InvalidInput,
    KokoroError,
    TooBusy,
    Unauthorized,
    for_client,
    is_exhausted,
)
from kokoro_server.observability.logs import LoggedBefore, outage

log = logging.getLogger(__name__)
T = TypeVar("T")

MAX_COMPLAINTS = 5  # about one request
MESSAGES = {"extra_forbidden": "there is no such field", "missing": "is required"}  # in place of pydantic's
_CODES = {  # of HTTP's own errors
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "body_too_large",
    429: TooBusy.code,
}
_BRIEF = reprlib.Repr()
_BRIEF.maxother = _BRIEF.maxlong = 60


def error_response(
    request: HTTPConnection,
    status: int,
    code: str,
    message: str,
    field: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    path = request.url.path
    status, body = error_shapes.of_path(path)(status, code, message, field)
    return JSONResponse(body, status, headers={**error_shapes.headers(path, message), **(headers or {})})


async def on_kokoro_error(request: HTTPConnection, error: Exception) -> JSONResponse:
    assert isinstance(error, KokoroError)
    if error.status >= 500:
        log.error("request failed code=%s message=%s", error.code, error.message, extra=outage(error))
    error = for_client(error)
    headers = {"Retry-After": str(max(1, math.ceil(error.retry_after)))} if error.retry_after is not None else {}
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = CHALLENGE
    return error_response(request, error.status, error.code, error.message, error.field, headers)


async def on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    message, field = validation_message(error.errors())
    return error_response(request, InvalidInput.status, InvalidInput.code, message, field)


def validation_message(errors: Sequence[Mapping[str, Any]]) -> tuple[str, str | None]:
    """Returns pydantic's errors as one sentence that names each field, and the first of these fields."""
    # A default that hangs on a field that is wrong is not the caller's fault.
    errors = [item for item in errors if item["type"] != "default_factory_not_called"] or errors
    described = [_describe(item) for item in errors[:MAX_COMPLAINTS]]
    message = "; ".join(f"{field}: {text}" if field else text for field, text in described)
    if len(errors) > MAX_COMPLAINTS:
        message += f"; and {len(errors) - MAX_COMPLAINTS} more"
    return message, described[0][0] or None


def validated(validate: Callable[[Any], T], value: object, *, tagged: bool = False) -> T:
    """Returns what pydantic's `validate` makes of a value. Raises InvalidInput that names the wrong fields.

    `tagged`: the model is a union, whose tag is the first part of every place in it.
    """
    try:
        return validate(value)
    except ValidationError as error:
        complaints = [{**item, "loc": item["loc"][1:] if tagged else item["loc"]} for item in error.errors()]
        message, field = validation_message(complaints)
        raise InvalidInput(message, field=field) from error


def _describe(item: Mapping[str, Any]) -> tuple[str, str]:
    if item["type"] == "json_invalid":
        return "", f"the body is not valid JSON: {item['ctx']['error']} at character {item['loc'][-1]}"
    field = ".".join(str(part) for part in item["loc"] if part not in ("body", "path", "query"))
    text = MESSAGES.get(item["type"], item["msg"])
    if item["type"] == "missing" and not field:
        return "", "the body is missing"
    if item["type"] == TEXT_OR_PHONEMES:
        return "text", text
    if item["type"] not in ("missing", "extra_forbidden"):
        text += f" (got {_shortened(item['input'])})"
    return field, text


def _shortened(value: object) -> str:
    # A value may be megabytes: only the part that is shown becomes text.
    text = repr(value[:60]) if isinstance(value, str) else _BRIEF.repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


async def on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code, message = _CODES.get(error.status_code, "http_error"), str(error.detail)
    path = request.url.path if len(request.url.path) <= 60 else f"{request.url.path[:57]}..."
    if message == "Not Found":  # Starlette's own words
        message = f"there is no endpoint {path}; /docs lists them"
    elif message == "Method Not Allowed":
        message = f"{path} takes no {request.method}; /docs lists the endpoints"
    return error_response(request, error.status_code, code, message, headers=error.headers)


async def on_exhausted(request: HTTPConnection, error: Exception) -> JSONResponse:
    """For errors of which some pass by themselves. The others are raised again."""
    if not is_exhausted(error):
        raise error
    log.error("request failed error=%r", error)
    return await on_kokoro_error(request, for_client(error))


async def on_unexpected(request: Request, error: Exception) -> Response:
    if isinstance(error, LoggedBefore):  # the response has begun, and is broken off
        return Response(status_code=KokoroError.status)
    return await on_kokoro_error(request, for_client(error))


async def on_client_disconnect(_request: Request, _error: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED_REQUEST)  # only the access log sees it


HANDLERS: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    KokoroError: on_kokoro_error,
    RequestValidationError: on_invalid,
    HTTPException: on_http_error,
    ClientDisconnect: on_client_disconnect,
    OSError: on_exhausted,
    MemoryError: on_exhausted,
    RuntimeError: on_exhausted,
}


async def response_for(request: Request, error: Exception) -> Response:
    """The answer of the handler for this kind of error. An error without a handler is raised again."""
    for kind, handler in HANDLERS.items():
        if isinstance(error, kind):
            return await handler(request, error)
    raise error


def install(app: FastAPI) -> None:
    for kind, handler in HANDLERS.items():
        app.add_exception_handler(kind, handler)
    app.add_exception_handler(Exception, on_unexpected)
