"""Speech from a Kokoro Server, for Python programs. Of this package's dependencies it needs only httpx.

    >>> from kokoro_server.client import KokoroClient
    >>> with KokoroClient("http://127.0.0.1:8880") as client:
    ...     clip = client.synthesize("Hello from Kokoro.", voice="af_bella")
    >>> clip.save("hello.wav").name
    'hello.wav'

`AsyncKokoroClient` is the same for asyncio, `OptimizedKokoroHandler` for programs that were written for this server's
first version. docs/reference/python-client.md shows streams, word times, batches, caches and errors.
"""

from kokoro_server.client.asynchronous import AsyncKokoroClient
from kokoro_server.client.cache import Cache, FolderCache, MemoryCache
from kokoro_server.client.errors import BrokenOff, ClientError, ClipFailed, ServerError, TimedOut, Unreachable
from kokoro_server.client.handler import OptimizedKokoroHandler
from kokoro_server.client.performance import PerformanceStats, Summary
from kokoro_server.client.sync import KokoroClient
from kokoro_server.client.values import (
    AudioClip,
    CaptionedChunk,
    CaptionedClip,
    Latency,
    MouthShape,
    Phoneme,
    ReadSpan,
    ReadWord,
    TextReading,
    Voice,
    VoiceDefaults,
    Word,
)
from kokoro_server.client.wire import Retries, Timeouts

__all__ = [
    "AsyncKokoroClient",
    "AudioClip",
    "BrokenOff",
    "Cache",
    "CaptionedChunk",
    "CaptionedClip",
    "ClientError",
    "ClipFailed",
    "FolderCache",
    "KokoroClient",
    "Latency",
    "MemoryCache",
    "MouthShape",
    "OptimizedKokoroHandler",
    "PerformanceStats",
    "Phoneme",
    "ReadSpan",
    "ReadWord",
    "Retries",
    "ServerError",
    "Summary",
    "TextReading",
    "TimedOut",
    "Timeouts",
    "Unreachable",
    "Voice",
    "VoiceDefaults",
    "Word",
]
