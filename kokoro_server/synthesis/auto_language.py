"""`language` `auto`: a text that is plainly of another language than its voice is read by a voice of that language."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Protocol

from kokoro_server import languages
from kokoro_server.errors import KokoroError
from kokoro_server.languages import Language, is_auto
from kokoro_server.synthesis.speech import Speech, Turn
from kokoro_server.text import voice_tags
from kokoro_server.text.language_of import language_of

_TAG = re.compile(r"<[^<>]*>")
_NAMES_LANGUAGE = "xml:lang"


class GradedVoices(Protocol):
    """Voices of which each language has a best one."""

    def language(self, spec: str, /) -> str:
        """Kokoro's letter for the language of a voice."""

    def best(self, language: Language, /) -> str | None:
        """The best voice of a language, if it has one."""


def asks_for_auto(speech: Speech) -> bool:
    return is_auto(speech.language) or any(is_auto(turn.language) for turn in speech.turns)


def settled(speech: Speech, voices: GradedVoices) -> Speech:
    """The speech with the voice of its text, and of each turn that asks for it, in place of `auto`."""
    plain = replace(speech, language=None) if is_auto(speech.language) else speech
    if speech.turns:
        return replace(plain, turns=tuple(_turn(turn, speech, voices) for turn in speech.turns))
    if speech.phonemes is not None or (speech.ssml and _NAMES_LANGUAGE in speech.written):
        return plain
    text = _TAG.sub(" ", speech.written) if speech.ssml else speech.written
    return replace(plain, voice=_name_for(text, speech.voice, speech, voices))


def voice_for(text: str, voice: str, voices: GradedVoices) -> str:
    """The voice that reads a text: `voice`, unless the text is plainly of another language that has a voice."""
    try:
        own = languages.of_voice(voices.language(voice))
    except KokoroError:
        return voice  # the script reports it
    found = language_of(voice_tags.without_named(text), own)
    return voice if found is None or languages.same(found, own) else voices.best(found) or voice


def _name_for(text: str, name: str, speech: Speech, voices: GradedVoices) -> str:
    own = speech.voice_aliases.get(name, name)
    voice = voice_for(text, own, voices)
    return name if voice == own else voice


def _turn(turn: Turn, speech: Speech, voices: GradedVoices) -> Turn:
    if not is_auto(turn.language or speech.language):
        return turn
    voice = _name_for(turn.text, turn.voice or speech.voice, speech, voices)
    language = None
    if speech.language and not is_auto(speech.language):  # the turn's own goes before it
        language = languages.of_voice(voices.language(speech.voice_aliases.get(voice, voice))).code
    return replace(turn, voice=voice, language=language)
