"""The voices of a book: one for each language, and those of its characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kokoro_server import languages
from kokoro_server.client import Voice
from kokoro_server.config.defaults import default_language, default_voice, speech_defaults
from kokoro_server.errors import UnknownLanguage
from kokoro_server.languages import Language
from kokoro_server.longform.books.book import Block
from kokoro_server.longform.books.dialogue import Dialogue
from kokoro_server.longform.books.options import Options
from kokoro_server.voices import OPENAI_VOICES, mix

NO_LANGUAGE = ("", "und", "mul", "zxx")  # tags that name no language


@dataclass(frozen=True, slots=True)
class VoiceChoice:
    voice: str
    language: str | None = None  # None: that of the voice


class Casting:
    """Finds the voice of each block. `notes` are for the user: voices that may surprise."""

    END = "[/voice]"

    def __init__(self, options: Options, voices: Sequence[Voice]) -> None:
        self._options = options
        self._voices = voices
        self._narrator = options.voice or default_voice(options.language)
        self._check(options)
        self._narrator_language = self._language_of(self._narrator)
        self._choices: dict[str | None, VoiceChoice] = {}
        self._dialogue = Dialogue(options.cast, options.dialogue_voice)
        self.notes: list[str] = []

    def choice(self, tag: str | None) -> VoiceChoice:
        """The voice for blocks in the language of this tag."""
        if tag not in self._choices:
            self._choices[tag] = self._find(tag)
        return self._choices[tag]

    def marks(self, block: Block) -> list[tuple[int, str]]:
        """The voice tags of a block, each with its place. Call it for each block in order: dialogue may go on."""
        if block.kind == "heading":
            self.end_scene()
            return []
        marks: list[tuple[int, str]] = []
        for turn in self._dialogue.turns(block.text, verse=block.kind == "verse"):
            if turn.voice:
                marks.append((turn.start, f"[voice:{turn.voice}]"))
            elif marks:
                marks.append((turn.start, self.END))
        return marks

    def end_scene(self) -> None:
        """A chapter or a scene ends: nobody goes on speaking."""
        self._dialogue.end_scene()

    def unheard(self) -> list[str]:
        """Names of the cast that have not spoken in any block."""
        return self._dialogue.unheard(self._options.cast)

    def _find(self, tag: str | None) -> VoiceChoice:
        options = self._options
        if options.language:
            return VoiceChoice(self._narrator, options.language)
        if tag is None or tag.lower() in NO_LANGUAGE:
            language_of_all = default_language()
            return VoiceChoice(self._narrator, None if languages.is_auto(language_of_all) else language_of_all)
        language = _parsed(tag)
        if language is None:
            self.notes.append(f"no voice speaks {tag!r}: {self._narrator} reads it as {self._narrator_language.name}")
            return VoiceChoice(self._narrator)
        if _primary(language) == _primary(self._narrator_language):
            return VoiceChoice(self._narrator)
        if options.voice:
            self.notes.append(f"{self._narrator} reads what is in {language.name}, with an accent")
            return VoiceChoice(self._narrator, language.code)
        found = self._best(language)
        if found is None:
            self.notes.append(
                f"no voice for {language.name} is installed: {self._narrator} reads it as its own language"
            )
            return VoiceChoice(self._narrator)
        self.notes.append(f"{found} reads what is in {language.name}")
        speaks_it = _primary(self._language_of(found)) == _primary(language)
        return VoiceChoice(found) if speaks_it else VoiceChoice(found, language.code)

    def _best(self, language: Language) -> str | None:
        if named := speech_defaults.get().voice_of(language):
            return named
        installed = (voice for voice in self._voices if voice.language == language.code and voice.installed)
        found = min(installed, key=_rank, default=None)
        return found.name if found else None

    def _check(self, options: Options) -> None:
        """Raises an error for an unknown voice or language, before it fails at its first use, maybe hours later."""
        known = {voice.name for voice in self._voices}
        for spec in filter(None, (options.voice, options.dialogue_voice, *options.cast.values())):
            mix.check(spec, known)
        if options.language:
            spoken = {voice.language for voice in self._voices}
            known_here = [each for each in languages.ALL if each in languages.LANGUAGES or each.code in spoken]
            languages.parse(options.language, known_here)

    def _language_of(self, spec: str) -> Language:
        """The language of a voice, or of the first voice in a mix."""
        first = (re.match(r"\s*((?:[\w.-]+/)?[\w.-]+)", spec) or [spec, spec])[1]
        name = OPENAI_VOICES.get(first, first)
        known = next(
            (languages.parse(voice.language, languages.ALL) for voice in self._voices if voice.name == name), None
        )
        return known or languages.of_voice(name)


def _parsed(tag: str) -> Language | None:
    for code in (tag, tag.replace("_", "-").partition("-")[0]):
        try:
            return languages.parse(code, languages.ALL)
        except UnknownLanguage:
            continue
    return None


def _primary(language: Language) -> str:
    return language.code.partition("-")[0]


def _rank(voice: Voice) -> tuple[str, int]:
    """The best grade first; a voice without one last."""
    grade = voice.grade or "Z"
    return grade[0], {"+": 0, "": 1, "-": 2}.get(grade[1:], 1)
