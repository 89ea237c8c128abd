"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from dataclasses import replace
from itertools import count
from typing import Any, Self, TypeVar

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

R = TypeVar("R")


class AsyncKokoroClient(BaseClient):
    """`KokoroClient` with coroutines. Its methods have the same names and meaning; use it on one event loop.

    Without `workers`, any number of calls of `synthesize_async` run at once.
    """

    def _open(self, headers: dict[str, str], limits: httpx.Limits, workers: int | None) -> None:
        self._http = httpx.AsyncClient(headers=headers, limits=limits)
        self._workers: AbstractAsyncContextManager[None] = asyncio.Semaphore(workers) if workers else nullcontext()
        self._background: set[asyncio.Task[Any]] = set()  # the loop itself holds tasks only weakly

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel the calls of `synthesize_async`."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._http.aclose()

    def warmup(self) -> asyncio.Task[bool]:
        """Open a connection in the background. The result is that of `is_ready`."""
        return self._spawn(self.is_ready())

    async def is_ready(self) -> bool:
        try:
            await self._get("/health/ready", self._timeouts.health)
        except ClientError:
            return False
        return True

    async def health(self) -> dict[str, Any]:
        return await self._get("/health", self._timeouts.health)

    async def voices(self) -> list[Voice]:
        answer = await self._get("/voices", self._timeouts.synthesis)
        with wire.map_answer_errors(self.url):
            return values.voices(answer)

    async def voice_defaults(self) -> VoiceDefaults:
        answer = await self._get("/voices", self._timeouts.synthesis)
        with wire.map_answer_errors(self.url):
            return values.voice_defaults(answer)

    async def synthesize(
        self,
        text: str,
        voice: str | None = None,
        *,
        use_streaming: bool | None = None,
        optimize_for_latency: bool = False,
        **fields: Any,
    ) -> AudioClip:
        body = self._body(text, voice, fields)
        key = wire.cache_key(self.url, body)
        stopwatch = Stopwatch()
        if self._cache and (found := await asyncio.to_thread(self._cache.get, key)):
            return replace(found, latency=stopwatch.latency())
        clip = await self._synthesize(*self._synthesis(body, use_streaming, optimize_for_latency))
        if self._cache:
            await asyncio.to_thread(self._cache.put, key, clip)
        return clip

    async def reading(self, text: str, voice: str | None = None, **fields: Any) -> TextReading:
        body = self._body(text, voice, fields)
        response, _ = await self._read("/text/reading", body, self._timeouts.synthesis)
        with wire.map_answer_errors(self.url):
            return values.text_reading(wire.json_object(response))

    async def captioned(self, text: str, voice: str | None = None, **fields: Any) -> CaptionedClip:
        body = self._body(text, voice, fields)
        response, _ = await self._read("/tts/captioned", body, self._timeouts.batch)
        with wire.map_answer_errors(self.url):
            return await asyncio.to_thread(lambda: values.captioned_clip(wire.json_object(response)))

    async def stream(self, text: str, voice: str | None = None, **fields: Any) -> AsyncGenerator[bytes, None]:
        stopwatch = Stopwatch()
        async with (
            self._post("/tts/stream", self._body(text, voice, fields), self._timeouts.stream) as response,
            aclosing(self._timed(response, stopwatch)) as chunks,
        ):
            wire.check_audio(response)
            async for chunk in chunks:
                for piece in wire.pieces(chunk, self._chunk_size):
                    yield piece

    async def stream_captioned(
        self, text: str, voice: str | None = None, **fields: Any
    ) -> AsyncGenerator[CaptionedChunk, None]:
        stopwatch = Stopwatch()
        body = self._body(text, voice, fields)
        events = CaptionedEvents(self.url)
        async with (
            self._post("/tts/captioned", body, self._timeouts.stream, wire.NDJSON) as response,
            aclosing(self._timed(response, stopwatch)) as chunks,
        ):
            async for chunk in chunks:
                for captioned in events.add(chunk):
                    yield captioned
        events.check_complete()

    async def synthesize_batch(
        self, requests: Sequence[ClipRequest], *, optimize_for_latency: bool = False
    ) -> list[AudioClip | ClipFailed]:
        body = wire.batch_body(requests, self.voice, optimize_for_latency)
        return wire.batch(*await self._read("/tts/batch", body, self._timeouts.batch))

    def synthesize_async(
        self,
        text: str,
        voice: str | None = None,
        *,
        on_ready: Callable[[AudioClip], object] | None = None,
        on_error: Callable[[ClientError], object] | None = None,
        **options: Any,
    ) -> asyncio.Task[AudioClip]:
        """`synthesize` in a background task, which also calls back. The task has the clip or the error."""

        async def work() -> AudioClip:
            with self._calling_back(on_error):
                async with self._workers:
                    clip = await self.synthesize(text, voice, **options)
            if on_ready:
                on_ready(clip)
            return clip

        return self._spawn(work())

    def _spawn(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _get(self, path: str, timeout: float) -> dict[str, Any]:
        with wire.map_request_errors(self.url):
            response = await self._http.get(self.url + path, timeout=self._timeouts.reading(timeout))
        return wire.json_object(response)

    async def _synthesize(self, path: str, body: Body, timeout: float) -> AudioClip:
        stopwatch = Stopwatch()
        async with self._post(path, body, timeout) as response:
            wire.check_audio(response)
            chunks = [chunk async for chunk in self._timed(response, stopwatch)]
        return wire.clip(response, chunks, body, stopwatch.latency())

    async def _read(self, path: str, body: Body, timeout: float) -> tuple[httpx.Response, Latency]:
        stopwatch = Stopwatch()
        async with self._post(path, body, timeout) as response:
            stopwatch.saw_byte()
            with wire.map_stream_errors(self.url):
                await response.aread()
        return response, stopwatch.latency()

    async def _timed(self, response: httpx.Response, stopwatch: Stopwatch) -> AsyncGenerator[bytes, None]:
        with wire.map_stream_errors(self.url):
            async for chunk in response.aiter_bytes():
                stopwatch.saw_byte()
                yield chunk
        self._performance.add(stopwatch.latency(), wire.synthesis_ms(response))

    @asynccontextmanager
    async def _post(
        self, path: str, body: Body, timeout: float, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[httpx.Response]:
        """A successful response whose content is still to be read. Tries again where `Retries` says so."""
        for tried in count(1):
            with wire.map_request_errors(self.url):
                request = self._http.build_request(
                    "POST", self.url + path, json=body, headers=headers, timeout=self._timeouts.reading(timeout)
                )
                response = await self._http.send(request, stream=True)
            try:
                if response.is_success:
                    yield response
                    return
                with wire.map_request_errors(self.url):
                    await response.aread()
            finally:
                await response.aclose()
            await asyncio.sleep(self._delay(response, tried))
