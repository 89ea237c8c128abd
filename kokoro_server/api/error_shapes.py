"""Error bodies by path: each protocol's clients expect their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from kokoro_server.errors import UnknownVoice
from kokoro_server.observability.logs import request_id
from kokoro_server.runtime.json import JsonObject

# Maps status, code, message and field to a status and a body.
ErrorShape = Callable[[int, str, str, str | None], tuple[int, JsonObject]]


OPENAI_FIELDS = {"text": "input", "format": "response_format"}  # OpenAI's names of our fields
MAX_REASON = 500  # characters, of a header
_UNPRINTABLE = re.compile(r"[^ -~]")


def _own(status: int, code: str, message: str, field: str | None) -> tuple[int, JsonObject]:
    return status, {"error": {"code": code, "message": message, "field": field}}


def openai_error(status: int, code: str, message: str, field: str | None) -> tuple[int, JsonObject]:
    """OpenAI's error body. Its status for any bad field is 400."""
    if status in (413, 422):
        status = 400
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    param = OPENAI_FIELDS.get(field, field) if field else None
    return status, {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _kokoro_fastapi(status: int, code: str, message: str, field: str | None) -> tuple[int, JsonObject]:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return status, {"detail": {"error": code, "message": message, "type": kind, "field": field}}


def _deepgram(status: int, code: str, message: str, _field: str | None) -> tuple[int, JsonObject]:
    # Deepgram's SDK has an exception for 400 only.
    status = 400 if status == 422 else status
    return status, {"err_code": code.upper(), "err_msg": message, "request_id": request_id.get()}


def cartesia_error(status: int, code: str, message: str, field: str | None) -> tuple[int, JsonObject]:
    """Cartesia's error body."""
    status = 400 if status == 422 else status
    title = code.replace("_", " ").capitalize()
    body = {"error_code": code, "title": title, "message": message, "field": field, "request_id": request_id.get()}
    return status, body


def _elevenlabs(status: int, code: str, message: str, _field: str | None) -> tuple[int, JsonObject]:
    if code == UnknownVoice.code:
        code = "voice_not_found"  # with 400: at a 404, LiteLLM's proxy sends this server nothing for a while
    return status, {"detail": {"status": code, "message": message}}


# The first match counts.
_SHAPES: tuple[tuple[re.Pattern[str], ErrorShape], ...] = (
    (re.compile(r"/dev/"), _kokoro_fastapi),
    (re.compile(r"/deepgram/|/v[12]/speak\b"), _deepgram),
    (re.compile(r"/cartesia/|/tts/(?:bytes|sse|websocket)\b"), cartesia_error),
    (re.compile(r"/elevenlabs/|/v1/text-to-(?:speech/|dialogue\b)|/v[12]/voices(/|$)|/v1/user(/|$)"), _elevenlabs),
    (re.compile(r"/v1/"), openai_error),
)


@lru_cache(1024)
def of_path(path: str) -> ErrorShape:
    """The shape of the errors below a path."""
    return next((shape for pattern, shape in _SHAPES if pattern.match(path)), _own)


def headers(path: str, message: str) -> dict[str, str]:
    """Headers for Deepgram's clients, which do not see the body of a refused handshake."""
    if of_path(path) is not _deepgram:
        return {}
    reason = message.encode("ascii", "backslashreplace").decode()[:MAX_REASON]
    return {"dg-error": _UNPRINTABLE.sub(" ", reason), "dg-request-id": request_id.get()}
