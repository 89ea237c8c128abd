"""Speaks through a server."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kokoro_server.audio.join import TAIL
from kokoro_server.client import AsyncKokoroClient, ClientError, Retries, ServerError, Timeouts, Voice, Word
from kokoro_server.config.defaults import SpeechDefaults
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
from kokoro_server.synthesis.captions import Timing
from kokoro_server.synthesis.speech import Speech
from kokoro_server.synthesis.speech_backend import BYTES_PER_SECOND, Spoken, until_accepted
from kokoro_server.text.pauses import NATURAL_PAUSES
from kokoro_server.text.splitter import sentences

PARALLEL_GPU, PARALLEL_CPU = 16, 2  # speeches at once that are asked of a server, by what it runs on
# Seconds. A slow server takes long for a page, and a busy CPU for the next piece of a stream.
TIMEOUTS = Timeouts(health=10.0, synthesis=60.0, batch=1800.0, stream=300.0)
BULK_HEADERS = {"X-Priority": "bulk"}
HEALTH_FACTS = ("backend", "compute", "kernels")
SECTION = 4000  # characters in one request of a stream: some minutes of speech, well within a server's limits
SECTION_LEAD = NATURAL_PAUSES.paragraph - TAIL  # seconds at speed 1: sections end with paragraphs
PARAGRAPH = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server, by its `GET /health`: with the same `version`, a text sounds the same."""

    url: str
    version: str
    release: str
    gpu: bool

    @classmethod
    def of(cls, health: Mapping[str, Any], url: str) -> ServerFacts:
        try:
            release, weights = str(health["version"]), health["weights"]
            facts = (release, weights["source"], weights["precision"], *map(health.get, HEALTH_FACTS))
            models = (f"{model['name']}={model.get('version')}" for model in health.get("models", ()))
        except (KeyError, TypeError) as error:
            raise SetupError(f"{url}: names neither its version nor its weights; is it a Kokoro Server?") from error
        return cls(url, " ".join((*map(str, facts), *models)), release, "cuda" in str(health.get("device")))


class HttpBackend:
    """`SpeechBackend`. `connect` opens one."""

    def __init__(self, client: AsyncKokoroClient, server: ServerFacts) -> None:
        self._client = client
        self._server = server
        self._lost = False  # after a lost connection another server may answer
        self.version = server.version
        self.parallel = PARALLEL_GPU if server.gpu else PARALLEL_CPU

    @classmethod
    @asynccontextmanager
    async def connect(cls, url: str, api_key: str | None, *, live: bool = False) -> AsyncIterator[HttpBackend]:
        """`live`: for `stream` alone, which is not put behind other requests and needs no `version`."""
        options: dict[str, Any] = {} if live else {"headers": BULK_HEADERS, "retries": Retries(tries=1)}
        async with AsyncKokoroClient(url, api_key=api_key, timeouts=TIMEOUTS, **options) as client:
            unknown = ServerFacts(url, "", "", gpu=False)
            yield cls(client, unknown if live else ServerFacts.of(await client.health(), url))

    def fingerprint(self, request: object) -> str:  # noqa: ARG002
        """Empty: the voices are the server's."""
        return ""

    async def voices(self) -> Sequence[Voice]:
        return await self._client.voices()

    async def defaults(self) -> SpeechDefaults:
        theirs, listed = await self._client.voice_defaults(), await self._client.voices()
        named = ((voice.name, voice.language) for voice in listed)
        return SpeechDefaults.described(theirs.voices, theirs.language, named)

    async def speak(self, speech: Speech) -> Spoken:
        fields = _fields(speech)
        return await until_accepted(lambda: self._speak(speech, fields))

    async def _speak(self, speech: Speech, fields: dict[str, Any]) -> Spoken:
        try:
            await self._check_server()
            clip = await self._client.captioned(speech.written, speech.voice, format="pcm", **fields)
        except ServerError as error:
            raise _as_ours(error) from error
        except ClientError as error:
            self._lost = True
            raise Unavailable(error.message) from error  # it may be back soon
        return Spoken(clip.audio, tuple(map(_timing, clip.words)), clip.skipped)

    async def _check_server(self) -> None:
        """Raise Conflict if the server is another one after a restart, which might sound different."""
        if self._lost:
            now = ServerFacts.of(await self._client.health(), self._server.url).version
            if now != self.version:
                raise Conflict(f"the server is another one now ({now}, before {self.version}); run the command again")
            self._lost = False

    async def stream(self, speech: Speech, *, live: bool) -> AsyncGenerator[Spoken, None]:  # noqa: ARG002
        """Section by section, so that no text is too long for the server. A server streams in any case."""
        fields: dict[str, Any] = {"speed": speech.speed} | ({"language": speech.language} if speech.language else {})
        received = 0  # bytes
        for start, section in sections(speech.written):
            before = received / BYTES_PER_SECOND
            if received:
                fields["lead"] = SECTION_LEAD / speech.speed
            chunks = self._client.stream_captioned(section, speech.voice or None, format="pcm", **fields)
            try:
                async with aclosing(chunks):
                    async for chunk in chunks:
                        received += len(chunk.audio)
                        yield Spoken(chunk.audio, tuple(_timing(word, start, before) for word in chunk.words))
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


def _timing(word: Word, characters: int = 0, seconds: float = 0.0) -> Timing:
    """Of a word in a section that starts after these characters and seconds."""
    return Timing(
        text=word.text,
        start=word.start + seconds,
        end=word.end + seconds,
        char_start=word.char_start + characters,
        char_end=word.char_end + characters,
        phrase=word.phrase,
    )


def _fields(speech: Speech) -> dict[str, Any]:
    if speech.text is None or speech.turns or speech.volume:
        raise NotSupported("a server speaks only texts here, not phonemes, turns or a volume")
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
        "trim": None if speech.trim else False,
        "lead": speech.lead,
        "tail": speech.tail,
        "pauses": dict(speech.pauses) or None,
        "level": speech.level,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _as_ours(error: ServerError) -> KokoroError:
    """The error that would have been raised here."""
    if error.code == NothingToSay.code:
        return NothingToSay(error.message, field=error.field)
    kinds: dict[int, type[KokoroError]] = {401: Unauthorized, 429: TooBusy, 503: Unavailable, 504: Expired}
    kind = kinds.get(error.status, BadRequest if error.status < 500 else KokoroError)
    return kind(error.message, field=error.field, retry_after=error.retry_after)
