"""The blocking client."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self, TypeVar

import httpx

from kokoro_server.client import wire
from kokoro_server.client.cache import Cache
from kokoro_server.client.errors import BrokenOff, ClientError, ClipFailed
from kokoro_server.client.performance import Performance, PerformanceStats
from kokoro_server.client.values import AudioClip, CaptionedChunk, CaptionedClip, TextReading, Voice, join_chunks
from kokoro_server.client.wire import DEFAULT_URL, DEFAULT_VOICE, Body, ClipRequest, Retries, Stopwatch, Timeouts

log = logging.getLogger(__name__)

T = TypeVar("T", bytes, str)

WORKERS = 4


class KokoroClient:
    """Speech from a Kokoro Server. Safe to use from several threads; connections are kept and shared.

    The `fields` of a request are those of `POST /tts`: language, speed, pitch, volume, seed, format, sample_rate,
    sample_format. Every failure raises a `ClientError`. `api_key` is for a server that has keys; without it that of the
    environment is taken (KOKORO_API_KEY). `headers` are sent with every request, such as those that a proxy in front of
    the server asks for.

    `voice` is that of requests that name none. `workers` is how many of `synthesize_async` run at once, `pool_size` how
    many connections are kept open between requests, `chunk_size` the most bytes of a chunk of `stream`; without it they
    are as they arrive.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        cache: Cache | None = None,
        headers: Mapping[str, str] | None = None,
        voice: str = DEFAULT_VOICE,
        workers: int = WORKERS,
        pool_size: int = wire.POOL_SIZE,
        chunk_size: int | None = None,
    ) -> None:
        for name, value in (("workers", workers), ("chunk_size", chunk_size)):
            if value is not None:
                wire.check_count(name, value)
        self.url = url.rstrip("/")
        self.voice = voice
        self._timeouts = timeouts or Timeouts()
        self._retries = retries or Retries()
        self._cache = cache
        self._chunk_size = chunk_size
        self._performance = Performance()
        self._http = httpx.Client(headers=wire.headers(api_key, headers), limits=wire.limits(pool_size))
        self._background = ThreadPoolExecutor(workers, "kokoro-client")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for what `synthesize_async` is doing; drop what it has not begun."""
        self._background.shutdown(cancel_futures=True)
        self._http.close()

    def warmup(self) -> Future[bool]:
        """Open a connection in the background; the result tells whether the server is ready."""
        return self._background.submit(self.is_ready)

    def is_ready(self) -> bool:
        """Whether the server can be reached and takes requests."""
        try:
            self._get("/health/ready", self._timeouts.health)
        except ClientError:
            return False
        return True

    def health(self) -> dict[str, Any]:
        return self._get("/health", self._timeouts.health)

    def voices(self) -> list[Voice]:
        return wire.voices(self._get("/voices", self._timeouts.synthesis))

    def synthesize(
        self,
        text: str,
        voice: str | None = None,
        *,
        use_streaming: bool | None = None,
        optimize_for_latency: bool = False,
        **fields: Any,
    ) -> AudioClip:
        """The whole clip.

        With `use_streaming` None, texts over 50 characters are streamed: the timeout is then for each chunk, so that a
        long text takes the time it needs. `optimize_for_latency` lets a short text overtake others on the server.
        """
        body = self._body(text, voice, fields)
        key = wire.cache_key(self.url, body)
        stopwatch = Stopwatch()
        if self._cache and (found := self._cache.get(key)):
            return replace(found, latency=stopwatch.latency())
        if wire.is_streamed(text, use_streaming):
            clip = self._synthesize_streamed(body)
        else:
            clip = self._synthesize_whole(body, optimize_for_latency)
        if self._cache:
            self._cache.put(key, clip)
        return clip

    def reading(self, text: str, voice: str | None = None, **fields: Any) -> TextReading:
        """What would be said of a text, and why, without speaking it."""
        with self._post("/text/reading", self._body(text, voice, fields), self._timeouts.synthesis) as response:
            with wire.map_stream_errors(self.url):
                response.read()
            return wire.text_reading(response)

    def captioned(self, text: str, voice: str | None = None, **fields: Any) -> CaptionedClip:
        """The whole of a text, with the time of each word."""
        with self._post("/tts/captioned", self._body(text, voice, fields), self._timeouts.batch) as response:
            with wire.map_stream_errors(self.url):
                response.read()
            return wire.captioned_clip(response)

    def stream(self, text: str, voice: str | None = None, **fields: Any) -> Iterator[bytes]:
        """The bytes of one file, as they are synthesized. Raises BrokenOff if the file does not come to its end.

        The request is sent when the first chunk is asked for. Close the iterator to abandon the rest.
        """
        stopwatch = Stopwatch()
        with self._post("/tts/stream", self._body(text, voice, fields), self._timeouts.stream) as response:
            for chunk in self._timed(response, response.iter_bytes(), stopwatch):
                yield from wire.pieces(chunk, self._chunk_size)

    def stream_captioned(self, text: str, voice: str | None = None, **fields: Any) -> Iterator[CaptionedChunk]:
        """Like `stream`, with the time of each word."""
        stopwatch = Stopwatch()
        body = self._body(text, voice, fields)
        done = False
        with self._post("/tts/captioned", body, self._timeouts.stream, wire.NDJSON) as response:
            for line in self._timed(response, wire.lines(response.iter_bytes()), stopwatch):
                if chunk := wire.captioned_chunk(line):
                    yield chunk
                else:
                    done = True
        if not done:
            raise BrokenOff(f"{self.url} ended a stream without saying that it is whole")

    def synthesize_batch(
        self, requests: Sequence[ClipRequest], *, optimize_for_latency: bool = False
    ) -> list[AudioClip | ClipFailed]:
        """Many clips in one request, each a text or a mapping of fields. A clip that fails is an error in its place.

        `optimize_for_latency` is for those that do not say it themselves: they overtake what the server does in bulk.
        """
        stopwatch = Stopwatch()
        body = wire.batch_body(requests, self.voice, optimize_for_latency)
        with self._post("/tts/batch", body, self._timeouts.batch) as response, wire.map_stream_errors(self.url):
            stopwatch.saw_byte()
            content = response.read()
        return wire.batch(content, stopwatch.latency())

    def synthesize_async(
        self,
        text: str,
        voice: str | None = None,
        *,
        on_ready: Callable[[AudioClip], object] | None = None,
        on_error: Callable[[ClientError], object] | None = None,
        **options: Any,
    ) -> Future[AudioClip]:
        """`synthesize` in a thread of its own, in which the callbacks run too. The future has the clip or the error."""

        def work() -> AudioClip:
            try:
                clip = self.synthesize(text, voice, **options)
            except ClientError as error:
                log.warning("synthesis in the background failed code=%s message=%s", error.code, error.message)
                if on_error:
                    on_error(error)
                raise
            if on_ready:
                on_ready(clip)
            return clip

        return self._background.submit(work)

    def get_performance_stats(self) -> PerformanceStats:
        """How long the last requests took. Clips from the cache do not count."""
        return self._performance.stats()

    def reset_performance_stats(self) -> None:
        self._performance.reset()

    def _body(self, text: str, voice: str | None, fields: Mapping[str, Any]) -> Body:
        return wire.body(text, self.voice if voice is None else voice, fields)

    def _get(self, path: str, timeout: float) -> dict[str, Any]:
        with wire.map_request_errors(self.url):
            response = self._http.get(self.url + path, timeout=self._timeouts.reading(timeout))
        return wire.json_object(response)

    def _synthesize_whole(self, body: Body, optimize_for_latency: bool) -> AudioClip:
        stopwatch = Stopwatch()
        sent = body | {"optimize_for_latency": True} if optimize_for_latency else body
        with self._post("/tts", sent, self._timeouts.synthesis) as response:
            stopwatch.saw_byte()
            with wire.map_stream_errors(self.url):
                content = response.read()
        self._performance.add(stopwatch.sample(response))
        return wire.clip(response, content, body, None, stopwatch.latency())

    def _synthesize_streamed(self, body: Body) -> AudioClip:
        stopwatch = Stopwatch()
        with self._post("/tts/stream", body, self._timeouts.stream) as response:
            chunks = list(self._timed(response, response.iter_bytes(), stopwatch))
        content, duration = join_chunks(chunks, body)
        return wire.clip(response, content, body, duration, stopwatch.latency())

    def _timed(self, response: httpx.Response, parts: Iterator[T], stopwatch: Stopwatch) -> Iterator[T]:
        with wire.map_stream_errors(self.url):
            for part in parts:
                stopwatch.saw_byte()
                yield part
        self._performance.add(stopwatch.sample(response))

    @contextmanager
    def _post(
        self, path: str, body: Body, timeout: float, headers: Mapping[str, str] | None = None
    ) -> Iterator[httpx.Response]:
        """A successful response whose content is still to be read. Tries again where `Retries` says so."""
        tried = 0
        while True:
            tried += 1
            with wire.map_request_errors(self.url):
                request = self._http.build_request(
                    "POST", self.url + path, json=body, headers=headers, timeout=self._timeouts.reading(timeout)
                )
                response = self._http.send(request, stream=True)
            try:
                if response.is_success:
                    yield response
                    return
                with wire.map_request_errors(self.url):
                    response.read()
            finally:
                response.close()
            error = wire.server_error(response)
            delay = self._retries.delay(error, tried)
            if delay is None:
                raise error
            log.info("server is busy, trying again seconds=%.1f code=%s tried=%d", delay, error.code, tried)
            time.sleep(delay)
