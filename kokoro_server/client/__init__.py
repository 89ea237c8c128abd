"""Speech from a Kokoro Server, for Python programs. Of this package's dependencies it needs only httpx.

Say something:

    >>> from kokoro_server.client import KokoroClient
    >>> client = KokoroClient("http://127.0.0.1:8880")
    >>> clip = client.synthesize("Hello from Kokoro.", voice="af_bella", speed=1.1)
    >>> clip.voice, clip.format, clip.duration > 0
    ('af_bella', 'wav', True)
    >>> clip.save("hello.wav").name
    'hello.wav'

Start to play a long text as soon as its first sentence is spoken:

    >>> with open("story.mp3", "wb") as file:
    ...     for chunk in client.stream("Once upon a time there was a fox. It lived on a hill.", format="mp3"):
    ...         _ = file.write(chunk)

Know when each word is said:

    >>> words = [word for chunk in client.stream_captioned("One two three.") for word in chunk.words]
    >>> [word.text for word in words]
    ['One', 'two', 'three']
    >>> words[0].start < words[1].start < words[2].start
    True

See which parts of a text are said differently from their spelling, before they are spoken:

    >>> reading = client.reading("Dr. Ng paid $5.")
    >>> [(span.source, span.words, span.rule) for span in reading.readings]
    [('Dr.', 'Doctor', 'title'), ('$5', 'five dollars', 'money')]

Many clips at once; one that fails costs only itself:

    >>> good, bad = client.synthesize_batch(["Good morning.", {"text": "Good night.", "voice": "nobody"}])
    >>> good.duration > 0, bad.code
    (True, 'unknown_voice')

Go on with something else meanwhile:

    >>> future = client.synthesize_async("Ready.", on_ready=lambda clip: clip.save("ready.wav"))
    >>> future.result().format
    'wav'

An error says what is wrong:

    >>> from kokoro_server.client import ServerError
    >>> try:
    ...     client.synthesize("Hello.", speed=9)
    ... except ServerError as error:
    ...     print(error.status, error.code, error.field)
    422 invalid_input speed

See how long it takes, in seconds for a clip, in milliseconds for many:

    >>> clip.latency.first_byte <= clip.latency.total
    True
    >>> stats = client.get_performance_stats()
    >>> stats.count, stats.first_byte.p95 <= stats.total.max
    (4, True)
    >>> client.reset_performance_stats()
    >>> client.close()

Set a default voice, and how many requests run in the background:

    >>> with KokoroClient("http://127.0.0.1:8880", voice="bf_emma", workers=8, pool_size=8) as client:
    ...     clips = client.synthesize_batch(["One.", "Two."], optimize_for_latency=True)
    ...     [clip.voice for clip in clips]
    ['bf_emma', 'bf_emma']

Keep what is said often, on disk or in memory:

    >>> from kokoro_server.client import FolderCache
    >>> with KokoroClient("http://127.0.0.1:8880", cache=FolderCache("phrases", max_bytes=10_000_000)) as client:
    ...     first = client.synthesize("How can I help you?")
    ...     again = client.synthesize("How can I help you?")  # no request
    ...     again == first, client.get_performance_stats().count
    (True, 1)

The same for asyncio:

    >>> import asyncio
    >>> from kokoro_server.client import AsyncKokoroClient
    >>> async def main():
    ...     async with AsyncKokoroClient("http://127.0.0.1:8880") as client:
    ...         client.warmup()
    ...         clips = await asyncio.gather(client.synthesize("One."), client.synthesize("Two."))
    ...         received = [chunk async for chunk in client.stream("Three.", format="pcm")]
    ...         return len(clips), len(b"".join(received)) > 0
    >>> asyncio.run(main())
    (2, True)

Programs written for the first version of this server find its client under the old names:

    >>> from kokoro_server.client import OptimizedKokoroHandler
    >>> handler = OptimizedKokoroHandler(api_url="http://127.0.0.1:8880", voice="af_heart")
    >>> result = handler.synthesize_sync("Hello.")
    >>> result["success"], result["latency"] > 0, handler.get_performance_stats()["avg_first_byte_latency"] > 0
    (True, True, True)
    >>> handler.cleanup()
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
    ReadSpan,
    ReadWord,
    TextReading,
    Voice,
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
    "OptimizedKokoroHandler",
    "PerformanceStats",
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
    "Word",
]
