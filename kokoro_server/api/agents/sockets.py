"""The WebSocket of an agent: its place among the streams, its messages, and audio at the pace of the client."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from fastapi import WebSocket, WebSocketDisconnect
from pydantic import TypeAdapter
from pydantic_core import from_json
from starlette.websockets import WebSocketState

from kokoro_server.api import errors
from kokoro_server.api.agents.session import AgentSession, File, SessionListener, agent_session
from kokoro_server.api.agents.text import AgentText
from kokoro_server.api.state import app_state
from kokoro_server.errors import BadRequest, KokoroError, TextTooLong, for_client

log = logging.getLogger(__name__)
T = TypeVar("T")

MAX_MESSAGE = 16_384  # characters
MAX_AUDIO_MESSAGE = 16_384  # bytes: a third of a second of 16-bit samples at 24 kHz
INTERNAL_ERROR = for_client(Exception()).message


async def converse(
    socket: WebSocket, conversation: Callable[[], Awaitable[None]], headers: Mapping[str, str] | None = None
) -> None:
    """Accepts the socket if a place is free, and runs the conversation until it ends or the client leaves.

    `headers` are sent in the answer to the handshake.
    """
    try:
        leave = app_state(socket).places.take()
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
        leave()


async def refuse(socket: WebSocket, error: KokoroError) -> None:
    """Answers the handshake with an error."""
    log.warning("agent refused message=%s", error.message)
    await socket.send_denial_response(await errors.on_kokoro_error(socket, error))


async def messages(socket: WebSocket) -> AsyncIterator[str | None]:
    """Yields the client's messages; None for a binary one. Raises WebSocketDisconnect when the connection ends."""
    while True:
        received = await socket.receive()
        if received["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(received.get("code", 1006))
        yield received.get("text")
        await asyncio.sleep(0)  # messages that have arrived already are received without yielding to the event loop


async def answer_messages(
    socket: WebSocket,
    model: TypeAdapter[T],
    handle: Callable[[T], Awaitable[None]],
    on_error: Callable[[KokoroError], Awaitable[None]],
    *,
    tagged: bool = False,
) -> None:
    """Handles message after message until the connection ends, which raises WebSocketDisconnect."""
    async for text in messages(socket):
        try:
            await handle(parsed(text, model, tagged=tagged))
        except KokoroError as error:
            await on_error(error)


def parsed(text: str | None, model: TypeAdapter[T], *, tagged: bool = False) -> T:
    """Returns a message that was sent as JSON. `tagged`: the model is a union by `type`. Raises KokoroError."""
    if text is None:
        raise BadRequest("messages are JSON text, not binary")
    if len(text) > MAX_MESSAGE:
        raise TextTooLong(f"the message has {len(text)} characters; at most {MAX_MESSAGE} are allowed")
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise BadRequest(f"the message is not JSON: {error}") from error
    return errors.validated(model.validate_python, value, tagged=tagged)


async def send_json(socket: WebSocket, message: Mapping[str, Any], seconds: float = 0.0) -> None:
    """Sends unless the socket is closed. `seconds`: how long the audio in the message plays."""
    if is_open(socket):
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        await socket.send({"type": "websocket.send", "text": text, "seconds": seconds})


def audio_parts(data: bytes, seconds: float) -> Iterator[tuple[bytes, float]]:
    """Yields `data` in parts, one for each message, with the seconds that each plays."""
    for start in range(0, len(data), MAX_AUDIO_MESSAGE):
        part = data[start : start + MAX_AUDIO_MESSAGE]
        yield part, seconds * len(part) / len(data)


async def close(socket: WebSocket, code: int = 1000, reason: str | None = None) -> None:
    """Closes the socket unless it is closed."""
    if is_open(socket):
        await socket.close(code, reason)


def is_open(socket: WebSocket) -> bool:
    return socket.application_state is WebSocketState.CONNECTED


class SocketListener(SessionListener):
    """Sends JSON messages with a `type`, and audio between them. Closes the socket at the end of the session.

    The session lasts for the block of `speaking`, or from `start` to `stop`. Its end drops everything unsent.
    """

    _session: AgentSession
    _text: AgentText

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._stack = AsyncExitStack()

    @asynccontextmanager
    async def speaking(self, file: File = "turn") -> AsyncIterator[None]:
        state = app_state(self._socket)
        async with agent_session(state, self, file) as self._session:
            self._text = AgentText(self._session, state.services)
            yield

    async def start(self) -> None:
        await self._stack.enter_async_context(self.speaking())

    async def stop(self) -> None:
        await self._stack.aclose()

    async def send(self, type: str, **fields: Any) -> None:
        await send_json(self._socket, {"type": type, **fields})

    async def on_audio(self, data: bytes, seconds: float) -> None:
        for part, part_seconds in audio_parts(data, seconds):
            # Our WebSocketProtocol reads `seconds`: it sends no more than a few seconds ahead of the client.
            await self._socket.send({"type": "websocket.send", "bytes": part, "seconds": part_seconds})

    async def on_end(self) -> None:
        await close(self._socket)

    async def on_failure(self) -> None:
        await close(self._socket, 1011, INTERNAL_ERROR)
