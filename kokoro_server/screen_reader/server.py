"""The connection to the server: one, kept between messages, and cut at once when speech is to stop."""

from __future__ import annotations

import json
import socket
import threading
import time
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from kokoro_server.screen_reader.configuration import Configuration
from kokoro_server.screen_reader.delivery import KnownVoice, RequestFields, of_listing
from kokoro_server.screen_reader.message import ReaderMessage

RATE = 24_000  # Hz
CONNECT_S = 2.0  # seconds; a server on this machine answers in a millisecond
SPEECH_S = 8.0  # without a byte: then espeak-ng speaks
ANSWER_S = 3.0  # for voices and names: Speech Dispatcher, and the listener, wait for them
RETRY_S = 5.0  # after a failed connection, so that each message does not wait for another
VOICES_S = 60.0  # a list of voices is this long up to date
MAX_EVENT = 8 << 20  # bytes of one line
MAX_KEPT = 96_000  # bytes of a message, two seconds, that is kept for when it comes again
KEPT = 24 << 20  # bytes of all of them
NOTHING = "nothing_to_say"


class CannotSpeak(Exception):
    """The server is not there, or it refuses. The message says why."""


class EmptyText(CannotSpeak):
    """The text has nothing that its language can say."""


class Cancelled(Exception):
    """`Server.cancel` was called."""


@dataclass(frozen=True, slots=True)
class AudioPart:
    """16-bit samples, little-endian, and the words that begin in them: seconds from the beginning, and offset."""

    samples: bytes
    rate: int = RATE
    words: tuple[tuple[float, int], ...] = ()


class ServerConnection:
    """Used by one thread at a time, but for `cancel`."""

    def __init__(self, configuration: Configuration) -> None:
        self._address = urlsplit(configuration.url)
        self._headers = {"Content-Type": "application/json", "Accept": "application/x-ndjson"}
        if configuration.api_key:
            self._headers["Authorization"] = f"Bearer {configuration.api_key}"
        self._connection: HTTPConnection | None = None
        self._lock = threading.Lock()  # of what `cancel` touches
        self._cancelled = False
        self._absent_until = 0.0
        self._voices: tuple[float, list[KnownVoice]] = (0.0, [])
        self._default = ""
        self._names: dict[tuple[str, str], str] = {}
        self._kept: OrderedDict[str, list[AudioPart]] = OrderedDict()  # letters, buttons: what is heard again and again
        self._kept_bytes = 0

    def begin(self) -> None:
        """A new message: an earlier `cancel` does not concern it."""
        with self._lock:
            self._cancelled = False

    def cancel(self) -> None:
        """From another thread: whatever waits for the server ends now, with Cancelled."""
        with self._lock:
            self._cancelled = True
            if self._connection and self._connection.sock:
                with suppress(OSError):  # it is closed already
                    self._connection.sock.shutdown(socket.SHUT_RDWR)

    def speak(self, message: ReaderMessage, fields: RequestFields) -> Iterator[AudioPart]:
        """The sound as it is made. Raises CannotSpeak, also in its middle, or Cancelled."""
        body: RequestFields = {
            **fields,
            "text": message.text,
            "format": "pcm",
            "unspeakable": "skip",
            "lead": 0.0,
            "tail": 0.1,
        }
        if message.ssml:
            body["ssml"] = True
        key = json.dumps(body, sort_keys=True)
        if key in self._kept:
            self._kept.move_to_end(key)
            yield from self._kept[key]
            return
        sounds: list[AudioPart] = []
        for sound in self._spoken(body):
            sounds.append(sound)
            yield sound
        self._keep(key, sounds)

    def _keep(self, key: str, sounds: list[AudioPart]) -> None:
        size = sum(len(sound.samples) for sound in sounds)
        if size > MAX_KEPT:
            return
        self._kept[key] = sounds
        self._kept_bytes += size
        while self._kept_bytes > KEPT:
            _, dropped = self._kept.popitem(last=False)
            self._kept_bytes -= sum(len(sound.samples) for sound in dropped)

    def _spoken(self, body: RequestFields) -> Iterator[AudioPart]:
        response = self._request("POST", "/tts/captioned", body, SPEECH_S)
        complete = False
        try:
            for event in self._events(response):
                if event["type"] == "done":
                    complete = True
                elif event["type"] == "error":
                    raise CannotSpeak(str(event.get("message")))
                else:
                    words = tuple((float(word["start"]), int(word["char_start"])) for word in event["words"])
                    yield AudioPart(b64decode(event["audio"]), words=words)
            if not complete:
                raise CannotSpeak("the server broke off")
        except (OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._failure(error) from error
        finally:
            if not complete:
                self.close()

    def voices(self) -> list[KnownVoice]:
        """Those of the server; an old list while it cannot be asked. Raises CannotSpeak if there is none."""
        asked, known = self._voices
        if known and time.monotonic() - asked < VOICES_S:
            return known
        try:
            listing = self._json("GET", "/voices", None)
            self._voices = time.monotonic(), of_listing(listing)
            self._default = str(listing.get("default", ""))
        except (CannotSpeak, ValueError) as error:
            if not known:
                raise CannotSpeak(str(error)) from error
        return self._voices[1]

    @property
    def default_voice(self) -> str:
        """The server's, once `voices` has been called."""
        return self._default

    def name_of(self, sign: str, language: str) -> str:
        """What a sign is called in a language, or an empty text. Each is asked for once."""
        key = sign, language
        if key not in self._names:
            try:
                reading = self._json("POST", "/text/reading", {"text": sign, "language": language})
                spans = reading.get("readings") or [{}]
                self._names[key] = str(spans[0].get("words", ""))
            except EmptyText:
                self._names[key] = ""
        return self._names[key]

    def _json(self, method: str, path: str, body: RequestFields | None) -> dict[str, Any]:
        response = self._request(method, path, body, ANSWER_S)
        try:
            parsed = json.loads(response.read())
            if not isinstance(parsed, dict):
                raise ValueError("no JSON object")
            return parsed
        except (OSError, HTTPException, ValueError) as error:
            raise self._failure(error) from error

    def _request(self, method: str, path: str, body: RequestFields | None, patience: float) -> HTTPResponse:
        """A successful response whose content is still to be read."""
        content = None if body is None else json.dumps(body)
        for fresh in (False, True):
            kept = self._connection is not None
            try:
                connection = self._connected()
                connection.sock.settimeout(patience)
                connection.request(method, self._address.path.rstrip("/") + path, content, self._headers)
                response = connection.getresponse()
            except (OSError, HTTPException) as error:
                failure = self._failure(error)
                if fresh or not kept or isinstance(error, TimeoutError) or isinstance(failure, Cancelled):
                    raise failure from error
                continue  # the server had closed the kept connection
            if response.status == 200:
                return response
            raise self._refusal(response)
        raise AssertionError

    def _connected(self) -> HTTPConnection:
        if self._connection is None:
            if time.monotonic() < self._absent_until:
                raise ConnectionError("the server could not be reached a moment ago")
            kind = HTTPSConnection if self._address.scheme == "https" else HTTPConnection
            connection = kind(self._address.hostname or "", self._address.port, timeout=CONNECT_S)
            try:
                connection.connect()
            except OSError:
                self._absent_until = time.monotonic() + RETRY_S
                raise
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._connection = connection
        with self._lock:
            if self._cancelled:
                raise ConnectionError("cancelled")
            return self._connection

    def _events(self, response: HTTPResponse) -> Iterator[dict[str, Any]]:
        rest = b""
        while chunk := response.read1(1 << 18):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from map(json.loads, lines)
            if len(rest) > MAX_EVENT:
                raise ValueError(f"an event has more than {MAX_EVENT:,} bytes")

    def _refusal(self, response: HTTPResponse) -> CannotSpeak:
        try:
            error = json.loads(response.read())["error"]
            text = f"{response.status} {error['code']}: {error['message']}"
            return EmptyText(text) if error["code"] == NOTHING else CannotSpeak(text)
        except (OSError, HTTPException, ValueError, KeyError, TypeError):
            self.close()
            return CannotSpeak(f"status {response.status}; is it a Kokoro Server?")

    def _failure(self, error: Exception) -> Exception:
        self.close()
        if self._cancelled:
            return Cancelled()
        return CannotSpeak(f"{self._address.geturl()}: {error or type(error).__name__}")

    def close(self) -> None:
        """The connection; the next request opens another."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection:
            connection.close()
