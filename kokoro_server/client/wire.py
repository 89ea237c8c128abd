"""The HTTP side of both clients: headers, bodies, parsing of responses, timeouts and retries. Does no I/O."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from kokoro_server.client.errors import BrokenOff, ClientError, ClipFailed, ServerError, TimedOut, Unreachable
from kokoro_server.client.values import AudioClip, CaptionedChunk, Latency, captioned_chunk, join_chunks

DEFAULT_URL = "http://127.0.0.1:8880"
NDJSON = {"Accept": "application/x-ndjson"}
API_KEY_VARIABLE = "KOKORO_API_KEY"
PAGES = ("text/", "application/json", "application/xml", "application/xhtml")  # begin the types of what is no audio
FORMATS = {  # by media type: the server may have a default of its own
    "audio/pcm": "pcm",
    "audio/mpeg": "mp3",
    "audio/ogg": "opus",
    "audio/flac": "flac",
    "audio/aac": "aac",
}
MAX_EVENT = 16 << 20  # bytes; our server's have some hundred thousand

Body = dict[str, Any]
ClipRequest = str | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait for the next bytes from the server, by kind of request."""

    connect: float = 5.0
    health: float = 0.5
    synthesis: float = 10.0  # of a short text
    stream: float = 15.0  # between two chunks
    batch: float = 600.0  # all clips of a batch come at once, when the last one is ready

    def reading(self, seconds: float) -> httpx.Timeout:
        return httpx.Timeout(seconds, connect=min(self.connect, seconds))


@dataclass(frozen=True, slots=True)
class Retries:
    """How often to try when the server is too busy (429) or one of its processes restarts (503)."""

    tries: int = 3  # in all
    longest_wait: float = 10.0  # seconds; a server that asks for more is not asked again

    def delay(self, error: ServerError, tried: int) -> float | None:
        """Seconds to wait before the next try; None if there is to be no other."""
        if error.status not in (429, 503) or tried >= self.tries:
            return None
        wait = error.retry_after if error.retry_after is not None else 0.5 * 2 ** (tried - 1)
        return wait if wait <= self.longest_wait else None


def headers(api_key: str | None, more: Mapping[str, str] | None) -> dict[str, str]:
    """Headers of every request: the key, by default the environment's, and the caller's own headers."""
    key = (api_key if api_key is not None else os.environ.get(API_KEY_VARIABLE, "")).strip()
    if not key:
        return dict(more or {})
    if not (key.isascii() and key.isprintable()):
        raise ValueError(f"api_key, or {API_KEY_VARIABLE}, holds characters that a key cannot have")
    return {"Authorization": f"Bearer {key}", **(more or {})}


def batch_body(requests: Sequence[ClipRequest], voice: str | None, optimize_for_latency: bool) -> Body:
    defaults: Body = ({} if voice is None else {"voice": voice}) | (
        {"optimize_for_latency": True} if optimize_for_latency else {}
    )
    items = [{"text": item} if isinstance(item, str) else item for item in requests]
    return {"requests": [{**defaults, **item} for item in items]}


def cache_key(url: str, body: Body) -> str:
    return hashlib.sha256(json.dumps([url, body], sort_keys=True).encode()).hexdigest()


class Stopwatch:
    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._first: float | None = None

    def saw_byte(self) -> None:
        if self._first is None:
            self._first = time.perf_counter() - self._started

    def latency(self) -> Latency:
        total = time.perf_counter() - self._started
        return Latency(total if self._first is None else self._first, total)


def synthesis_ms(response: httpx.Response) -> float | None:
    """Milliseconds that the server reports; None for a stream."""
    reported = [_number(response.headers.get(name)) for name in ("x-queue-time-ms", "x-inference-time-ms")]
    known = [number for number in reported if number is not None]
    return sum(known) if len(known) == len(reported) else None


@contextmanager
def map_request_errors(url: str) -> Iterator[None]:
    """Turn the errors that httpx raises before a response into ours."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise TimedOut(f"{url} did not answer in time") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unreachable(
            f"{url} cannot be reached: {error or type(error).__name__}; is the server running?"
        ) from error
    except ValueError as error:  # half of a surrogate pair in a text, or NaN
        raise ClientError(f"the request cannot be written as JSON: {error}", code="invalid_input") from error


@contextmanager
def map_stream_errors(url: str) -> Iterator[None]:
    """Turn the errors that httpx raises once the audio has begun into BrokenOff."""
    try:
        yield
    except httpx.HTTPError as error:
        raise BrokenOff(f"{url} broke off in the middle of the audio: {error or type(error).__name__}") from error


@contextmanager
def map_answer_errors(url: str) -> Iterator[None]:
    """Turn the errors of parsing an answer that another program has sent, or that is damaged, into ClientError."""
    try:
        yield
    except ClientError:
        raise
    except Exception as error:
        raise not_ours(url, f"{type(error).__name__}: {error}") from error


def not_ours(url: str, reason: str) -> ClientError:
    return ClientError(f"{url} sent no answer of a Kokoro Server: {reason[:200]}", code="unexpected_answer")


def check_audio(response: httpx.Response) -> None:
    """Raises ClientError for the page of a proxy or a login in place of audio."""
    media_type = response.headers.get("content-type", "").lower()
    if media_type.startswith(PAGES):
        raise not_ours(str(response.url), f"its type is {media_type}")


def pieces(chunk: bytes, size: int | None) -> Iterator[bytes]:
    """The chunk, in pieces of at most `size` bytes. Nothing is held back until a piece is full."""
    if size is None:
        yield chunk
        return
    for start in range(0, len(chunk), size):
        yield chunk[start : start + size]


class CaptionedEvents:
    """The events of a captioned stream. The last one says that the stream is complete.

    httpx's own lines would also end at U+2028 and U+0085, which JSON may hold unescaped.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._rest = b""
        self._complete = False

    def add(self, content: bytes) -> Iterator[CaptionedChunk]:
        """The chunks of the lines that `content` completes."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        if len(self._rest) > MAX_EVENT:
            raise not_ours(self._url, f"an event has more than {MAX_EVENT:,} bytes")
        for line in lines:
            if chunk := self._chunk(line):
                yield chunk

    def _chunk(self, line: bytes) -> CaptionedChunk | None:
        with map_answer_errors(self._url):
            event = json.loads(line)
            if event["type"] == "error":
                raise BrokenOff(str(event["message"]))
            if event["type"] != "done":
                return captioned_chunk(event)
        self._complete = True
        return None

    def check_complete(self) -> None:
        if not self._complete:
            raise BrokenOff(f"{self._url} ended a stream without its last event")


def server_error(response: httpx.Response) -> ServerError:
    """The error of a response whose content has been read."""
    try:
        error = response.json()["error"]
        code, message, field = str(error["code"]), str(error["message"]), error.get("field")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        code, field = "unexpected_answer", None
        message = f"{response.url} answered with status {response.status_code}; is it a Kokoro Server?"
    return ServerError(
        message,
        code=code,
        field=field,
        status=response.status_code,
        retry_after=_seconds(response.headers.get("retry-after")),
        request_id=response.headers.get("x-request-id"),
    )


def _seconds(text: str | None) -> float | None:
    number = _number(text)  # a date is none: our server never sends one
    return None if number is None else max(0.0, number)


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else math.nan
    except ValueError:
        return None
    return None if math.isnan(number) else number


def json_object(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of a response whose content has been read."""
    try:
        parsed = response.json()
    except (ValueError, RecursionError):
        parsed = None
    if not response.is_success or not isinstance(parsed, dict):
        raise server_error(response)
    return parsed


def clip(response: httpx.Response, chunks: Sequence[bytes], body: Body, latency: Latency) -> AudioClip:
    media_type = response.headers.get("content-type", "")
    format = body.get("format") or FORMATS.get(media_type, "wav")
    content, duration = join_chunks(chunks, {**body, "format": format})
    reported = _number(response.headers.get("x-audio-duration"))
    return AudioClip(
        content=content,
        format=format,
        voice=response.headers.get("x-voice-used", body.get("voice", "")),
        duration=duration if reported is None else reported,
        latency=latency,
    )


def batch(response: httpx.Response, latency: Latency) -> list[AudioClip | ClipFailed]:
    """The clips of a zip file, in order. All have the latency of the one response."""
    with map_answer_errors(str(response.url)), zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        return [_batch_clip(archive.read(entry["file"]), entry, latency) for entry in manifest]


def _batch_clip(content: bytes, entry: Mapping[str, Any], latency: Latency) -> AudioClip | ClipFailed:
    if entry["status"] != "ok":
        return ClipFailed(entry["error"], code=content.decode().partition(":")[0])
    return AudioClip(content, entry["file"].rpartition(".")[2], entry["voice"], entry["duration"], latency)
