"""Lines of a play: a name, then the words of its bearer.

`HAMLET: Words.`, `Hamlet [aside]: Words.`, `HAMLET. Words.` and `Ham. Words.`, or the name in a paragraph of its own:
then all paragraphs up to the next name are its bearer's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kokoro_server.longform.books.data_files import load

_STAGE = r"(?:\s*[\[(][^\[\]()]{0,200}[\])])?"
_NAMES = r"(?P<name>[^\W\d_][\w'’]{0,30}(?: [^\W\d_][\w'’]{0,30}){0,2})"
_COLON = re.compile(rf"\s*(?P<name>[^\W\d_][\w.'’ -]{{0,40}}?){_STAGE}\s*[:：]\s*(?=\S)")
_DOT = re.compile(rf"\s*{_NAMES}\.{_STAGE}\s+(?=\S)")
_ALONE = re.compile(rf"\s*{_NAMES}{_STAGE}(?P<mark>[.:：]?){_STAGE}\s*")
_STAGE_DIRECTION = re.compile(r"[\[(][^\[\]()]{0,300}[\])]")
_SHORT = 5  # letters of an abbreviated name
_SOMEBODY = ""  # a speaker who is not in the cast
_NO_NAMES = frozenset(load("dialogue")["no_names_in_plays"])

SpokenLines = list[tuple[int, int, str | None]]


class Play:
    """Takes the paragraphs of a chapter in order. `voices` has the voices of the cast, by folded names."""

    def __init__(self, voices: Mapping[str, str], dialogue_voice: str | None) -> None:
        self._voices = voices
        self._dialogue_voice = dialogue_voice
        self._going_on = False  # a paragraph without a name belongs to the last speaker
        self._named = False  # the last paragraph was a name alone
        self._speaker = _SOMEBODY
        self._in_capitals: bool | None = None  # whether all names of the cast so far were; None: no name yet
        self.heard: set[str] = set()  # names of the cast that have spoken

    def end_scene(self) -> None:
        self._going_on = self._named = False

    def lines(self, text: str, *, verse: bool) -> SpokenLines | None:
        """The spoken parts of a paragraph or line of verse, with their voices; None if it is not from a play."""
        # After a name come words: what looks like a second name, such as "He.", is speech.
        anybody, self._named = self._going_on and not self._named, False
        if (speaker := self._alone(text, verse, anybody)) is not None:
            self._named = True
            return self._begin(text, speaker, len(text), going_on=True)
        if found := self._colon(text) or self._dot(text, anybody):
            return self._begin(text, *found, going_on=verse or self._going_on)
        return self._spoken(text, 0) if self._going_on else None

    def _begin(self, text: str, speaker: str, start: int, *, going_on: bool) -> SpokenLines:
        self._speaker, self._going_on = speaker, going_on
        if speaker in self._voices:
            self.heard.add(speaker)
        return self._spoken(text, start)

    def _spoken(self, text: str, start: int) -> SpokenLines:
        """All but stage directions, which the narrator reads."""
        voice = self._voices.get(self._speaker, self._dialogue_voice)
        spoken: SpokenLines = []
        for direction in _STAGE_DIRECTION.finditer(text, start):
            spoken.append((start, direction.start(), voice))
            start = direction.end()
        spoken.append((start, len(text), voice))
        return [turn for turn in spoken if text[turn[0] : turn[1]].strip()]

    def _colon(self, text: str) -> tuple[str, int] | None:
        label = _COLON.match(text)
        if label is None:
            return None
        name = label["name"]
        if folded(name) in self._voices:
            return folded(name), label.end()
        return (_SOMEBODY, label.end()) if self._dialogue_voice and name.isupper() and len(name) > 1 else None

    def _alone(self, text: str, verse: bool, anybody: bool) -> str | None:
        label = _ALONE.fullmatch(text)
        if label is None or not label["name"][0].isupper():
            return None
        name, is_marked = label["name"], bool(label["mark"])
        if (is_marked or name.isupper()) and (character := self._character(name, verse)):
            self._in_capitals = name.isupper() and self._in_capitals is not False
            return character
        return _SOMEBODY if anybody and is_marked and self._may_be_name(name) else None

    def _dot(self, text: str, anybody: bool) -> tuple[str, int] | None:
        label = _DOT.match(text)
        if label is None or not label["name"][0].isupper():
            return None
        name = label["name"]
        if character := self._character(name, verse=False):
            self._in_capitals = name.isupper() and self._in_capitals is not False
            return character, label.end()
        is_name = anybody and (name.isupper() or len(name) <= _SHORT) and self._may_be_name(name)
        return (_SOMEBODY, label.end()) if is_name else None

    def _may_be_name(self, name: str) -> bool:
        """Whether it is written like the other names of the play, and is no common word."""
        if self._in_capitals and not name.isupper():
            return False
        return folded(name) not in _NO_NAMES

    def _character(self, name: str, verse: bool) -> str | None:
        """The folded name of a member of the cast. In prose a whole name counts only in capitals."""
        key = folded(name)
        if key in self._voices:
            return key if verse or name.isupper() else None
        meant = [each for each in self._voices if any(word.startswith(key) for word in each.split())]
        return meant[0] if len(meant) == 1 and len(key) > 1 else None


def folded(name: str) -> str:
    """Equal for spellings of a name that differ in case or space."""
    return " ".join(name.split()).casefold()
