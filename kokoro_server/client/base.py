"""The part of both clients that does no I/O: options, request bodies, statistics, and when to try again."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from kokoro_server.client import wire
from kokoro_server.client.cache import Cache
from kokoro_server.client.errors import ClientError
from kokoro_server.client.performance import Performance, PerformanceStats
from kokoro_server.client.wire import DEFAULT_URL, Body, Retries, Timeouts

log = logging.getLogger(__name__)

STREAMING_THRESHOLD = 50  # characters: longer texts are streamed unless the caller says otherwise
POOL_SIZE = 32


class BaseClient(ABC):
    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        cache: Cache | None = None,
        headers: Mapping[str, str] | None = None,
        voice: str | None = None,
        workers: int | None = None,
        pool_size: int = POOL_SIZE,
        chunk_size: int | None = None,
    ) -> None:
        for name, value in (("workers", workers), ("pool_size", pool_size), ("chunk_size", chunk_size)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        self.url = url.rstrip("/")
        self.voice = voice
        self._timeouts = timeouts or Timeouts()
        self._retries = retries or Retries()
        self._cache = cache
        self._chunk_size = chunk_size
        self._performance = Performance()
        # More connections than are kept may be open: the server decides how many are too many.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=pool_size)
        self._open(wire.headers(api_key, headers), limits, workers)

    @abstractmethod
    def _open(self, headers: dict[str, str], limits: httpx.Limits, workers: int | None) -> None: ...

    def get_performance_stats(self) -> PerformanceStats:
        """How long the last requests took. Clips from the cache do not count."""
        return self._performance.stats()

    def reset_performance_stats(self) -> None:
        self._performance.reset()

    def _body(self, text: str, voice: str | None, fields: Mapping[str, Any]) -> Body:
        voice = self.voice if voice is None else voice
        return {"text": text} | ({} if voice is None else {"voice": voice}) | dict(fields)

    def _synthesis(self, body: Body, use_streaming: bool | None, optimize_for_latency: bool) -> tuple[str, Body, float]:
        """Path, body and timeout of the request for a clip."""
        if len(body["text"]) > STREAMING_THRESHOLD if use_streaming is None else use_streaming:
            return "/tts/stream", body, self._timeouts.stream
        return "/tts", body | ({"optimize_for_latency": True} if optimize_for_latency else {}), self._timeouts.synthesis

    @contextmanager
    def _calling_back(self, on_error: Callable[[ClientError], object] | None) -> Iterator[None]:
        """Log an error of a call in the background, and call back with it. It is raised all the same."""
        try:
            yield
        except ClientError as error:
            log.warning("synthesis in the background failed code=%s message=%s", error.code, error.message)
            if on_error:
                on_error(error)
            raise

    def _delay(self, response: httpx.Response, tried: int) -> float:
        """Seconds to wait after a failed response, by `Retries`. Raises its error if there is no other try."""
        error = wire.server_error(response)
        delay = self._retries.delay(error, tried)
        if delay is None:
            raise error
        log.info("server is busy, trying again seconds=%.1f code=%s tried=%d", delay, error.code, tried)
        return delay
