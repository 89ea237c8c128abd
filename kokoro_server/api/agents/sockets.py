"""The WebSocket of an agent: a place for it, its messages, and audio at the pace at which the client reads."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar

from fastapi import WebSocket, WebSocketDisconnect
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json
from starlette.websockets import WebSocketState

from kokoro_server.api import errors
from kokoro_server.api.middleware.stream_slots import StreamPlaces
from kokoro_server.errors import BadRequest, InvalidInput, KokoroError, TextTooLong, for_client

log = logging.getLogger(__name__)
T = TypeVar("T")

MAX_MESSAGE = 16_384  # characters
MAX_AUDIO_MESSAGE = 16_384  # bytes: a third of a second of 16-bit samples at 24 kHz
INTERNAL_ERROR = for_client(Exception()).message


async def converse(
    socket: WebSocket, conversation: Callable[[], Awaitable[None]], headers: Mapping[str, str] | None = None
) -> None:
    """Accept the socket, if there is a place for it, and run the conversation until it ends or the client leaves.

    `headers`: of the answer to the handshake.
    """
    places: StreamPlaces = socket.app.state.places
    try:
        places.take()
    except KokoroError as error:
        await refuse(socket, error)
        return
    try:
        await socket.accept(headers=[(name.encode(), value.encode()) for name, value in (headers or {}).items()])
        log.info("agent connected")
        await conversation()
    except WebSocketDisconnect as end:
        log.info("agent left code=%d", end.code)
    finally:
        places.release()


async def refuse(socket: WebSocket, error: KokoroError) -> None:
    """Answer the handshake with an error."""
    log.warning("agent refused message=%s", error.message)
    await socket.send_denial_response(await errors.on_kokoro_error(socket, error))


async def messages(socket: WebSocket) -> AsyncIterator[str | None]:
    """The client's messages; None for a binary one. At the end of the connection it raises WebSocketDisconnect."""
    while True:
        received = await socket.receive()
        if received["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(received.get("code", 1006))
        yield received.get("text")
        await asyncio.sleep(0)  # messages that are there already are received without a turn of the loop


def parsed(text: str | None, model: TypeAdapter[T], *, tagged: bool = False) -> T:
    """A message that was sent as JSON. `tagged`: the model is a union by `type`. Raises KokoroError."""
    if text is None:
        raise BadRequest("messages are JSON text, not binary")
    if len(text) > MAX_MESSAGE:
        raise TextTooLong(f"the message has {len(text)} characters; at most {MAX_MESSAGE} are allowed")
    try:
        value = from_json(text)
    except ValueError as error:
        raise BadRequest(f"the message is not JSON: {error}") from error
    return validated(value, model, tagged=tagged)


def validated(value: Any, model: TypeAdapter[T], *, tagged: bool = False) -> T:
    """`parsed` of a message that is no text any more."""
    try:
        return model.validate_python(value)
    except ValidationError as error:
        # The first part of a `loc` is the tag.
        complaints = [{**item, "loc": item["loc"][1:] if tagged else item["loc"]} for item in error.errors()]
        message, field = errors.validation_message(complaints)
        raise InvalidInput(message, field=field) from error


async def send_json(socket: WebSocket, message: Mapping[str, Any], seconds: float = 0.0) -> None:
    """Sends unless the socket is closed. `seconds`: of audio in the message."""
    if is_open(socket):
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        await socket.send({"type": "websocket.send", "text": text, "seconds": seconds})


async def send_audio(socket: WebSocket, data: bytes, seconds: float) -> None:
    """In binary messages."""
    for part, part_seconds in audio_parts(data, seconds):
        # `seconds` is for our WebSocketProtocol, which keeps what is sent near to what has been read.
        await socket.send({"type": "websocket.send", "bytes": part, "seconds": part_seconds})


def audio_parts(data: bytes, seconds: float) -> Iterator[tuple[bytes, float]]:
    """`data` in parts for one message each, with the seconds that each plays."""
    for start in range(0, len(data), MAX_AUDIO_MESSAGE):
        part = data[start : start + MAX_AUDIO_MESSAGE]
        yield part, seconds * len(part) / len(data)


async def close(socket: WebSocket, code: int = 1000, reason: str | None = None) -> None:
    """Closes the socket unless it is closed already."""
    if is_open(socket):
        await socket.close(code, reason)


def is_open(socket: WebSocket) -> bool:
    return socket.application_state is WebSocketState.CONNECTED
