"""Where `say` gets its speech from: a model in this process, or a server."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

from kokoro_server.app import running_parts
from kokoro_server.audio.captions import Timing
from kokoro_server.audio.encode import Output
from kokoro_server.audio.render import Renderer, Rendering
from kokoro_server.client import AsyncKokoroClient, ServerError, Timeouts, Word
from kokoro_server.config import Settings
from kokoro_server.engine import loader
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import NothingToSay
from kokoro_server.metrics import Metrics
from kokoro_server.parts import Parts
from kokoro_server.synthesis import Segment, Speech
from kokoro_server.text.splitter import sentences

log = logging.getLogger(__name__)

BYTES_PER_SECOND = 2 * SAMPLE_RATE
NO_HURRY = 30 * 86_400.0  # seconds: nobody else waits for this model, and a book takes its time
SECTION = 4000  # characters sent to a server at once: some minutes of speech, well within its limits on size and time
PATIENCE = 300.0  # seconds for the next sound; a busy CPU takes a while for a long piece
PARAGRAPH = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True)
class Stretch:
    """The next sound of a text, and the words spoken in it."""

    pcm: bytes  # 16 bits a sample, 24 kHz
    words: tuple[Timing, ...]


async def embedded(
    settings: Settings, speech: Speech, load: Callable[[Settings], LoadedModel] = loader.load, *, heard: bool = True
) -> AsyncGenerator[Stretch, None]:
    """Spoken in this process, with no server: of any length, however long it takes.

    `heard`: while it is made, rather than kept for later.
    """
    alone = settings.model_copy(
        update={
            "max_text_length": len(speech.written),
            "queue_timeout": NO_HURRY,
            "job_timeout": NO_HURRY,
            "engine_timeout": max(settings.engine_timeout, PATIENCE),
        }
    )
    renderer = Renderer(Rendering(Output("pcm")))
    async with (
        running_parts(alone, load, Metrics(), _device_lost) as parts,
        aclosing(_segments(parts, speech, heard=heard)) as segments,
    ):
        async for segment in segments:
            yield Stretch(await asyncio.to_thread(renderer.write, segment.audio), segment.words)
        yield Stretch(await asyncio.to_thread(renderer.finish), ())


def _segments(parts: Parts, speech: Speech, *, heard: bool) -> AsyncGenerator[Segment, None]:
    job = parts.queue.job(bypass=parts.bypass if heard else 0, urgent=parts.urgent)
    return parts.synthesizer.segments(speech, job, streamed=heard)


def _device_lost(reason: str) -> None:
    log.critical("the device is lost reason=%s", reason)


async def remote(url: str, speech: Speech) -> AsyncGenerator[Stretch, None]:
    """Spoken by a server, section by section: no text is too long for it."""
    fields = {"language": speech.language, "speed": speech.speed}
    received = 0  # bytes
    async with AsyncKokoroClient(url, timeouts=Timeouts(stream=PATIENCE)) as client:
        for start, section in sections(speech.written):
            before = received / BYTES_PER_SECOND
            chunks = client.stream_captioned(section, speech.voice, format="pcm", **fields)
            try:
                async with aclosing(chunks):
                    async for chunk in chunks:
                        received += len(chunk.audio)
                        yield Stretch(chunk.audio, tuple(_moved(word, start, before) for word in chunk.words))
            except ServerError as error:
                # A row of asterisks, say. The text as a whole is judged at its end.
                if error.code != NothingToSay.code:
                    raise
    if not received:
        raise NothingToSay("the text holds nothing that can be spoken", field="text")


def sections(text: str) -> Iterator[tuple[int, str]]:
    """Where each begins, and its text. They end with a paragraph; if there is none near, with a sentence or a word."""
    start = 0
    while start < len(text):
        end = start + _cut(text[start : start + SECTION]) if len(text) - start > SECTION else len(text)
        yield start, text[start:end]
        start = end


def _cut(window: str) -> int:
    half = len(window) // 2
    for ends in (
        [found.end() for found in PARAGRAPH.finditer(window)],
        [span.end for span in sentences(window)][:-1],  # the last one goes on beyond the window
        [found.end() for found in re.finditer(r"\s+", window)],
    ):
        if ends and ends[-1] > half:
            return ends[-1]
    return len(window)


def _moved(word: Word, characters: int, seconds: float) -> Timing:
    return Timing(
        text=word.text,
        start=word.start + seconds,
        end=word.end + seconds,
        char_start=word.char_start + characters,
        char_end=word.char_end + characters,
        phrase=word.phrase,
    )
