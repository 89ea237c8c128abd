"""Who says what: quoted speech in a text, and the names that are told with it.

A quotation has the voice of a name of the cast where the text tells who says it ("said Alice"), where the same
paragraph goes on with it, and where it goes on in the next paragraph. Of all others it is not certain who says them:
they have the voice for dialogue, or the narrator's.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kokoro_server.longform.books.plays import Play

# What opens a quotation, and what closes it. A quotation within a quotation is part of it.
_PAIRS = {"“": "”", "„": "“”", "«": "»", '"': '"', "「": "」", "『": "』"}
_OPENING = re.compile(r"(?<!\w)[“„«\"「『](?=\S)|[「『]|«\s(?=\S)")
_OPENING_SINGLE = re.compile(
    r"(?<![\w'’])['‘](?!(?:tis|twas|twere|twill|em|round|til|till|cause|bout|n|nuff|tain)\b)(?=[\w—–…(¿¡])", re.I
)
_CLOSING_SINGLE = re.compile(r"['’](?!\w)")
VERBS = (
    "said|says|asked|asks|cried|cries|replied|replies|answered|answers|exclaimed|shouted|whispered|added|continued"
    "|remarked|began|thought|muttered|murmured|observed|returned|called|repeated|interrupted|went on|ventured|screamed"
    "|growled|sighed|sobbed|pleaded|inquired|enquired|demanded|declared|insisted|explained|responded|suggested|yelled"
    "|roared|gasped|groaned|laughed|snapped|protested|admitted|agreed|announced|echoed|hissed|moaned|panted|persisted"
    "|pursued|rejoined|retorted|squeaked|stammered|urged|warned|wondered|begged|bawled|chimed in|put in|grunted|croaked"
    "|shrieked|resumed|concluded|ordered|commanded|objected|pronounced|broke in|told"
)
_ADVERB = r"(?:\s+(?:again|then|only|at last|once more|\w+ly))?"
_TITLE = (
    r"(?:(?:the|old|young|little|poor|dear|good|mr\.?|mrs\.?|miss|dr\.?|captain|colonel|uncle|aunt|king|queen)\s+){0,2}"
)
_BREAK = r"[\s,—–-]*"
# Somebody is told to say it, be it a name of the cast or not.
_SOMEBODY = re.compile(
    rf"{_BREAK}(?:(?:{VERBS}){_ADVERB}\s+\w|(?:{_TITLE}[A-Z][\w.’'-]*|he|she|they|I|we)(?:\s+[A-Z]\w*)?{_ADVERB}\s+"
    rf"(?:{VERBS})\b)"
)
_SOMEBODY_BEFORE = re.compile(rf"\b(?:{VERBS})\b[^.!?]{{0,80}}[,:]\s*\Z")
_SENTENCE_END = re.compile(r"[.!?…](?=\s)")
_BEFORE = 200  # characters before a quotation in which its speaker is looked for


class DialogueTurn(NamedTuple):
    start: int
    end: int
    voice: str | None  # None is the narrator's


@dataclass(frozen=True, slots=True)
class Quotation:
    """With its marks. One that is not closed goes to the end of the text, and the next paragraph goes on with it."""

    start: int
    end: int
    closed: bool = True


def quotations(text: str) -> list[Quotation]:
    """Those of a paragraph, in order. Single quotes are marks of dialogue where there are no double ones."""
    found: list[Quotation] = []
    position = 0
    while match := _OPENING.search(text, position):
        end = _closing(text, match.start())
        found.append(Quotation(match.start(), end if end >= 0 else len(text), end >= 0))
        position = found[-1].end
    return found or _single_quotations(text)


def _closing(text: str, start: int) -> int:
    """Behind the mark that closes the quotation there, or -1."""
    mark = text[start]
    marks = re.compile(f"[{mark}{_PAIRS[mark]}]")
    depth = 0
    for match in marks.finditer(text, start + 1):
        if match[0] in _PAIRS[mark]:
            if depth == 0:
                return match.end()
            depth -= 1
        else:
            depth += 1
    return -1


def _single_quotations(text: str) -> list[Quotation]:
    """An apostrophe at the end of a word closes one only where nothing better does: `the boys' toys`."""
    ends = [
        match.start() for match in _CLOSING_SINGLE.finditer(text) if text[match.start() - 1 : match.start()].strip()
    ]
    better = [end for end in ends if text[end - 1] not in "sS"]
    openings = [match.start() for match in _OPENING_SINGLE.finditer(text)]
    found: list[Quotation] = []
    position = 0
    for start in openings:
        if start < position:
            continue
        end, following = _next(better, start), _next(openings, start)
        if end is None or (following is not None and following < end):
            end = _next(ends, start)
        if end is None:
            break
        found.append(Quotation(start, end + 1))
        position = end + 1
    return found


def _next(positions: list[int], after: int) -> int | None:
    place = bisect_right(positions, after)
    return positions[place] if place < len(positions) else None


class Dialogue:
    """The paragraphs of a chapter, one after the other. `cast` has voices by the names of those who speak."""

    def __init__(self, cast: Mapping[str, str], dialogue_voice: str | None = None) -> None:
        self._voices = {" ".join(name.split()).casefold(): voice for name, voice in cast.items()}
        self._dialogue_voice = dialogue_voice
        self._play = Play(self._voices, dialogue_voice)
        self._heard: set[str] = set()
        self._going_on: str | None = None  # who speaks on, if the next paragraph begins with a quotation
        names = "|".join(r"\s+".join(map(re.escape, name.split())) for name in sorted(cast, key=len, reverse=True))
        who = rf"{_TITLE}({names or '(?!)'})(?!\w|['’]s\b)"
        self._after = re.compile(rf"{_BREAK}(?:(?:{VERBS}){_ADVERB}\s+{who}|{who}{_ADVERB}\s+(?:{VERBS})\b)", re.I)
        self._before = re.compile(
            rf"(?:^|[\s—–(]){who}(?:\s+\w+){{0,4}}?\s+(?:{VERBS})\b[^.!?“”\"]{{0,80}}[,:]\s*\Z", re.I
        )

    def turns(self, text: str, *, verse: bool = False) -> list[DialogueTurn]:
        """All of a paragraph, or of a line of verse, cut where the voice changes."""
        if not self._voices and not self._dialogue_voice:
            return [DialogueTurn(0, len(text), None)]
        if (lines := self._play.lines(text, verse=verse)) is not None:
            self._going_on = None
            return _whole(text, lines)
        found = quotations(text)
        speakers = [self._speaker(text, found, number) for number in range(len(found))]
        going_on, self._going_on = self._going_on, None
        if found and going_on and not text[: found[0].start].strip() and speakers[0] is None:
            speakers[0] = going_on
        told = {speaker for speaker in speakers if speaker is not None}
        if len(told) == 1:
            speakers = [told.copy().pop()] * len(speakers)
        if found and not found[-1].closed:
            self._going_on = speakers[-1]
        elif text.rstrip().endswith((":", "：")):
            announced = self._before.search(text[-_BEFORE:])
            self._going_on = _name(announced) if announced else None
        return _whole(
            text, [(q.start, q.end, self._voice(speaker)) for q, speaker in zip(found, speakers, strict=True)]
        )

    def end_scene(self) -> None:
        """A chapter ends, or a heading comes: nobody speaks on."""
        self._going_on = None
        self._play.end_scene()

    def unheard(self, names: Iterable[str]) -> list[str]:
        """Those of the cast's names of whom no text so far has told that they speak."""
        heard = self._heard | self._play.heard
        return [name for name in names if " ".join(name.split()).casefold() not in heard]

    def _voice(self, speaker: str | None) -> str | None:
        if speaker:
            self._heard.add(speaker)
        return self._voices.get(speaker or "", self._dialogue_voice)

    def _speaker(self, text: str, found: list[Quotation], number: int) -> str | None:
        """The name that is told with a quotation, "" if it is none of the cast's, None if no one is told."""
        quotation = found[number]
        if match := self._after.match(text, quotation.end):
            return _name(match)
        if _SOMEBODY.match(text, quotation.end):
            return ""
        begin = found[number - 1].end if number else 0
        if number and _SOMEBODY.match(text, begin):
            # What stands between them tells who says the one before, to the end of its sentence.
            end = _SENTENCE_END.search(text, begin, quotation.start)
            begin = end.end() if end else quotation.start
        before = text[max(begin, quotation.start - _BEFORE) : quotation.start]
        if match := self._before.search(before):
            return _name(match)
        return "" if _SOMEBODY_BEFORE.search(before) else None


def turns(text: str, cast: Mapping[str, str], dialogue_voice: str | None = None) -> list[DialogueTurn]:
    """Those of a single paragraph."""
    return Dialogue(cast, dialogue_voice).turns(text)


def _name(match: re.Match[str]) -> str:
    found = next(value for value in match.groups() if value)
    return " ".join(found.split()).casefold()


def _whole(text: str, spoken: list[tuple[int, int, str | None]]) -> list[DialogueTurn]:
    """With what is between them, in order; neighbours with one voice are one turn."""
    result: list[DialogueTurn] = []
    position = 0
    for start, end, voice in [*spoken, (len(text), len(text), None)]:
        for turn in (DialogueTurn(position, start, None), DialogueTurn(start, end, voice)):
            if turn.start == turn.end:
                continue
            if result and result[-1].voice == turn.voice:
                result[-1] = DialogueTurn(result[-1].start, turn.end, turn.voice)
            else:
                result.append(turn)
        position = end
    return result
