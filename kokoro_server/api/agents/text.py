"""Text that an agent is still writing, given to its session sentence by sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Literal

from kokoro_server import languages
from kokoro_server.api.agents.session import AgentSession
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.audio.encode import Format
from kokoro_server.errors import TextTooLong
from kokoro_server.languages import Language
from kokoro_server.synthesis.services import Services
from kokoro_server.text import spoken, voice_tags
from kokoro_server.text.sentence_buffer import SentenceBuffer
from kokoro_server.text.splitter import sentences
from kokoro_server.voices import VoiceBook

APPENDED_AT_ONCE = 500  # characters: to find the sentences in them takes up to 20 ms, and hostile ones ten times that
LOOKED_AT = 300  # characters at the end of a message
APPENDED_ON_THE_LOOP = 200  # characters, with what is unspoken before them: as many as a sentence has


class DeliveryOptions(TTSRequest):
    """How to speak. The text comes later."""

    text: Literal[""] = ""
    phonemes: None = None
    format: Format = "pcm"

    async def check(self, voices: VoiceBook) -> Language:
        """The language to speak in. Raises KokoroError if it is not possible to speak so."""
        self.rendering(self.format)
        voice = await voices.hold(self.voice)
        return languages.of_request(self.language, voice.language)


def _is_whole(text: str) -> bool:
    """Whether several words end as a sentence does. Single words are the bits of a sentence that is being written."""
    end = text[-LOOKED_AT:].strip()
    if " " not in end:
        return False
    return all([*sentences(end + following)][-1].start > len(end) for following in (" Xo", " 5"))


class AgentText:
    """Appended in any pieces. A sentence is given to the session as soon as no further text can change it."""

    def __init__(self, session: AgentSession, services: Services) -> None:
        self._session = session
        self._voices = services.voices
        self._max_text = services.settings.max_text_length
        self._buffer = SentenceBuffer()
        self.manner = DeliveryOptions()
        self._tagged: str | None = None  # the voice of the last `[voice:…]`

    @property
    def voice(self) -> str:
        return self._voices.canonical(self.manner.voice)

    @property
    def waiting(self) -> int:
        """Characters that are not yet sent as speech."""
        return self._session.unsent_characters + len(self._buffer)

    async def use(self, manner: DeliveryOptions) -> None:
        """How to speak what comes from here on. Raises KokoroError if that is not possible."""
        language = await manner.check(self._voices)
        await asyncio.to_thread(spoken.load, language)
        self.manner = manner
        self._tagged = None
        self._buffer.language, self._buffer.options = language, manner.reading_options()

    async def append(self, text: str) -> None:
        """Raises TextTooLong, having taken nothing, if too much waits."""
        self._check_room(text)
        for start in range(0, len(text), APPENDED_AT_ONCE):
            self._say(await self._sentences(text[start : start + APPENDED_AT_ONCE]))
            await asyncio.sleep(0)

    def say(self, text: str) -> None:
        """Speak a text that is whole, and cut as that of `/tts/stream`. Raises TextTooLong if too much waits."""
        self._check_room(text)
        self._session.say(self.manner.model_copy(update={"text": text}))

    async def append_message(self, text: str) -> None:
        """`append` of what may be whole sentences, as some clients send them: the last then waits for no other text."""
        await self.append(text)
        if _is_whole(text):
            await self.end_sentence()

    async def end_sentence(self) -> None:
        """What was appended so far is whole: speak all of it."""
        self._say(await asyncio.to_thread(self._buffer.flush))

    async def flush(self) -> None:
        """`end_sentence`, and tell the listener when all of it is said."""
        await self.end_sentence()
        self._tagged = None
        self._session.flush()

    async def cancel(self) -> list[int]:
        """Drop everything that is not yet sent. Returns the ids of the sentences that were not sent to their end."""
        self._buffer = SentenceBuffer(self._buffer.language, self._buffer.options)
        self._tagged = None
        return await self._session.cancel()

    def _check_room(self, text: str) -> None:
        if self.waiting + len(text) > self._max_text:
            raise TextTooLong(
                f"{self.waiting} characters wait to be spoken and {len(text)} were to be added; at most "
                f"{self._max_text} may wait (MAX_TEXT_LENGTH)",
                field="text",
            )

    async def _sentences(self, text: str) -> list[str]:
        if len(self._buffer) + len(text) <= APPENDED_ON_THE_LOOP:
            return self._buffer.append(text)
        return await asyncio.to_thread(self._buffer.append, text)

    def _say(self, sentences: list[str]) -> None:
        for sentence in sentences:
            for text, voice in self._by_voice(sentence):
                self._session.say(self.manner.model_copy(update={"text": text, "voice": voice}))

    def _by_voice(self, sentence: str) -> Iterator[tuple[str, str]]:
        """The parts of a sentence between its `[voice:…]` tags. The voice of the last one holds for the next ones."""
        if self._tagged is None and not voice_tags.has_tags(sentence):
            yield sentence, self.manner.voice
            return
        start = 0
        for match in voice_tags.VOICE_TAG.finditer(sentence):
            yield from self._part(sentence[start : match.start()])
            self._tagged, start = voice_tags.voice_of(match), match.end()
        yield from self._part(sentence[start:])

    def _part(self, text: str) -> Iterator[tuple[str, str]]:
        if text := text.strip():
            yield text, self._tagged or self.manner.voice
