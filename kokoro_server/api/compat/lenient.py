"""Requests that come in the protocols of other services.

Their clients read a text out sentence by sentence, and one refused sentence ends the whole. Letters that cannot be said
are therefore left out, and a text with nothing to say is a moment of silence. Headers say so.
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING

from kokoro_server.api.agents.text import DeliveryOptions
from kokoro_server.api.schemas.speech import CaptionedRequest, SpeechRequest, TTSRequest
from kokoro_server.config.defaults import speech_defaults
from kokoro_server.synthesis.speech import Speech
from kokoro_server.text.options import ReadingOptions

MAX_PUNCTUATION = 100  # characters
NAMED_SIGNS = frozenset("#%&@/\\*_‰§¶†‡•")  # that are no punctuation of a sentence


def _is_punctuation(text: str) -> bool:
    """Clients try a server out with a bare full stop, for which OpenAI answers with silence. Other signs are named."""
    marks = text[: MAX_PUNCTUATION + 1].strip()
    return 0 < len(marks) <= MAX_PUNCTUATION and all(
        unicodedata.category(mark)[0] == "P" and mark not in NAMED_SIGNS for mark in marks
    )


if TYPE_CHECKING:
    _Request = SpeechRequest
else:
    _Request = object  # a model would bring its own fields in front of those of the classes below


class _Lenient(_Request):
    def reading_options(self) -> ReadingOptions:
        unspeakable = self.unspeakable or speech_defaults.get().unspeakable or "skip"
        name_signs = self.ssml or not _is_punctuation(self.text or "")
        return replace(super().reading_options(), unspeakable=unspeakable, name_signs=name_signs)

    def speech(self) -> Speech:
        return replace(super().speech(), may_be_silent=True)


class LenientRequest(_Lenient, TTSRequest):
    pass


class LenientCaptionedRequest(_Lenient, CaptionedRequest):
    pass


class LenientDelivery(_Lenient, DeliveryOptions):
    pass


class _Tagged(_Request):
    """With Kokoro-FastAPI's tags and paces."""

    alias_rates: dict[str, float]
    voice_tags: bool
    rate_tags: bool
    model: str | None

    def speech(self) -> Speech:
        rates, voices = self.alias_rates, self.voice_tags
        speech = replace(super().speech(), alias_rates=rates, voice_tags=voices, rate_tags=self.rate_tags)
        return replace(speech, model=self.model)


class TaggedRequest(_Tagged, LenientRequest):
    alias_rates: dict[str, float]
    voice_tags: bool
    rate_tags: bool
    model: str | None = None


class TaggedCaptionedRequest(_Tagged, LenientCaptionedRequest):
    alias_rates: dict[str, float]
    voice_tags: bool
    rate_tags: bool
    model: str | None = None
