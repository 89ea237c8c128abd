"""Events on the wire: a line of JSON, then data in JSON and a payload, whose lengths the line gives.

The `wyoming` package reads any length that a line promises, and takes a malformed event for the end of the connection.
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
from kokoro_server.runtime.json import JsonObject

T = TypeVar("T")
LINE_END = b"\n"
BYTES_PER_CHARACTER = 6  # of a text in JSON, at most: \u00e9; only rare characters take twice that
OTHER_BYTES = 16_384  # of the JSON around a text
DISCARDED_AT_ONCE = 65_536  # bytes of a payload
MAX_VALUES = 100  # in the data of an event that waits its turn: a text and a voice are five, each of 50 bytes and more


class Header(BaseModel):
    """The line. Other keys are ignored."""

    type: str
    data: JsonObject | None = None
    data_length: Annotated[int, Field(ge=0)] | None = None
    payload_length: Annotated[int, Field(ge=0)] | None = None


HEADER = TypeAdapter(Header)
DATA: TypeAdapter[JsonObject] = TypeAdapter(JsonObject)


class EventReader:
    """Reads events whose texts have at most `max_text` characters. An event must be complete within `seconds`.

    After an error the reader is of no further use: the start of the next event is unknown.
    """

    def __init__(self, reader: asyncio.StreamReader, max_text: int, max_payload: int, seconds: float) -> None:
        self._reader = reader
        self._max_json = BYTES_PER_CHARACTER * max_text + OTHER_BYTES
        self._max_payload = max_payload
        self._seconds = seconds
        self._first = b""

    async def begin(self) -> None:
        """Waits without limit for the beginning of an event, or for the end of the connection."""
        self._first = self._first or await self._reader.read(1)

    async def read(self) -> Event | None:
        """Returns the event that has begun; None at the end. Its payload is dropped: no known event needs one."""
        first, self._first = self._first, b""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._read(first) if first else None
        except TimeoutError:
            raise BadRequest(f"an event took longer than the {self._seconds:g} s allowed (READ_TIMEOUT)") from None
        except asyncio.IncompleteReadError:  # the client left before the end of the event
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
            except asyncio.LimitOverrunError as error:  # the line is longer than the reader's buffer
                line += await self._reader.readexactly(error.consumed)
            self._check_json(len(line))
        return line

    def _check_json(self, length: int) -> None:
        if length > self._max_json:
            raise TextTooLong(
                f"the event has more than {self._max_json} bytes of JSON, the most for a text of MAX_TEXT_LENGTH"
            )

    async def _discard(self, length: int) -> None:
        if length > self._max_payload:
            raise TextTooLong(
                f"the payload has {length} bytes; at most {self._max_payload} are allowed (MAX_BODY_SIZE)"
            )
        while length:
            length -= len(await self._reader.readexactly(min(length, DISCARDED_AT_ONCE)))


def _parsed(text: bytes, model: TypeAdapter[T]) -> T:
    try:
        return model.validate_python(from_json(text))
    except ValidationError as error:
        raise BadRequest(f"not a Wyoming event: {errors.validation_message(error.errors())[0]}") from None
    except ValueError as error:
        raise BadRequest(f"not a Wyoming event: a line of JSON was expected ({error})") from None


def check_values(event: Event) -> None:
    """Raises BadRequest for data of many values, which take thirty times the memory of their JSON."""
    if _count_values(event.data) > MAX_VALUES:
        raise BadRequest(f"{event.type}: its data has more than the {MAX_VALUES} values allowed")


def _count_values(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count_values, inner))


def content(event: Event, model: TypeAdapter[T]) -> T:
    """Returns an event's data as one of the package's types. Raises InvalidInput if a field is wrong."""
    try:
        return errors.validated(model.validate_python, event.data)
    except InvalidInput as error:
        raise InvalidInput(f"{event.type}: {error.message}", field=error.field) from None


class EventWriter:
    """Sends events. If a client reads nothing for `seconds`, `on_stalled` is called and the connection aborted."""

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
