"""Errors as answers: one JSON shape for all of them, `{"error": {code, message, field}}`; OpenAI's below `/v1`."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from kokoro_server.api import openai_schemas
from kokoro_server.api.context import CLIENT_GONE
from kokoro_server.api.schemas import TEXT_OR_PHONEMES
from kokoro_server.errors import InvalidInput, KokoroError

log = logging.getLogger(__name__)


def answer(
    request: Request,
    status: int,
    code: str,
    message: str,
    field: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    body: dict[str, Any] = {"error": {"code": code, "message": message, "field": field}}
    if request.url.path.startswith(openai_schemas.PREFIX):
        status, shaped = openai_schemas.error_answer(status, code, message, field)
        body = shaped.model_dump()
    return JSONResponse(body, status, headers=dict(headers) if headers else None)


async def on_kokoro_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, KokoroError)
    if error.status >= 500:
        log.error("request failed code=%s message=%s", error.code, error.message)
    headers = {"Retry-After": str(max(1, math.ceil(error.retry_after)))} if error.retry_after is not None else None
    return answer(request, error.status, error.code, error.message, error.field, headers)


async def on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    message, field = in_words(error.errors())
    return answer(request, InvalidInput.status, InvalidInput.code, message, field)


def in_words(errors: Sequence[Mapping[str, Any]]) -> tuple[str, str | None]:
    """Pydantic's list of complaints as one sentence that names each field; and the first field."""
    complaints = [_complaint(item) for item in errors]
    message = "; ".join(f"{field}: {text}" if field else text for field, text in complaints)
    return message, complaints[0][0] or None


def _complaint(item: Mapping[str, Any]) -> tuple[str, str]:
    if item["type"] == "json_invalid":
        return "", f"the body is not valid JSON: {item['ctx']['error']} at character {item['loc'][-1]}"
    field = ".".join(str(part) for part in item["loc"] if part != "body")
    text = item["msg"]
    if item["type"] == TEXT_OR_PHONEMES:
        return "text", text
    if item["type"] not in ("missing", "extra_forbidden"):
        text += f" (got {_shortened(item['input'])})"
    return field, text


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


async def on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return answer(request, error.status_code, "http_error", str(error.detail), headers=error.headers)


async def on_unexpected(request: Request, _error: Exception) -> JSONResponse:
    return answer(request, 500, "internal_error", "something went wrong on the server; its log has the details")


async def on_client_gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=CLIENT_GONE)  # for the log: nobody is there to read it


HANDLERS: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    KokoroError: on_kokoro_error,
    RequestValidationError: on_invalid,
    HTTPException: on_http_error,
    ClientDisconnect: on_client_gone,
}


async def answer_to(request: Request, error: Exception) -> Response:
    """For an error that there is an answer to; any other is raised again."""
    for kind, handle in HANDLERS.items():
        if isinstance(error, kind):
            return await handle(request, error)
    raise error


def install(app: FastAPI) -> None:
    for kind, handle in HANDLERS.items():
        app.add_exception_handler(kind, handle)
    app.add_exception_handler(Exception, on_unexpected)
