"""Who speaks long work: books and bulk. They know neither where the model runs nor whom else it speaks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from kokoro_server import __version__, languages
from kokoro_server.audio.encode import Output
from kokoro_server.audio.render import Rendering, render
from kokoro_server.batching.entry import Priority
from kokoro_server.client import AsyncKokoroClient, ClientError, Retries, ServerError, Timeouts, Voice
from kokoro_server.config.settings import Settings
from kokoro_server.errors import (
    BadRequest,
    Conflict,
    Expired,
    KokoroError,
    NothingToSay,
    NotSupported,
    SetupError,
    TooBusy,
    Unauthorized,
    Unavailable,
)
from kokoro_server.g2p import extras
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.services import Services
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.synthesizer import Clip

ROWS_AHEAD = 4  # speeches at once for each row that the devices run: some are read while others wait or run
RETRY_AFTER = 1.0  # seconds, after which a queue that was full is tried again
REMOTE_GPU, REMOTE_CPU = 16, 2  # speeches at once that are asked of a server, by what it runs on
REMOTE_TIMEOUTS = Timeouts(health=10.0, synthesis=60.0, batch=1800.0)  # seconds; a slow server takes long for a page
REMOTE_HEADERS = {"X-Priority": "bulk"}
PCM = Rendering(Output("pcm"))
HEALTH_FACTS = ("backend", "compute", "kernels")
# Settings that change how a text is cut or read, and so how it sounds.
READING_SETTINGS = ("unspeakable", "first_chunk_tokens", "min_tokens_per_chunk", "max_tokens_per_chunk")


@dataclass(frozen=True, slots=True)
class Spoken:
    pcm: bytes  # 16 bits a sample, 24 kHz
    words: tuple[Timing, ...]
    skipped: int = 0  # characters that cannot be said, and were left out


class SpeechBackend(Protocol):
    @property
    def version(self) -> str:
        """What the same text sounds the same with: of the server, the model and what it runs on."""

    @property
    def parallel(self) -> int:
        """How many speeches at once keep the devices busy."""

    async def voices(self) -> Sequence[Voice]: ...

    async def speak(self, speech: Speech) -> Spoken: ...


class LocalBackend:
    """Speaks with the services of this process, behind all who wait for an answer."""

    def __init__(self, services: Services) -> None:
        self._services = services
        model = services.model.facts
        facts = (__version__, model.source, model.precision, model.backend, model.compute, model.kernels)
        self.version = " ".join((*facts, _reading(services.settings)))

    @property
    def parallel(self) -> int:
        return ROWS_AHEAD * self._services.queue.max_rows

    async def voices(self) -> Sequence[Voice]:
        return voices_of(self._services)

    async def speak(self, speech: Speech) -> Spoken:
        while True:
            try:
                clip = await self._services.synthesizer.speak(
                    speech, self._services.queue.ticket(priority=Priority.BULK)
                )
            except (TooBusy, Expired) as busy:
                await asyncio.sleep(busy.retry_after or RETRY_AFTER)
            else:
                return Spoken(await asyncio.to_thread(_pcm, clip), clip.words, clip.skipped)


def voices_of(services: Services) -> list[Voice]:
    found = services.voices
    return [
        Voice(info.name, info.title, language.code, info.gender, info.grade, extras.is_installed(language))
        for info in map(found.info, found.names())
        for language in (languages.of_voice(info.language),)
    ]


def _reading(settings: Settings) -> str:
    """A short name for everything that the settings change about how texts sound."""
    paths = [path for path in (settings.lexicon_path, settings.voices_path) if path]
    contents = [_content(path) for path in paths]
    facts = [getattr(settings, name) for name in READING_SETTINGS]
    return sha256(repr((facts, contents)).encode()).hexdigest()[:12]


def _content(path: Path) -> list[tuple[str, str]]:
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return [(each.name, sha256(each.read_bytes()).hexdigest()) for each in files]


def _pcm(clip: Clip) -> bytes:
    if PCM.accepts(clip.pcm16):
        return clip.pcm16.samples.tobytes()
    return b"".join(render(clip.audio, PCM))


class RemoteBackend:
    """Speaks through a server, behind all who wait there for an answer. `connect` makes one."""

    def __init__(self, client: AsyncKokoroClient, version: str, parallel: int) -> None:
        self._client = client
        self._lost = False  # the connection: who answers next may be another server
        self.version = version
        self.parallel = parallel

    @classmethod
    @asynccontextmanager
    async def connect(cls, url: str, api_key: str | None) -> AsyncIterator[RemoteBackend]:
        async with AsyncKokoroClient(
            url, api_key=api_key, timeouts=REMOTE_TIMEOUTS, headers=REMOTE_HEADERS, retries=Retries(tries=1)
        ) as client:
            health = await client.health()
            version = _server_version(health)
            yield cls(client, version, REMOTE_GPU if "cuda" in str(health.get("device")) else REMOTE_CPU)

    async def voices(self) -> Sequence[Voice]:
        return await self._client.voices()

    async def speak(self, speech: Speech) -> Spoken:
        fields = _fields(speech)
        while True:
            try:
                return await self._speak(speech, fields)
            except (TooBusy, Expired) as busy:
                await asyncio.sleep(busy.retry_after or RETRY_AFTER)

    async def _speak(self, speech: Speech, fields: dict[str, Any]) -> Spoken:
        try:
            await self._check_server()
            clip = await self._client.captioned(speech.written, speech.voice, format="pcm", **fields)
        except ServerError as error:
            raise _as_ours(error) from error
        except ClientError as error:
            self._lost = True
            raise Unavailable(error.message) from error  # it may be back soon
        words = (
            Timing(word.text, word.start, word.end, word.char_start, word.char_end, word.phrase) for word in clip.words
        )
        return Spoken(clip.audio, tuple(words), clip.skipped)

    async def _check_server(self) -> None:
        """What is spoken after a restart must sound as what was spoken before."""
        if self._lost:
            now = _server_version(await self._client.health())
            if now != self.version:
                raise Conflict(f"the server is another one now ({now}, before {self.version}); run the command again")
            self._lost = False


def _server_version(health: dict[str, Any]) -> str:
    try:
        weights = health["weights"]
        facts = (health["version"], weights["source"], weights["precision"], *map(health.get, HEALTH_FACTS))
    except (KeyError, TypeError) as error:
        raise SetupError("the server does not tell its version and weights; is it a Kokoro Server?") from error
    return " ".join(map(str, facts))


def _fields(speech: Speech) -> dict[str, Any]:
    """How a server is asked for a text."""
    if speech.text is None or speech.turns or speech.volume:
        raise NotSupported("a server is asked for texts alone, not for phonemes, turns or a volume")
    reading = speech.reading
    fields: dict[str, Any] = {
        "language": speech.language,
        "speed": speech.speed,
        "pitch": speech.pitch,
        "seed": speech.seed,
        "ssml": speech.ssml,
        "voice_aliases": dict(speech.voice_aliases) or None,
        "normalize": sorted(reading.kinds),
        "code_blocks": reading.code_blocks,
        "code_spans": reading.code_spans,
        "lexicon": dict(reading.lexicon) if reading.lexicon else None,
        "unspeakable": reading.unspeakable,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _as_ours(error: ServerError) -> KokoroError:
    """What a server has answered, as it would have been raised here."""
    if error.code == NothingToSay.code:
        return NothingToSay(error.message, field=error.field)
    kinds: dict[int, type[KokoroError]] = {401: Unauthorized, 429: TooBusy, 503: Unavailable, 504: Expired}
    kind = kinds.get(error.status, BadRequest if error.status < 500 else KokoroError)
    return kind(error.message, field=error.field, retry_after=error.retry_after)
