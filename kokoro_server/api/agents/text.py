"""Text that an agent is still writing, passed to its session sentence by sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Literal

from kokoro_server import languages
from kokoro_server.api.agents.session import AgentSession
from kokoro_server.api.schemas.speech import TTSRequest
from kokoro_server.audio.formats import Format
from kokoro_server.errors import TextTooLong
from kokoro_server.languages import Language, is_auto
from kokoro_server.synthesis.auto_language import voice_for
from kokoro_server.synthesis.services import Services
from kokoro_server.text import spoken, voice_tags
from kokoro_server.text.sentence_buffer import SentenceBuffer
from kokoro_server.text.splitter import sentences
from kokoro_server.voices import VoiceBook

APPENDED_AT_ONCE = 500  # characters: finding their sentences takes up to 20 ms, and ten times that for hostile ones
LOOKED_AT = 300  # characters at the end of a message
APPENDED_ON_THE_LOOP = 200  # characters, with the unspoken ones before them: about a sentence


class DeliveryOptions(TTSRequest):
    """How to speak. The text comes later."""

    text: Literal[""] = ""
    phonemes: None = None
    format: Format = "pcm"

    async def check(self, voices: VoiceBook) -> Language:
        """Returns the language to speak. Raises KokoroError if these options are not possible."""
        self.rendering()
        voice = await voices.hold(self.voice)
        among = (*languages.LANGUAGES, languages.of_voice(voice.language))
        return languages.of_request(self.language, voice.language, among)


def _is_whole(text: str) -> bool:
    """Whether several words end as a sentence does. A single word is part of a sentence that is being written."""
    end = text[-LOOKED_AT:].strip()
    if " " not in end:
        return False
    return all([*sentences(end + following)][-1].start > len(end) for following in (" Xo", " 5"))


class AgentText:
    """Text in bits of any length. A sentence goes to the session as soon as no further text can change it."""

    def __init__(self, session: AgentSession, services: Services) -> None:
        self._session = session
        self._voices = services.voices
        self._max_text = services.settings.max_text_length
        self._buffer = SentenceBuffer()
        self.delivery = DeliveryOptions()
        self._tagged: str | None = None  # the voice of the last `[voice:…]`
        self._auto_voice: str | None = None  # for `auto`, the voice of the last sentence whose language is plain

    @property
    def voice(self) -> str:
        return self._voices.canonical(self.delivery.voice)

    @property
    def _default_voice(self) -> str:
        return self._auto_voice or self.delivery.voice

    @property
    def waiting(self) -> int:
        """Characters that are not sent as speech yet."""
        return self._session.unsent_characters + len(self._buffer)

    async def use(self, delivery: DeliveryOptions) -> None:
        """Speaks text from here on with these options. Raises KokoroError if they are not possible."""
        language = await delivery.check(self._voices)
        await asyncio.to_thread(spoken.load, language)
        self.delivery = delivery
        self._tagged = self._auto_voice = None
        self._buffer.language, self._buffer.options = language, delivery.reading_options()

    async def append(self, text: str) -> None:
        """Raises TextTooLong, and takes nothing, if too much text waits."""
        self._check_room(text)
        for start in range(0, len(text), APPENDED_AT_ONCE):
            self._say(await self._sentences(text[start : start + APPENDED_AT_ONCE]))
            await asyncio.sleep(0)

    def say(self, text: str) -> None:
        """Speaks a complete text, split as for `/tts/stream`. Raises TextTooLong if too much text waits."""
        self._check_room(text)
        self._session.say(self.delivery, text, self.delivery.voice)

    async def append_message(self, text: str) -> None:
        """`append` for clients that may send whole sentences: the last one is then spoken without further text."""
        await self.append(text)
        if _is_whole(text):
            await self.end_sentence()

    async def end_sentence(self) -> None:
        """Speaks all text appended so far."""
        self._say(await asyncio.to_thread(self._buffer.flush))

    async def flush(self) -> None:
        """`end_sentence`; then the listener's `on_flushed` is called when all of the text is sent."""
        await self.end_sentence()
        self._tagged = None
        self._session.flush()

    async def cancel(self) -> list[int]:
        """Drops everything that is not sent yet. Returns the ids of the sentences that were not sent completely."""
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
            if is_auto(self.delivery.language) and self._tagged is None:
                self._auto_voice = voice_for(sentence, self._auto_voice or self.delivery.voice, self._voices.now)
            for text, voice in self._by_voice(sentence):
                self._session.say(self.delivery, text, voice)

    def _by_voice(self, sentence: str) -> Iterator[tuple[str, str]]:
        """Yields the parts of a sentence between its `[voice:…]` tags. The last tag also holds for later sentences."""
        if self._tagged is None and not voice_tags.has_tags(sentence):
            yield sentence, self._default_voice
            return
        start = 0
        for match in voice_tags.VOICE_TAG.finditer(sentence):
            yield from self._part(sentence[start : match.start()])
            self._tagged, start = voice_tags.voice_of(match), match.end()
        yield from self._part(sentence[start:])

    def _part(self, text: str) -> Iterator[tuple[str, str]]:
        if text := text.strip():
            yield text, self._tagged or self._default_voice
