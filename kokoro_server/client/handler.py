"""The client of this server's first version, for programs that were written for it: `KokoroClient` by its old names."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from kokoro_server.client.errors import ClientError
from kokoro_server.client.sync import WORKERS, KokoroClient
from kokoro_server.client.values import Latency
from kokoro_server.client.wire import DEFAULT_URL, Stopwatch

log = logging.getLogger(__name__)

HandlerResult = dict[str, Any]


class OptimizedKokoroHandler:
    """No method raises when the server fails: `success` of the result is then false, and `error` says why.

    Audio is in temporary files, which the caller deletes: `audio_path` and `audio_data` of a result are the name of
    one. Times are in seconds. `use_gpu` has no effect, as the server decides; old programs pass it.
    `fields` are those of `POST /tts`; the format is mp3 unless they say otherwise.
    """

    def __init__(
        self,
        api_url: str = DEFAULT_URL,
        voice: str | None = None,
        max_workers: int = WORKERS,
        connection_pool_size: int = 10,
        chunk_size: int = 512,
        pre_warm_models: bool = True,
    ) -> None:
        self.on_audio_ready: Callable[[HandlerResult], object] | None = None  # of `synthesize_async`, with its result
        self.on_error: Callable[[str], object] | None = None
        self._client = KokoroClient(api_url, voice=voice, pool_size=connection_pool_size, chunk_size=chunk_size)
        self._workers = ThreadPoolExecutor(max_workers, "kokoro-handler")
        if pre_warm_models:  # the server's models are always warm; this opens a connection
            self._workers.submit(self._client.is_ready)

    @property
    def api_url(self) -> str:
        return self._client.url

    @property
    def voice(self) -> str | None:
        return self._client.voice

    @voice.setter
    def voice(self, voice: str | None) -> None:
        self._client.voice = voice

    def set_voice(self, voice_id: str) -> None:
        self.voice = voice_id

    def is_server_running(self) -> bool:
        return self._client.is_ready()

    def start_server(self) -> bool:
        """Whether a server runs. This method starts none."""
        running = self.is_server_running()
        if not running:
            log.error("no server at %s; start one with: kokoro-server serve", self.api_url)
        return running

    def stop_server(self) -> None:
        """Does nothing: `start_server` starts none."""

    def get_voices(self) -> dict[str, Any]:
        """Empty if the server does not answer."""
        try:
            return {"voices": [asdict(voice) for voice in self._client.voices()]}
        except ClientError as error:
            _log_failure(error)
            return {}

    def synthesize(
        self,
        text: str,
        voice: str | None = None,
        use_gpu: bool = True,
        use_streaming: bool | None = None,
        optimize_for_latency: bool = True,
    ) -> str | None:
        """The name of a file; None if it failed."""
        path: str | None = self.synthesize_sync(text, voice, use_gpu, use_streaming, optimize_for_latency)["audio_data"]
        return path

    def synthesize_sync(
        self,
        text: str,
        voice: str | None = None,
        use_gpu: bool = True,  # noqa: ARG002 - old programs pass it
        use_streaming: bool | None = None,
        optimize_for_latency: bool = True,
        **fields: Any,
    ) -> HandlerResult:
        stopwatch = Stopwatch()
        options = {"use_streaming": use_streaming, "optimize_for_latency": optimize_for_latency, "format": "mp3"}
        try:
            clip = self._client.synthesize(text, voice or None, **(options | fields))
            with tempfile.NamedTemporaryFile(prefix="kokoro-", suffix=f".{clip.format}", delete=False) as file:
                file.write(clip.content)
        except (ClientError, OSError) as error:
            return _failure(error, stopwatch)
        stats = self.get_performance_stats()
        return _success(file.name, clip.format, clip.latency) | {"audio_path": file.name, "performance_stats": stats}

    def synthesize_streaming(
        self, text: str, voice: str | None = None, chunk_callback: Callable[[bytes], object] | None = None
    ) -> HandlerResult:
        """Calls back with each chunk as it arrives. Here `audio_data` are the bytes of the whole file."""
        stopwatch = Stopwatch()
        chunks: list[bytes] = []
        try:
            for chunk in self._client.stream(text, voice or None, format="mp3"):
                stopwatch.saw_byte()
                if chunk_callback:
                    chunk_callback(chunk)
                chunks.append(chunk)
        except ClientError as error:
            return _failure(error, stopwatch)
        content = b"".join(chunks)
        return _success(content, "mp3", stopwatch.latency()) | {"size": len(content)}

    def synthesize_async(
        self,
        text: str,
        voice: str | None = None,
        callback: Callable[[str | None, str | None], object] | None = None,
        optimize_for_latency: bool = True,
        use_streaming: bool | None = True,
    ) -> Future[HandlerResult]:
        """In a background thread, which calls `on_audio_ready` or `on_error`, and `callback(path, error)`."""

        def work() -> HandlerResult:
            result = self.synthesize_sync(
                text, voice, use_streaming=use_streaming, optimize_for_latency=optimize_for_latency
            )
            try:
                if result["success"] and self.on_audio_ready:
                    self.on_audio_ready(result)
                elif not result["success"] and self.on_error:
                    self.on_error(result["error"])
                if callback:
                    callback(result["audio_data"], result["error"])
            except Exception:
                log.exception("a callback failed")  # few programs look at the future
                raise
            return result

        return self._workers.submit(work)

    def synthesize_batch(
        self, texts: Sequence[str], voice: str | None = None, optimize_for_latency: bool = True
    ) -> list[HandlerResult]:
        """A result for each text, in their order; `max_workers` of them at a time."""
        futures = [
            self._workers.submit(self.synthesize_sync, text, voice, optimize_for_latency=optimize_for_latency)
            for text in texts
        ]
        return [future.result() for future in futures]

    def get_performance_stats(self) -> dict[str, float]:
        """Statistics of the last thousand requests; empty if there were none."""
        stats = self._client.get_performance_stats()
        if not stats.count:
            return {}
        measures = ("avg", "min", "max", "p95", "p99")
        seconds = {f"{name}_first_byte_latency": getattr(stats.first_byte, name) / 1000 for name in measures}
        return seconds | {"total_requests": stats.count}

    def reset_performance_stats(self) -> None:
        self._client.reset_performance_stats()

    def cleanup(self) -> None:
        """Wait for running requests, and close the connections."""
        self._workers.shutdown()
        self._client.close()


def _success(audio: str | bytes, format: str, latency: Latency) -> HandlerResult:
    times = {"latency": latency.total, "first_byte_latency": latency.first_byte}
    return {"success": True, "audio_data": audio, "error": None, "format": format, **times}


def _failure(error: ClientError | OSError, stopwatch: Stopwatch) -> HandlerResult:
    _log_failure(error)
    latency = stopwatch.latency().total
    return {"success": False, "audio_data": None, "error": str(error), "format": None, "latency": latency}


def _log_failure(error: ClientError | OSError) -> None:
    log.warning("request failed error=%s", error)
