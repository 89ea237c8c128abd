"""The blocking client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, Self

import httpx

from kokoro_server.client import values, wire
from kokoro_server.client.base import BaseClient
from kokoro_server.client.errors import ClientError, ClipFailed
from kokoro_server.client.values import (
    AudioClip,
    CaptionedChunk,
    CaptionedClip,
    Latency,
    TextReading,
    Voice,
    VoiceDefaults,
)
from kokoro_server.client.wire import Body, CaptionedEvents, ClipRequest, Stopwatch

WORKERS = 4


class KokoroClient(BaseClient):
    """Speech from a Kokoro Server. Safe to use from several threads; connections are kept and shared.

    The `fields` of a request are those of `POST /tts`: language, speed, pitch, volume, level, seed, format,
    sample_rate, sample_format, trim, lead, tail, pauses. Every failure raises a `ClientError`. `api_key` is for a
    server that has keys; the default is KOKORO_API_KEY of the environment. `headers` are sent with every request, such
    as those that a proxy in front of the server asks for.

    `voice` speaks the requests that name none. `workers` is how many calls of `synthesize_async` run at once (4 unless
    given), `pool_size` how many connections are kept open between requests, `chunk_size` the most bytes in a chunk of
    `stream`; without it, chunks have the sizes in which they arrive.
    """

    def _open(self, headers: dict[str, str], limits: httpx.Limits, workers: int | None) -> None:
        self._http = httpx.Client(headers=headers, limits=limits)
        self._background = ThreadPoolExecutor(workers or WORKERS, "kokoro-client")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for the calls of `synthesize_async` that run; drop those that have not begun."""
        self._background.shutdown(cancel_futures=True)
        self._http.close()

    def warmup(self) -> Future[bool]:
        """Open a connection in the background. The result is that of `is_ready`."""
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
        answer = self._get("/voices", self._timeouts.synthesis)
        with wire.map_answer_errors(self.url):
            return values.voices(answer)

    def voice_defaults(self) -> VoiceDefaults:
        answer = self._get("/voices", self._timeouts.synthesis)
        with wire.map_answer_errors(self.url):
            return values.voice_defaults(answer)

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
        long text takes the time it needs. `optimize_for_latency` lets a short text overtake other requests.
        """
        body = self._body(text, voice, fields)
        key = wire.cache_key(self.url, body)
        stopwatch = Stopwatch()
        if self._cache and (found := self._cache.get(key)):
            return replace(found, latency=stopwatch.latency())
        clip = self._synthesize(*self._synthesis(body, use_streaming, optimize_for_latency))
        if self._cache:
            self._cache.put(key, clip)
        return clip

    def reading(self, text: str, voice: str | None = None, **fields: Any) -> TextReading:
        """How a text would be said, and why, without speaking it."""
        body = self._body(text, voice, fields)
        response, _ = self._read("/text/reading", body, self._timeouts.synthesis)
        with wire.map_answer_errors(self.url):
            return values.text_reading(wire.json_object(response))

    def captioned(self, text: str, voice: str | None = None, **fields: Any) -> CaptionedClip:
        """The whole of a text, with the time of each word."""
        body = self._body(text, voice, fields)
        response, _ = self._read("/tts/captioned", body, self._timeouts.batch)
        with wire.map_answer_errors(self.url):
            return values.captioned_clip(wire.json_object(response))

    def stream(self, text: str, voice: str | None = None, **fields: Any) -> Iterator[bytes]:
        """The bytes of one file, as they are synthesized. Raises BrokenOff if the file does not come to its end.

        The request is sent when the first chunk is asked for. Close the iterator to abandon the rest.
        """
        stopwatch = Stopwatch()
        with self._post("/tts/stream", self._body(text, voice, fields), self._timeouts.stream) as response:
            wire.check_audio(response)
            for chunk in self._timed(response, stopwatch):
                yield from wire.pieces(chunk, self._chunk_size)

    def stream_captioned(self, text: str, voice: str | None = None, **fields: Any) -> Iterator[CaptionedChunk]:
        """Like `stream`, with the time of each word."""
        stopwatch = Stopwatch()
        body = self._body(text, voice, fields)
        events = CaptionedEvents(self.url)
        with self._post("/tts/captioned", body, self._timeouts.stream, wire.NDJSON) as response:
            for chunk in self._timed(response, stopwatch):
                yield from events.add(chunk)
        events.check_complete()

    def synthesize_batch(
        self, requests: Sequence[ClipRequest], *, optimize_for_latency: bool = False
    ) -> list[AudioClip | ClipFailed]:
        """Many clips in one request, each a text or a mapping of fields. A clip that fails is an error in its place.

        `optimize_for_latency` is the default of the clips: with it, they overtake the server's bulk work.
        """
        body = wire.batch_body(requests, self.voice, optimize_for_latency)
        return wire.batch(*self._read("/tts/batch", body, self._timeouts.batch))

    def synthesize_async(
        self,
        text: str,
        voice: str | None = None,
        *,
        on_ready: Callable[[AudioClip], object] | None = None,
        on_error: Callable[[ClientError], object] | None = None,
        **options: Any,
    ) -> Future[AudioClip]:
        """`synthesize` in a background thread, which also calls back. The future has the clip or the error."""

        def work() -> AudioClip:
            with self._calling_back(on_error):
                clip = self.synthesize(text, voice, **options)
            if on_ready:
                on_ready(clip)
            return clip

        return self._background.submit(work)

    def _get(self, path: str, timeout: float) -> dict[str, Any]:
        with wire.map_request_errors(self.url):
            response = self._http.get(self.url + path, timeout=self._timeouts.reading(timeout))
        return wire.json_object(response)

    def _synthesize(self, path: str, body: Body, timeout: float) -> AudioClip:
        stopwatch = Stopwatch()
        with self._post(path, body, timeout) as response:
            wire.check_audio(response)
            chunks = list(self._timed(response, stopwatch))
        return wire.clip(response, chunks, body, stopwatch.latency())

    def _read(self, path: str, body: Body, timeout: float) -> tuple[httpx.Response, Latency]:
        """A successful response, whole."""
        stopwatch = Stopwatch()
        with self._post(path, body, timeout) as response, wire.map_stream_errors(self.url):
            stopwatch.saw_byte()
            response.read()
        return response, stopwatch.latency()

    def _timed(self, response: httpx.Response, stopwatch: Stopwatch) -> Iterator[bytes]:
        with wire.map_stream_errors(self.url):
            for chunk in response.iter_bytes():
                stopwatch.saw_byte()
                yield chunk
        self._performance.add(stopwatch.latency(), wire.synthesis_ms(response))

    @contextmanager
    def _post(
        self, path: str, body: Body, timeout: float, headers: Mapping[str, str] | None = None
    ) -> Iterator[httpx.Response]:
        """A successful response whose content is still to be read. Tries again where `Retries` says so."""
        for tried in count(1):
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
            time.sleep(self._delay(response, tried))
