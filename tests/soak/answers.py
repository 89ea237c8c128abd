"""What a client got: a status and a length of sound, or how it failed."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import count, takewhile
from typing import Any

import httpx
import numpy as np
import soundfile
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from kokoro_server.server.ipc.wire import ERRORS

OK, REFUSED = 200, 429
STATUSES = {error.code: error.status for error in ERRORS.values()}  # of the codes that sockets send
NOT_ON_SOCKETS = "a socket's errors have none"
SILENCE = 1e-4  # of full scale, the loudest sample
BLOCK = 65_536  # samples


class Client(httpx.AsyncClient):
    """An HTTP client that also knows the address of the server's Wyoming port, if there is one."""

    wyoming = ""


class FalseAnswer(Exception):
    """An answer that claims to be right and is not."""


class BrokenOff(Exception):
    """A connection that ended within an answer, where the client notices."""


class ErrorEvent(Exception):
    """A socket's way to refuse. Its only argument is the error's code."""


@dataclass(frozen=True)
class Answer:
    status: int
    content: bytes = field(default=b"", repr=False)
    retry_after: str | None = None
    seconds: float | None = None  # of sound; None where no length is to be expected

    @property
    def is_right(self) -> bool:
        return self.status < 300

    def json(self) -> Any:
        return json.loads(self.content)

    def sound(self, format: str, rate: int = 24_000) -> Answer:
        """The same with the length of its content, which is a sound. Raises FalseAnswer if it is none."""
        return replace(self, seconds=seconds_of(self.content, format, rate)) if self.is_right else self

    def sounds(self, length: Callable[[Answer], float]) -> Answer:
        """The same with a length that is found out only of a right answer."""
        return replace(self, seconds=length(self)) if self.is_right else self


def seconds_of(data: bytes, format: str, rate: int = 24_000) -> float:
    """The length of a file that can be decoded and is not silent; else raises FalseAnswer. `rate` is that of pcm."""
    try:
        if format == "pcm":
            samples = np.frombuffer(data, "<i2").astype(np.float32) / 2**15
        elif format == "aac":
            from tests.audio_files import decode  # where the server writes aac, PyAV is installed

            samples, rate = decode(data, format), 24_000
        else:
            with soundfile.SoundFile(io.BytesIO(data)) as file:
                rate = file.samplerate
                file.seekable = lambda: False  # a streamed flac does not know its length, and seeking in it fails
                blocks = takewhile(len, (file.read(BLOCK, "float32") for _ in count()))
                samples = np.concatenate([np.zeros(0, np.float32), *blocks])
    except (ValueError, OSError, soundfile.LibsndfileError) as error:
        raise FalseAnswer(f"{len(data)} bytes are no {format}: {error}") from error
    if not samples.size or np.abs(samples).max() < SILENCE:
        raise FalseAnswer(f"{len(data)} bytes of {format} are silence")
    return len(samples) / rate


async def ask(client: Client, path: str, body: Any = None, *, method: str = "POST", **options: Any) -> Answer:
    """Read an answer to its end. `options` are httpx's."""
    given = options if body is None else {"json": body, **options}
    async with client.stream(method, path, **given) as answer:
        try:
            content = await answer.aread()
        except httpx.TransportError as error:
            if isinstance(error, httpx.TimeoutException):
                raise
            raise BrokenOff(f"{type(error).__name__}: {error}") from error
    return Answer(answer.status_code, content, answer.headers.get("retry-after"))


@asynccontextmanager
async def socket(client: Client, path: str) -> AsyncIterator[ClientConnection]:
    url = f"{str(client.base_url).replace('http', 'ws', 1).rstrip('/')}{path}"
    async with connect(url, max_size=2**24, open_timeout=60, ping_timeout=None, close_timeout=10) as connection:
        yield connection


def on_socket(
    kind: Callable[[Client, Any], Awaitable[Answer]],
) -> Callable[[Client, Any], Awaitable[Answer]]:
    """A kind of request that raises ErrorEvent, or whose handshake may be refused: both become answers."""

    @wraps(kind)
    async def asked(client: Client, chance: Any) -> Answer:
        try:
            return await kind(client, chance)
        except ErrorEvent as error:
            return Answer(STATUSES.get(str(error).lower(), 500), str(error).encode(), NOT_ON_SOCKETS)
        except InvalidStatus as refusal:
            response = refusal.response
            return Answer(response.status_code, response.body or b"", response.headers.get("retry-after"))

    return asked
