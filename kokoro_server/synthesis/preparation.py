"""What a speech must pass before it is made: its voices are there, and its text, silence and audio are not too long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from kokoro_server import languages
from kokoro_server.errors import ClipTooLong, KokoroError, TextTooLong, UnknownVoice
from kokoro_server.languages import Language
from kokoro_server.synthesis.auto_language import asks_for_auto, settled, with_quotations_apart, without_auto
from kokoro_server.synthesis.clip_length import longer_pauses, predicted_seconds
from kokoro_server.synthesis.speech import ModelText, Speech, in_thread_if_long, write_script
from kokoro_server.text import script
from kokoro_server.text.script import Script
from kokoro_server.voices import HeldVoice, VoiceBook, mix

STREAM_CLIPS = 10  # a stream may be as long as this many clips: nobody keeps it in memory


@dataclass(frozen=True, slots=True)
class SpeechLimits:
    """The most that one request may ask for."""

    characters: int
    silence: float  # seconds of all pauses
    clip_seconds: float


@dataclass(frozen=True, slots=True)
class Prepared:
    """A speech that may be made."""

    voice: HeldVoice
    parts: Script
    seconds: float  # predicted
    allowed: float  # seconds
    text_ms: float  # that the preparation took


class Preparation:
    """For one model. Other models' voices are strange to it."""

    def __init__(self, voices: VoiceBook, limits: SpeechLimits, pauses: Mapping[str, float], model: ModelText) -> None:
        """`pauses` are those of the settings, by the names of `Pauses`."""
        self._voices = voices
        self._limits = limits
        self._pauses = pauses
        self._model = model

    def with_voices(self, voices: VoiceBook) -> Preparation:
        """The same, with other voices."""
        return Preparation(voices, self._limits, self._pauses, self._model)

    async def voice(self, speech: Speech) -> HeldVoice:
        """The voice that speaks, or begins to."""
        speech = self.settled(speech)
        try:
            return await self._voices.hold(speech.first_voice)
        except KokoroError as error:
            if speech.turns and speech.turns[0].voice:
                error.field = "turns.0.voice"
            raise

    def language(self, speech: Speech) -> Language:
        """The language in which it is said, or begun."""
        speech = self.settled(speech)
        language = speech.turns[0].language if speech.turns else None
        voice = self._voices.language(speech.first_voice)
        return languages.of_request(language or speech.language, voice, self._model.languages)

    def settled(self, speech: Speech) -> Speech:
        """The same with a voice and a language in place of `auto`."""
        if not asks_for_auto(speech):
            return speech
        return settled(speech, self._voices.now) if self._model.name is None else without_auto(speech)

    async def script(self, speech: Speech) -> Script:
        """The runs and pauses of `speech`. Raises an error for too much text or silence, and for wrong markup."""
        allowed = self._limits.characters
        if len(speech.written) > allowed:
            raise TextTooLong(
                f"text has {len(speech.written)} characters; at most {allowed} are allowed (MAX_TEXT_LENGTH)",
                field="text",
            )
        try:
            parts = await write_script(speech, self._voices.now, self._model)
        except UnknownVoice:
            await self._voices.refresh()  # another process may have made it just now
            parts = await write_script(speech, self._voices.now, self._model)
        self._check_voices(parts)
        if speech.quotations_apart:
            parts = await in_thread_if_long(len(speech.written), with_quotations_apart, parts, self._voices.now)
        if len(parts) > 1:
            await asyncio.to_thread(script.check, parts, self._limits.silence, speech.subject)
        else:
            script.check(parts, self._limits.silence, speech.subject)
        return parts

    def _check_voices(self, parts: Script) -> None:
        if self._model.name is None and (models := self._voices.now.models):
            for run in script.runs(parts):
                if mix.model_of(run.delivery.voice) in models:
                    raise UnknownVoice(
                        f"{run.delivery.voice} is a voice of another model; all voices of a request are of one model",
                        field="voice",
                    )

    async def prepare(self, speech: Speech, clips: int = 1) -> Prepared:
        """Everything that is checked before the queue is asked. The speech may be as long as `clips` clips."""
        voice = await self.voice(speech)
        begun = time.perf_counter()
        speech = self.settled(speech)
        parts = await self.script(speech)
        phonemes, lexicon = speech.phonemes is not None, speech.reading.lexicon
        predict = partial(predicted_seconds, parts, phonemes=phonemes, lexicon=None if phonemes else lexicon)
        seconds = predict() if len(parts) == 1 and not lexicon else await asyncio.to_thread(predict)
        seconds += speech.silence + longer_pauses(parts, self.pauses(speech))
        allowed = clips * self._limits.clip_seconds
        if seconds > allowed:
            raise too_long(speech, seconds, allowed, stream=allowed * STREAM_CLIPS if clips == 1 else None)
        return Prepared(voice, parts, seconds, allowed, 1000 * (time.perf_counter() - begun))

    def pauses(self, speech: Speech) -> dict[str, float]:
        """The pauses that the settings or the request ask for, in place of the natural ones."""
        return {**self._pauses, **speech.pauses}


@contextmanager
def field_named(speech: Speech) -> Iterator[None]:
    """An error about the text names the field that has it."""
    try:
        yield
    except KokoroError as error:
        if error.field == "text":
            error.field = speech.subject
        raise


def too_long(speech: Speech, seconds: float, allowed: float, stream: float | None = None) -> ClipTooLong:
    if stream is None:
        advice = "split the text, or send it to POST /jobs as a book"
    else:
        advice = f"POST /tts/stream allows {stream:.0f} s, and POST /jobs makes books of any length"
    return ClipTooLong(
        f"the audio would take about {seconds:.0f} s; at most {allowed:.0f} s are allowed (MAX_CLIP_SECONDS); {advice}",
        field=speech.subject,
    )
