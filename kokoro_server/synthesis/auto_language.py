"""`language` `auto`: a text that is plainly of another language than its voice is read by a voice of that language.

A quotation of some length in it is read by the rules of its own language, if there is a voice for that language.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Protocol

from kokoro_server import languages
from kokoro_server.errors import KokoroError
from kokoro_server.languages import Language, is_auto
from kokoro_server.synthesis.speech import Speech, Turn
from kokoro_server.text import voice_tags
from kokoro_server.text.language_of import LOOKED_AT, language_of
from kokoro_server.text.script import Run, Script

_TAG = re.compile(r"<[^<>]*>")
_VOICE = re.compile(r"<(?P<end>/)?voice\b(?P<attributes>[^<>]*?)(?P<empty>/)?>")
_VOICE_NAME = re.compile(r"""\bname\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_NAMES_LANGUAGE = "xml:lang"
_QUOTATION = re.compile(r"""(?:“[^“”\n]*”|«[^«»\n]*»|「[^「」\n]*」|"[^"\n]*")[.,;:!?…]*""")
_FEWEST_WORDS = 3  # of a quotation that is read apart, where words have spaces between them


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
    plain = speech
    if is_auto(speech.language):
        plain = replace(speech, language=None, quotations_apart=speech.phonemes is None and not speech.ssml)
    if speech.turns:
        return replace(plain, turns=tuple(_turn(turn, speech, voices) for turn in speech.turns))
    if speech.phonemes is not None or (speech.ssml and _NAMES_LANGUAGE in speech.written):
        return plain
    if not speech.ssml:
        return replace(plain, voice=_name_for(speech.written, speech.voice, speech, voices))
    rest, named = _without_voices(speech.written)
    text = _TAG.sub(" ", rest)
    if named and not text.strip():  # all of it is said by voices that it names
        return replace(plain, voice=named if _is_known(named, speech, voices) else speech.voice)
    return replace(plain, voice=_name_for(text, speech.voice, speech, voices))


def without_auto(speech: Speech) -> Speech:
    """The speech in the languages of its voices, for a model whose voices are not chosen by the text."""

    def plain(language: str | None) -> str | None:
        return None if is_auto(language) else language

    turns = tuple(replace(turn, language=plain(turn.language)) for turn in speech.turns)
    return replace(speech, language=plain(speech.language), turns=turns)


def _without_voices(ssml: str) -> tuple[str, str]:
    """SSML without what its `<voice>` elements enclose, and the first name of those."""
    kept, start, names = list[str](), 0, list[str]()
    open_elements = list[bool]()  # whether each names a voice
    for match in _VOICE.finditer(ssml):
        if not any(open_elements):
            kept.append(ssml[start : match.start()])
        start = match.end()
        if match["end"]:
            del open_elements[-1:]
        elif not match["empty"]:
            found = _VOICE_NAME.search(match["attributes"])
            names += [found[1] or found[2] or ""] if found else []
            open_elements.append(found is not None)
    if not any(open_elements):
        kept.append(ssml[start:])
    return " ".join(kept), names[0].strip() if names else ""


def _is_known(name: str, speech: Speech, voices: GradedVoices) -> bool:
    try:
        voices.language(speech.voice_aliases.get(name, name))
    except KokoroError:
        return False  # the script reports it
    return True


def voice_for(text: str, voice: str, voices: GradedVoices) -> str:
    """The voice that reads a text: `voice`, unless the text is plainly of another language that has a voice."""
    try:
        own = languages.of_voice(voices.language(voice))
    except KokoroError:
        return voice  # the script reports it
    text = voice_tags.without_named(text)[: 2 * LOOKED_AT]
    found = language_of(_QUOTATION.sub(" ", text), own) or language_of(text, own)
    return voice if found is None or languages.same(found, own) else voices.best(found) or voice


def with_quotations_apart(parts: Script, voices: GradedVoices) -> Script:
    """The script with each quotation in another language as a run of its own, in the same voice."""
    return [each for part in parts for each in (_split(part, voices) if isinstance(part, Run) else (part,))]


def _split(run: Run, voices: GradedVoices) -> list[Run]:
    text, delivery, found, start = run.text.text, run.delivery, list[Run](), 0
    for match in _QUOTATION.finditer(text):
        language = _of_quotation(match[0], delivery.language)
        if language is None or voices.best(language) is None:
            continue
        found.append(Run(run.text.between(start, match.start()), delivery, continues=True))
        quoted = run.text.between(*match.span())
        found.append(Run(quoted, replace(delivery, language=language), continues=True))
        start = match.end()
    if not found:
        return [run]
    found.append(replace(run, text=run.text.between(start, len(text))))
    spoken = [each for each in found if each.text.text.strip()]
    return [*spoken[:-1], replace(spoken[-1], continues=run.continues)]


def _of_quotation(text: str, around: Language) -> Language | None:
    """The language of a quotation, if it is plainly another one than `around`, and not a mere word or two."""
    found = language_of(text, around)
    if found is None or languages.same(found, around):
        return None
    spaced = found not in (languages.JA, languages.ZH, languages.HI)
    return None if spaced and len(text.split()) < _FEWEST_WORDS else found


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
