"""Events on the wire: a line of JSON, then data in JSON and a payload, each as long as the line says.

The `wyoming` package would read whatever a line promises, and takes what it cannot read for the end of the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import from_json
from wyoming.event import Event, Eventable, async_write_event

from kokoro_server.api import errors
from kokoro_server.errors import BadRequest, InvalidInput, TextTooLong

T = TypeVar("T")
LINE_END = b"\n"
BYTES_PER_CHARACTER = 6  # of a text in JSON, at most, but for the rare ones that take twice that: \u00e9
OTHER_BYTES = 16_384  # of the JSON around a text
DISCARDED_AT_ONCE = 65_536  # bytes of a payload


class Header(BaseModel):
    """The line. Anything else in it is ignored."""

    type: str
    data: dict[str, Any] | None = None
    data_length: Annotated[int, Field(ge=0)] | None = None
    payload_length: Annotated[int, Field(ge=0)] | None = None


HEADER = TypeAdapter(Header)
DATA: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


class EventReader:
    """Reads events, in which a text may be as long as `max_text` says. An event must be whole within `seconds`.

    After an error it cannot tell where the next event begins.
    """

    def __init__(self, reader: asyncio.StreamReader, max_text: int, max_payload: int, seconds: float) -> None:
        self._reader = reader
        self._max_json = BYTES_PER_CHARACTER * max_text + OTHER_BYTES
        self._max_payload = max_payload
        self._seconds = seconds
        self._first = b""

    async def begin(self) -> None:
        """Wait for the beginning of an event, or for the end of the connection, however long that takes."""
        self._first = self._first or await self._reader.read(1)

    async def read(self) -> Event | None:
        """The rest of the event that has begun, without its payload: no event that we know has one. None at the end."""
        first, self._first = self._first, b""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._read(first) if first else None
        except TimeoutError:
            raise BadRequest(f"an event took longer than the {self._seconds:g} s allowed (READ_TIMEOUT)") from None
        except asyncio.IncompleteReadError:  # the client has left in the middle of it
            return None

    async def _read(self, first: bytes) -> Event:
        header = _parsed(await self._line(first), HEADER)
        data = header.data or {}
        if length := header.data_length:
            self._check_json(length)
            more = _parsed(await self._reader.readexactly(length), DATA)
            data = {**data, **more}
        await self._discard(header.payload_length or 0)
        return Event(header.type, data)

    async def _line(self, line: bytes) -> bytes:
        while not line.endswith(LINE_END):
            try:
                line += await self._reader.readuntil(LINE_END)
            except asyncio.LimitOverrunError as error:  # the line is longer than what a reader keeps
                line += await self._reader.readexactly(error.consumed)
            self._check_json(len(line))
        return line

    def _check_json(self, length: int) -> None:
        if length > self._max_json:
            raise TextTooLong(
                f"an event with more than {self._max_json} bytes of JSON; longer texts than MAX_TEXT_LENGTH are refused"
            )

    async def _discard(self, length: int) -> None:
        if length > self._max_payload:
            raise TextTooLong(f"a payload of {length} bytes; at most {self._max_payload} are allowed (MAX_BODY_SIZE)")
        while length:
            length -= len(await self._reader.readexactly(min(length, DISCARDED_AT_ONCE)))


def _parsed(text: bytes, model: TypeAdapter[T]) -> T:
    try:
        return model.validate_python(from_json(text))
    except ValidationError as error:
        raise BadRequest(f"not an event of Wyoming: {errors.validation_message(error.errors())[0]}") from None
    except ValueError as error:
        raise BadRequest(f"not an event of Wyoming: a line of JSON was expected ({error})") from None


def content(event: Event, model: TypeAdapter[T]) -> T:
    """The data of an event as one of the package's types. Raises InvalidInput if it does not have that form."""
    try:
        return model.validate_python(event.data)
    except ValidationError as error:
        message, field = errors.validation_message(error.errors())
        raise InvalidInput(f"{event.type}: {message}", field=field) from None


class EventWriter:
    """Sends events. A client that takes nothing for `seconds` is let go, and `on_stalled` is called."""

    def __init__(self, writer: asyncio.StreamWriter, seconds: float, on_stalled: Callable[[], None]) -> None:
        self._writer = writer
        self._seconds = seconds
        self._on_stalled = on_stalled

    async def send(self, message: Eventable) -> None:
        """Waits while the connection's buffers are full. Raises ConnectionError if the client has left."""
        try:
            async with asyncio.timeout(self._seconds):
                await async_write_event(message.event(), self._writer)
        except TimeoutError:
            self._on_stalled()
            self._writer.transport.abort()
            raise ConnectionAbortedError("the client took nothing") from None
        except OSError as error:
            raise ConnectionResetError("the client has left") from error
