"""The G2P service's error responses, in the speech server's form: `{"error": {code, message, field}}`.

The speech server's own handlers are not used, as they would bring all of it into this process.
"""

from __future__ import annotations

import logging
import math

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from kokoro_server.errors import InvalidInput, KokoroError

log = logging.getLogger(__name__)


def install(app: FastAPI) -> None:
    app.add_exception_handler(KokoroError, _on_kokoro_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_unexpected)


def _response(status: int, code: str, message: str, field: str | None = None) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message, "field": field}}, status)


async def _on_kokoro_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, KokoroError)
    if error.status >= 500:
        log.error("request failed code=%s message=%s", error.code, error.message)
    response = _response(error.status, error.code, error.message, error.field)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    return response


async def _on_invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return _response(InvalidInput.status, InvalidInput.code, f"the body is not valid JSON: {first['ctx']['error']}")
    field = ".".join(str(part) for part in first["loc"] if part != "body")
    message = f"{field}: {first['msg']}" if field else str(first["msg"])
    return _response(InvalidInput.status, InvalidInput.code, message, field or None)


async def _on_http_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _response(error.status_code, "http_error", str(error.detail))


async def _on_unexpected(_request: Request, _error: Exception) -> JSONResponse:
    return _response(500, KokoroError.code, "something went wrong in the G2P service; its log has the details")
