"""Where `say` gets its speech from: the model in this process, or a server."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

from kokoro_server.audio.encode import Output
from kokoro_server.audio.render import Renderer, Rendering
from kokoro_server.client import AsyncKokoroClient, ServerError, Timeouts, Word
from kokoro_server.config.settings import Settings
from kokoro_server.engine import loader
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import NothingToSay
from kokoro_server.observability.metrics import Metrics
from kokoro_server.server.app import running_services
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.services import Services
from kokoro_server.synthesis.synthesizer import Segment, Speech
from kokoro_server.text.splitter import sentences

log = logging.getLogger(__name__)

BYTES_PER_SECOND = 2 * SAMPLE_RATE
UNLIMITED_S = 30 * 86_400.0  # seconds: nobody else waits for this model, and a book takes long
SECTION = 4000  # characters in one request to a server: some minutes of speech, well within its limits of size and time
CHUNK_TIMEOUT_S = 300.0  # seconds for the next sound; a busy CPU takes a while for a long piece
PARAGRAPH = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True)
class SpeechChunk:
    """The next audio of a text, and the words spoken in it."""

    pcm: bytes  # 16 bits a sample, 24 kHz
    words: tuple[Timing, ...]


async def embedded(
    settings: Settings, speech: Speech, load: Callable[[Settings], LoadedModel] = loader.load, *, streamed: bool = True
) -> AsyncGenerator[SpeechChunk, None]:
    """Speak in this process, without a server. The text may have any length and take any time.

    `streamed` means that the audio is heard while it is made, so the first of it should come soon.
    """
    alone = unlimited(settings, len(speech.written))
    renderer = Renderer(Rendering(Output("pcm")))
    async with (
        running_services(alone, load, Metrics(), device_lost) as services,
        aclosing(_segments(services, speech, streamed=streamed)) as segments,
    ):
        async for segment in segments:
            yield SpeechChunk(await asyncio.to_thread(renderer.write, segment.audio), segment.words)
        yield SpeechChunk(await asyncio.to_thread(renderer.finish), ())


def unlimited(settings: Settings, characters: int) -> Settings:
    """The settings of a model that works for one command alone, on texts of so many characters at most."""
    return settings.model_copy(
        update={
            "max_text_length": characters,
            "max_silence": UNLIMITED_S,
            "queue_timeout": UNLIMITED_S,
            "job_timeout": UNLIMITED_S,
            "engine_timeout": max(settings.engine_timeout, CHUNK_TIMEOUT_S),
        }
    )


def _segments(services: Services, speech: Speech, *, streamed: bool) -> AsyncGenerator[Segment, None]:
    job = services.queue.ticket(bypass=services.bypass if streamed else 0, urgent=services.urgent)
    return services.synthesizer.segments(speech, job, cutting="stream" if streamed else "clip")


def device_lost(reason: str) -> None:
    log.critical("the device is lost reason=%s", reason)


async def remote(url: str, speech: Speech, api_key: str | None = None) -> AsyncGenerator[SpeechChunk, None]:
    """Let a server speak, section by section, so that no text is too long for it."""
    fields = {"language": speech.language, "speed": speech.speed}
    received = 0  # bytes
    async with AsyncKokoroClient(url, api_key=api_key, timeouts=Timeouts(stream=CHUNK_TIMEOUT_S)) as client:
        for start, section in sections(speech.written):
            before = received / BYTES_PER_SECOND
            chunks = client.stream_captioned(section, speech.voice, format="pcm", **fields)
            try:
                async with aclosing(chunks):
                    async for chunk in chunks:
                        received += len(chunk.audio)
                        yield SpeechChunk(chunk.audio, tuple(_shifted(word, start, before) for word in chunk.words))
            except ServerError as error:
                # One section may hold nothing that can be spoken, such as a row of asterisks. The whole text may not.
                if error.code != NothingToSay.code:
                    raise
    if not received:
        raise NothingToSay("the text holds nothing that can be spoken", field="text")


def sections(text: str) -> Iterator[tuple[int, str]]:
    """The start and text of each section. Each ends with a paragraph; if none ends near, with a sentence or a word."""
    start = 0
    while start < len(text):
        end = start + _section_length(text[start : start + SECTION]) if len(text) - start > SECTION else len(text)
        yield start, text[start:end]
        start = end


def _section_length(window: str) -> int:
    """Where to cut the window: after the last paragraph, sentence or word that ends in its second half."""
    half = len(window) // 2
    for ends in (
        [found.end() for found in PARAGRAPH.finditer(window)],
        [span.end for span in sentences(window)][:-1],  # the last sentence goes on beyond the window
        [found.end() for found in re.finditer(r"\s+", window)],
    ):
        if ends and ends[-1] > half:
            return ends[-1]
    return len(window)


def _shifted(word: Word, characters: int, seconds: float) -> Timing:
    return Timing(
        text=word.text,
        start=word.start + seconds,
        end=word.end + seconds,
        char_start=word.char_start + characters,
        char_end=word.char_end + characters,
        phrase=word.phrase,
    )
