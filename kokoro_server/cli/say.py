"""`kokoro-server say`: speak a text through a player or into a file."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import logging
import sys
from collections.abc import Sequence
from contextlib import ExitStack, aclosing
from pathlib import Path

from kokoro_server.cli import CommandFailed, audiobook, sinks
from kokoro_server.cli.backends import check_speech, open_backend
from kokoro_server.cli.explain import explain
from kokoro_server.cli.progress import SpeechProgress, clock, quiet_beside_bar
from kokoro_server.config.defaults import speech_defaults
from kokoro_server.config.settings import Settings
from kokoro_server.engine import loader
from kokoro_server.engine.loader import LoadModel
from kokoro_server.longform.books.subtitles import SUBTITLES
from kokoro_server.synthesis import captions
from kokoro_server.synthesis.captions import Cue, Timing
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.speech_backend import BYTES_PER_SECOND

log = logging.getLogger(__name__)

MAX_CUE_EXTENSION_S = 1.0  # of silence after the last word through which the last subtitle stays
WRITE_BYTES = BYTES_PER_SECOND // 4  # in one write: it blocks while the player plays, and Ctrl-C waits for its end


def run(settings: Settings, options: argparse.Namespace, load: LoadModel = loader.load) -> int:
    """Run the command. `load` makes the model if no server is used; tests pass a small one."""
    document = audiobook.document(options)
    cast = [voice for _, voice in options.voice_of]
    check_speech(settings, options.url, options.voice, options.dialogue_voice, *cast, language=options.language)
    if audiobook.is_wanted(options, document):
        return audiobook.run(settings, options, document, load)
    text = audiobook.plain_text(document) if document else _text(options)
    speech = _speech(options, text)
    if options.explain:
        sys.stdout.write(explain(settings, speech, options.url) + "\n")
        return 0
    _check_targets(options)
    player = None if options.output else sinks.find_player()
    settings = quiet_beside_bar(settings)
    with ExitStack() as stack:
        # The subtitles are entered first, so that their file gets its name only when the audio is complete.
        subtitles = stack.enter_context(sinks.atomic_file(options.subtitles)) if options.subtitles else None
        with sinks.playing(player) if player else sinks.audio_file(options.output) as write:
            progress = None if player else stack.enter_context(SpeechProgress(len(speech.written)))
            seconds, words = asyncio.run(_speak(settings, options.url, load, speech, write, progress))
            if subtitles:
                cues = extend_last_cue(captions.cues(words, speech.written), seconds)
                subtitles.write_text(SUBTITLES[options.subtitles.suffix.lower()](cues), encoding="utf-8")
    log.info("spoken characters=%d audio=%s to=%s", len(speech.written), clock(seconds), options.output or "-")
    return 0


def _speech(options: argparse.Namespace, text: str) -> Speech:
    """A voice or language that is not named is left to the server, if one speaks."""
    voice, language = options.voice or "", options.language
    if not options.url:
        defaults = speech_defaults.get()
        voice, language = voice or defaults.voice(language), language or defaults.language
    return Speech(voice, text, language=language, speed=options.speed)


async def _speak(
    settings: Settings,
    url: str | None,
    load: LoadModel,
    speech: Speech,
    write: sinks.Write,
    progress: SpeechProgress | None,
) -> tuple[float, list[Timing]]:
    """Returns the seconds of audio, and the words in them."""
    words: list[Timing] = []
    received = 0  # bytes
    async with (
        open_backend(settings, url, load, live=True) as backend,
        aclosing(backend.stream(speech, live=progress is None)) as parts,
    ):
        async for part in parts:
            for start in range(0, len(part.pcm), WRITE_BYTES):
                await asyncio.to_thread(write, part.pcm[start : start + WRITE_BYTES])
            received += len(part.pcm)
            words += part.words
            if progress and words:
                progress.show(words[-1].char_end, received / BYTES_PER_SECOND)
    if progress:
        progress.show(len(speech.written), received / BYTES_PER_SECOND)
    return received / BYTES_PER_SECOND, words


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
