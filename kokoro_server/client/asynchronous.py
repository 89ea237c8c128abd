"""The client for asyncio."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from dataclasses import replace
from itertools import count
from typing import Any, Self, TypeVar

import httpx

from kokoro_server.client import wire
from kokoro_server.client.base import BaseClient
from kokoro_server.client.errors import BrokenOff, ClientError, ClipFailed
from kokoro_server.client.values import AudioClip, CaptionedChunk, CaptionedClip, TextReading, Voice, join_chunks
from kokoro_server.client.wire import Body, ClipRequest, Stopwatch

log = logging.getLogger(__name__)

T = TypeVar("T", bytes, str)
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
        return wire.voices(await self._get("/voices", self._timeouts.synthesis))

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
        if wire.is_streamed(text, use_streaming):
            clip = await self._synthesize_streamed(body)
        else:
            clip = await self._synthesize_whole(body, optimize_for_latency)
        if self._cache:
            await asyncio.to_thread(self._cache.put, key, clip)
        return clip

    async def reading(self, text: str, voice: str | None = None, **fields: Any) -> TextReading:
        body = self._body(text, voice, fields)
        return wire.text_reading(await self._read("/text/reading", body, self._timeouts.synthesis, Stopwatch()))

    async def captioned(self, text: str, voice: str | None = None, **fields: Any) -> CaptionedClip:
        body = self._body(text, voice, fields)
        response = await self._read("/tts/captioned", body, self._timeouts.batch, Stopwatch())
        return await asyncio.to_thread(wire.captioned_clip, response)

    async def stream(self, text: str, voice: str | None = None, **fields: Any) -> AsyncGenerator[bytes, None]:
        stopwatch = Stopwatch()
        async with (
            self._post("/tts/stream", self._body(text, voice, fields), self._timeouts.stream) as response,
            aclosing(self._timed(response, response.aiter_bytes(), stopwatch)) as chunks,
        ):
            async for chunk in chunks:
                for piece in wire.pieces(chunk, self._chunk_size):
                    yield piece

    async def stream_captioned(
        self, text: str, voice: str | None = None, **fields: Any
    ) -> AsyncGenerator[CaptionedChunk, None]:
        stopwatch = Stopwatch()
        body = self._body(text, voice, fields)
        done = False
        async with (
            self._post("/tts/captioned", body, self._timeouts.stream, wire.NDJSON) as response,
            aclosing(self._timed(response, wire.async_lines(response.aiter_bytes()), stopwatch)) as lines,
        ):
            async for line in lines:
                if chunk := wire.captioned_chunk(line):
                    yield chunk
                else:
                    done = True
        if not done:
            raise BrokenOff(f"{self.url} ended a stream without its last event")

    async def synthesize_batch(
        self, requests: Sequence[ClipRequest], *, optimize_for_latency: bool = False
    ) -> list[AudioClip | ClipFailed]:
        stopwatch = Stopwatch()
        body = wire.batch_body(requests, self.voice, optimize_for_latency)
        response = await self._read("/tts/batch", body, self._timeouts.batch, stopwatch)
        return wire.batch(response.content, stopwatch.latency())

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
            try:
                async with self._workers:
                    clip = await self.synthesize(text, voice, **options)
            except ClientError as error:
                log.warning("synthesis in the background failed code=%s message=%s", error.code, error.message)
                if on_error:
                    on_error(error)
                raise
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

    async def _synthesize_whole(self, body: Body, optimize_for_latency: bool) -> AudioClip:
        stopwatch = Stopwatch()
        sent = body | {"optimize_for_latency": True} if optimize_for_latency else body
        response = await self._read("/tts", sent, self._timeouts.synthesis, stopwatch)
        self._performance.add(stopwatch.latency(), wire.synthesis_ms(response))
        return wire.clip(response, response.content, body, None, stopwatch.latency())

    async def _synthesize_streamed(self, body: Body) -> AudioClip:
        stopwatch = Stopwatch()
        async with self._post("/tts/stream", body, self._timeouts.stream) as response:
            chunks = [chunk async for chunk in self._timed(response, response.aiter_bytes(), stopwatch)]
        content, duration = join_chunks(chunks, body)
        return wire.clip(response, content, body, duration, stopwatch.latency())

    async def _read(self, path: str, body: Body, timeout: float, stopwatch: Stopwatch) -> httpx.Response:
        async with self._post(path, body, timeout) as response:
            stopwatch.saw_byte()
            with wire.map_stream_errors(self.url):
                await response.aread()
        return response

    async def _timed(
        self, response: httpx.Response, parts: AsyncIterator[T], stopwatch: Stopwatch
    ) -> AsyncGenerator[T, None]:
        with wire.map_stream_errors(self.url):
            async for part in parts:
                stopwatch.saw_byte()
                yield part
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
