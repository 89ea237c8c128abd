"""Who reads what of a book: a voice for each language, and for what its characters say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kokoro_server import languages
from kokoro_server.client import Voice
from kokoro_server.errors import UnknownLanguage
from kokoro_server.languages import Language
from kokoro_server.longform.books.book import Block
from kokoro_server.longform.books.dialogue import Dialogue
from kokoro_server.longform.books.options import Options
from kokoro_server.voices import OPENAI_VOICES, mix

DEFAULT_VOICE = "af_heart"
UNTOLD = ("", "und", "mul", "zxx")  # tags that name no language


@dataclass(frozen=True, slots=True)
class VoiceChoice:
    voice: str
    language: str | None = None  # None: the voice's own


class Casting:
    """Finds the voice of each block. `notes` tells what a user may not expect of it."""

    END = "[/voice]"

    def __init__(self, options: Options, voices: Sequence[Voice]) -> None:
        self._options = options
        self._voices = voices
        self._narrator = options.voice or DEFAULT_VOICE
        self._check(options)
        self._own = self._language_of(self._narrator)
        self._choices: dict[str | None, VoiceChoice] = {}
        self._dialogue = Dialogue(options.cast, options.dialogue_voice)
        self.notes: list[str] = []

    def choice(self, tag: str | None) -> VoiceChoice:
        """How a block is read whose language has this tag."""
        if tag not in self._choices:
            self._choices[tag] = self._find(tag)
        return self._choices[tag]

    def marks(self, block: Block) -> list[tuple[int, str]]:
        """The voice tags of a block, each with its place: what others than the narrator say.

        Blocks come in order, as dialogue may go on in the next one.
        """
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
        """A chapter begins, or a scene."""
        self._dialogue.end_scene()

    def unheard(self) -> list[str]:
        """Names that have a voice and were not heard in any of the blocks."""
        return self._dialogue.unheard(self._options.cast)

    def _find(self, tag: str | None) -> VoiceChoice:
        options = self._options
        if options.language:
            return VoiceChoice(self._narrator, options.language)
        if tag is None or tag.lower() in UNTOLD:
            return VoiceChoice(self._narrator)
        language = _parsed(tag)
        if language is None:
            self.notes.append(f"no voice speaks {tag!r}: {self._narrator} reads it as {self._own.name}")
            return VoiceChoice(self._narrator)
        if _primary(language) == _primary(self._own):
            return VoiceChoice(self._narrator)
        if options.voice:
            self.notes.append(f"{self._narrator} reads what is in {language.name}, with an accent")
            return VoiceChoice(self._narrator, language.code)
        found = min((v for v in self._voices if v.language == language.code and v.installed), key=_rank, default=None)
        if found is None:
            self.notes.append(f"there is no voice for {language.name} here: {self._narrator} reads it as if it were")
            return VoiceChoice(self._narrator)
        self.notes.append(f"{found.name} reads what is in {language.name}")
        return VoiceChoice(found.name)

    def _check(self, options: Options) -> None:
        """Raises an error for what would fail a book only where it is first used, which may be hours later."""
        known = {voice.name for voice in self._voices}
        for spec in filter(None, (options.voice, options.dialogue_voice, *options.cast.values())):
            mix.parse(spec, known)
        if options.language:
            languages.parse(options.language)

    def _language_of(self, spec: str) -> Language:
        """That of a voice, or of the first of a mix."""
        first = (re.match(r"\s*(\w+)", spec) or [spec, spec])[1]
        name = OPENAI_VOICES.get(first, first)
        known = next((languages.parse(voice.language) for voice in self._voices if voice.name == name), None)
        return known or languages.of_voice(name)


def _parsed(tag: str) -> Language | None:
    for code in (tag, tag.replace("_", "-").partition("-")[0]):
        try:
            return languages.parse(code)
        except UnknownLanguage:
            continue
    return None


def _primary(language: Language) -> str:
    return language.code.partition("-")[0]


def _rank(voice: Voice) -> tuple[str, int]:
    """The best grade first; a voice without one last."""
    grade = voice.grade or "Z"
    return grade[0], {"+": 0, "": 1, "-": 2}.get(grade[1:], 1)
