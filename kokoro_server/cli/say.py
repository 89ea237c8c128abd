"""`kokoro-server say`: speak a text through a player or into a file."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import logging
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path

from kokoro_server.cli import CommandFailed, audiobook, sinks, sources
from kokoro_server.cli.explain import explain
from kokoro_server.cli.progress import SpeechProgress, clock
from kokoro_server.cli.sources import BYTES_PER_SECOND, SpeechChunk
from kokoro_server.client.wire import DEFAULT_VOICE
from kokoro_server.config.settings import Settings
from kokoro_server.engine import loader
from kokoro_server.engine.loader import LoadedModel
from kokoro_server.observability import logs
from kokoro_server.synthesis import captions
from kokoro_server.synthesis.captions import Cue, Timing
from kokoro_server.synthesis.synthesizer import Speech

log = logging.getLogger(__name__)

SUBTITLES = {".srt": captions.srt, ".vtt": captions.vtt}
MAX_CUE_EXTENSION_S = 1.0  # the last subtitle stays through up to so many seconds of silence after the last word
WRITE_BYTES = BYTES_PER_SECOND // 4  # in one write: a player blocks it while it plays, and Ctrl-C waits for its end


@dataclass(frozen=True, slots=True)
class SpeechSummary:
    seconds: float
    words: tuple[Timing, ...]


def run(settings: Settings, options: argparse.Namespace, load: Callable[[Settings], LoadedModel] = loader.load) -> int:
    """Run the command. `load` makes the model if no server is used; tests pass a small one."""
    document = audiobook.document(options)
    if audiobook.is_wanted(options, document):
        return audiobook.run(settings, options, document, load)
    text = audiobook.plain_text(document) if document else _text(options)
    speech = Speech(options.voice or DEFAULT_VOICE, text, language=options.language, speed=options.speed)
    if options.explain:
        sys.stdout.write(explain(settings, speech, options.url) + "\n")
        return 0
    _check_targets(options)
    player = None if options.output else sinks.find_player()
    if sys.stderr.isatty() and settings.log_level == "info":
        settings = settings.model_copy(update={"log_level": "warning"})  # the bar says what there is to say
        logs.configure(settings.log_level)
    if options.url:
        source = sources.remote(options.url, speech, settings.key_to_send)
    else:
        source = sources.embedded(settings, speech, load, streamed=player is not None)
    with ExitStack() as stack:
        # The subtitles are entered first, so that their file gets its name only when the audio is complete.
        subtitles = stack.enter_context(sinks.atomic_file(options.subtitles)) if options.subtitles else None
        with sinks.playing(player) if player else sinks.audio_file(options.output) as write:
            progress = None if player else stack.enter_context(SpeechProgress(len(speech.written)))
            spoken = asyncio.run(_speak(source, write, speech.written, progress))
            if subtitles:
                cues = extend_last_cue(captions.cues(spoken.words, speech.written), spoken.seconds)
                subtitles.write_text(SUBTITLES[options.subtitles.suffix.lower()](cues), encoding="utf-8")
    log.info("spoken characters=%d audio=%s to=%s", len(speech.written), clock(spoken.seconds), options.output or "-")
    return 0


async def _speak(
    source: AsyncGenerator[SpeechChunk, None], write: sinks.Write, text: str, progress: SpeechProgress | None
) -> SpeechSummary:
    words: list[Timing] = []
    received = 0  # bytes
    async with aclosing(source):
        async for chunk in source:
            for start in range(0, len(chunk.pcm), WRITE_BYTES):
                await asyncio.to_thread(write, chunk.pcm[start : start + WRITE_BYTES])
            received += len(chunk.pcm)
            words += chunk.words
            if progress and words:
                progress.show(words[-1].char_end, received / BYTES_PER_SECOND)
    if progress:
        progress.show(len(text), received / BYTES_PER_SECOND)
    return SpeechSummary(received / BYTES_PER_SECOND, tuple(words))


def extend_last_cue(cues: Sequence[Cue], seconds: float) -> list[Cue]:
    """Let the last subtitle stay until the audio ends, and no longer."""
    if not cues:
        return []
    last = cues[-1]
    end = seconds if last.end > seconds - MAX_CUE_EXTENSION_S else last.end
    return [*cues[:-1], dataclasses.replace(last, end=max(round(end, 3), last.start + 0.001))]


def _text(options: argparse.Namespace) -> str:
    text = _read(options.file) if options.file else options.text
    if not text.strip():
        raise CommandFailed("there is nothing to say: the text is empty")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CommandFailed("the text is not valid UTF-8; check the terminal's encoding") from error
    return str(text)


def _read(name: str) -> str:
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        raise CommandFailed(f"{name}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CommandFailed(f"{name}: is no UTF-8 text (byte {error.start}); convert it first") from error


def _check_targets(options: argparse.Namespace) -> None:
    """Raise if an output file has a wrong suffix, before anything slow is done."""
    if options.output:
        sinks.format_of(options.output)
    if options.subtitles and options.subtitles.suffix.lower() not in SUBTITLES:
        raise CommandFailed(f"{options.subtitles}: subtitles are {' or '.join(SUBTITLES)} files")
