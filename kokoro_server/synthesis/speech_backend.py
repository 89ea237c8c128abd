"""Speaks for `say`, audiobooks, bulk and jobs. None of them knows where the model runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar

from kokoro_server import __version__, languages
from kokoro_server.audio.encode import Output
from kokoro_server.audio.render import Renderer, Rendering, render
from kokoro_server.audio.sound import Sound
from kokoro_server.batching.entry import Priority
from kokoro_server.client import Voice
from kokoro_server.config.defaults import SpeechDefaults, speech_defaults
from kokoro_server.config.settings import Settings
from kokoro_server.engine.protocol import SAMPLE_RATE
from kokoro_server.errors import Expired, TooBusy
from kokoro_server.g2p import extras
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.clip import Clip
from kokoro_server.synthesis.services import Services
from kokoro_server.synthesis.speech import Speech
from kokoro_server.voices import VoiceBook, VoiceSnapshot
from kokoro_server.voices.contents import VoiceContents

T = TypeVar("T")

BYTES_PER_SECOND = 2 * SAMPLE_RATE  # of 16-bit samples
ROWS_AHEAD = 4  # speeches at once for each row that the devices run: some are read while more wait or run
RETRY_AFTER = 1.0  # seconds, after which a queue that was full is tried again
PCM = Rendering(Output("pcm"))
# Settings that change how a text is cut or read, and so how it sounds.
READING_SETTINGS = ("unspeakable", "pauses", "first_chunk_tokens", "min_tokens_per_chunk", "max_tokens_per_chunk")


@dataclass(frozen=True, slots=True)
class Spoken:
    """The audio of a text, or the next part of a streamed one, and the words spoken in it."""

    pcm: bytes  # 16 bits a sample, 24 kHz
    words: tuple[Timing, ...]
    skipped: int = 0  # characters that cannot be said, and were left out

    @property
    def seconds(self) -> float:
        return len(self.pcm) / BYTES_PER_SECOND


class SpeechBackend(Protocol):
    """`LocalBackend` here, `http_backend.HttpBackend` through a server. On Ray, each actor has a `LocalBackend`."""

    @property
    def version(self) -> str:
        """Names the server, the model and its arithmetic: with the same version and voices, a text sounds the same."""

    def fingerprint(self, request: object) -> str:
        """A short text for the contents of the voices that a request names. May read files: call it in a thread."""

    @property
    def parallel(self) -> int:
        """The number of `speak` calls at once that keeps the devices busy."""

    async def voices(self) -> Sequence[Voice]: ...

    async def defaults(self) -> SpeechDefaults:
        """The voice and language of texts that name none."""

    async def speak(self, speech: Speech) -> Spoken:
        """Speak the whole of it, behind all requests that somebody waits for. Waits while the queue is full."""

    def stream(self, speech: Speech, *, live: bool) -> AsyncGenerator[Spoken, None]:
        """Speak a text of any length, part by part. `live`: it is heard meanwhile, so the first part must come soon."""


class LocalBackend:
    """Speaks with the services of this process, and with `voices`, or else the present ones: they do not change."""

    def __init__(self, services: Services, voices: VoiceBook | None = None) -> None:
        self._services = services
        self._voices = (voices or services.voices).held()
        self._contents = VoiceContents(self._voices.now)
        self._synthesizer = services.synthesizer.with_voices(self._voices)
        model = services.model.facts
        facts = (__version__, model.source, model.precision, model.backend, model.compute, model.kernels)
        self.version = " ".join((*facts, _reading(services.settings)))

    @property
    def parallel(self) -> int:
        return ROWS_AHEAD * self._services.queue.max_rows

    def fingerprint(self, request: object) -> str:
        return self._contents.fingerprint(request)

    async def voices(self) -> Sequence[Voice]:
        return voices_of(self._voices.now)

    async def defaults(self) -> SpeechDefaults:
        return speech_defaults.get()

    async def speak(self, speech: Speech) -> Spoken:
        clip, pcm = await until_accepted(lambda: self._speak(speech))
        return Spoken(pcm, clip.words, clip.skipped)

    async def _speak(self, speech: Speech) -> tuple[Clip, bytes]:
        rest, ticket = _PcmOverflow(), self._services.queue.ticket(priority=Priority.BULK)
        clip = await self._synthesizer.speak(speech, ticket, overflow=rest)
        return clip, await asyncio.to_thread(rest.finish if clip.sound is None else partial(_pcm, clip))

    async def stream(self, speech: Speech, *, live: bool) -> AsyncGenerator[Spoken, None]:
        services, renderer = self._services, Renderer(PCM)
        ticket = services.queue.ticket(bypass=services.bypass if live else 0, urgent=services.urgent)
        segments = self._synthesizer.segments(speech, ticket, cutting="stream" if live else "clip")
        async with aclosing(segments):
            async for segment in segments:
                yield Spoken(await asyncio.to_thread(renderer.write, segment.audio), segment.words)
        yield Spoken(await asyncio.to_thread(renderer.finish), ())


class _PcmOverflow:
    """An `Overflow` that keeps a long clip in 16-bit samples: a sixth of what its segments take until it is whole."""

    in_memory = True

    def __init__(self) -> None:
        self._renderer = Renderer(PCM)
        self._parts: list[bytes] = []

    async def write(self, sound: Sound) -> None:
        self._parts.append(await asyncio.to_thread(self._renderer.write, sound.audio))

    def finish(self) -> bytes:
        return b"".join((*self._parts, self._renderer.finish()))


async def until_accepted(make: Callable[[], Awaitable[T]]) -> T:
    """Try again while the queue is full or the text waited too long in it."""
    while True:
        try:
            return await make()
        except (TooBusy, Expired) as busy:
            await asyncio.sleep(busy.retry_after or RETRY_AFTER)


def voices_of(voices: VoiceSnapshot) -> list[Voice]:
    return [
        Voice(info.name, info.title, language.code, info.gender, info.grade, extras.is_installed(language))
        for info in map(voices.info, voices.names())
        for language in (languages.of_voice(info.language),)
    ]


def _reading(settings: Settings) -> str:
    """A short name for everything that the settings change about how texts sound, but for the voices."""
    contents = [_content(settings.lexicon_path)] if settings.lexicon_path else []
    facts = [getattr(settings, name) for name in READING_SETTINGS]
    return sha256(repr((facts, contents)).encode()).hexdigest()[:12]


def _content(path: Path) -> list[tuple[str, str]]:
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return [(each.name, sha256(each.read_bytes()).hexdigest()) for each in files]


def _pcm(clip: Clip) -> bytes:
    if PCM.accepts(clip.pcm16):
        return clip.pcm16.samples.tobytes()
    return b"".join(render(clip.audio, PCM))
