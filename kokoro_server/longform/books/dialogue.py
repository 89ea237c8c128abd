"""Dialogue: quoted speech in a text, and the names of its speakers.

A quotation gets the voice of a name of the cast where the text names the speaker ("said Alice"), where the same
paragraph goes on with it, and where it goes on in the next paragraph. The speaker of any other quotation is uncertain:
it gets the voice for dialogue, or the narrator's.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kokoro_server.longform.books.data_files import load
from kokoro_server.longform.books.plays import Play, folded

# Opening marks, each with its closing marks. A quotation within a quotation is part of it.
_PAIRS = {"“": "”", "„": "“”", "«": "»", '"': '"', "「": "」", "『": "』"}
_OPENING = re.compile(r"(?<!\w)[“„«\"「『](?=\S)|[「『]|«\s(?=\S)")
_OPENING_SINGLE = re.compile(
    r"(?<![\w'’])['‘](?!(?:tis|twas|twere|twill|em|round|til|till|cause|bout|n|nuff|tain)\b)(?=[\w—–…(¿¡])", re.I
)
_CLOSING_SINGLE = re.compile(r"['’](?!\w)")
VERBS = "|".join(load("dialogue")["verbs"])
_ADVERB = r"(?:\s+(?:again|then|only|at last|once more|\w+ly))?"
_TITLE = (
    r"(?:(?:the|old|young|little|poor|dear|good|mr\.?|mrs\.?|miss|dr\.?|captain|colonel|uncle|aunt|king|queen)\s+){0,2}"
)
_BREAK = r"[\s,—–-]*"
# The text names a speaker, in the cast or not.
_SOMEBODY = re.compile(
    rf"{_BREAK}(?:(?:{VERBS}){_ADVERB}\s+\w|(?:{_TITLE}[A-Z][\w.’'-]*|he|she|they|I|we)(?:\s+[A-Z]\w*)?{_ADVERB}\s+"
    rf"(?:{VERBS})\b)"
)
_SOMEBODY_BEFORE = re.compile(rf"\b(?:{VERBS})\b[^.!?]{{0,80}}[,:]\s*\Z")
_SENTENCE_END = re.compile(r"[.!?…](?=\s)")
_BEFORE = 200  # characters before a quotation that are searched for its speaker


class VoiceTurn(NamedTuple):
    start: int
    end: int
    voice: str | None  # None: the narrator


@dataclass(frozen=True, slots=True)
class Quotation:
    """With its marks. An unclosed one reaches to the end of the text, and goes on in the next paragraph."""

    start: int
    end: int
    closed: bool = True


def quotations(text: str) -> list[Quotation]:
    """The quotations of a paragraph, in order. Single quotes mark dialogue in a paragraph without double ones."""
    found: list[Quotation] = []
    position = 0
    while match := _OPENING.search(text, position):
        end = _closing(text, match.start())
        found.append(Quotation(match.start(), end if end >= 0 else len(text), end >= 0))
        position = found[-1].end
    return found or _single_quotations(text)


def _closing(text: str, start: int) -> int:
    """The place after the mark that closes the quotation at `start`, or -1."""
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
    """An apostrophe after an s closes a quotation only where no other mark does: `the boys' toys`."""
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
    """Takes the paragraphs of a chapter in order. `cast` has voices by the names of the speakers."""

    def __init__(self, cast: Mapping[str, str], dialogue_voice: str | None = None) -> None:
        self._voices = {folded(name): voice for name, voice in cast.items()}
        self._dialogue_voice = dialogue_voice
        self._play = Play(self._voices, dialogue_voice)
        self._heard: set[str] = set()
        self._going_on: str | None = None  # the speaker, if the next paragraph begins with a quotation
        names = "|".join(r"\s+".join(map(re.escape, name.split())) for name in sorted(cast, key=len, reverse=True))
        who = rf"{_TITLE}({names or '(?!)'})(?!\w|['’]s\b)"
        self._after = re.compile(rf"{_BREAK}(?:(?:{VERBS}){_ADVERB}\s+{who}|{who}{_ADVERB}\s+(?:{VERBS})\b)", re.I)
        self._before = re.compile(
            rf"(?:^|[\s—–(]){who}(?:\s+\w+){{0,4}}?\s+(?:{VERBS})\b[^.!?“”\"]{{0,80}}[,:]\s*\Z", re.I
        )

    def turns(self, text: str, *, verse: bool = False) -> list[VoiceTurn]:
        """A paragraph or line of verse, cut where the voice changes."""
        if not self._voices and not self._dialogue_voice:
            return [VoiceTurn(0, len(text), None)]
        if (lines := self._play.lines(text, verse=verse)) is not None:
            self._going_on = None
            return _whole(text, lines)
        found = quotations(text)
        speakers = [self._speaker(text, found, number) for number in range(len(found))]
        going_on, self._going_on = self._going_on, None
        if found and going_on and not text[: found[0].start].strip() and speakers[0] is None:
            speakers[0] = going_on
        named = {speaker for speaker in speakers if speaker is not None}
        if len(named) == 1:
            speakers = [*named] * len(speakers)
        if found and not found[-1].closed:
            self._going_on = speakers[-1]
        elif text.rstrip().endswith((":", "：")):
            announced = self._before.search(text[-_BEFORE:])
            self._going_on = _name(announced) if announced else None
        return _whole(
            text, [(q.start, q.end, self._voice(speaker)) for q, speaker in zip(found, speakers, strict=True)]
        )

    def end_scene(self) -> None:
        """A chapter ends, or a heading comes: nobody goes on speaking."""
        self._going_on = None
        self._play.end_scene()

    def unheard(self, names: Iterable[str]) -> list[str]:
        """The names that no text so far has named as speakers."""
        heard = self._heard | self._play.heard
        return [name for name in names if folded(name) not in heard]

    def _voice(self, speaker: str | None) -> str | None:
        if speaker:
            self._heard.add(speaker)
        return self._voices.get(speaker or "", self._dialogue_voice)

    def _speaker(self, text: str, found: list[Quotation], number: int) -> str | None:
        """The folded name of a quotation's speaker: "" if it is not in the cast, None if the text names nobody."""
        quotation = found[number]
        if match := self._after.match(text, quotation.end):
            return _name(match)
        if _SOMEBODY.match(text, quotation.end):
            return ""
        begin = found[number - 1].end if number else 0
        if number and _SOMEBODY.match(text, begin):
            # The rest of the sentence after the quotation before names the speaker of that one.
            end = _SENTENCE_END.search(text, begin, quotation.start)
            begin = end.end() if end else quotation.start
        before = text[max(begin, quotation.start - _BEFORE) : quotation.start]
        if match := self._before.search(before):
            return _name(match)
        return "" if _SOMEBODY_BEFORE.search(before) else None


def _name(match: re.Match[str]) -> str:
    return folded(next(value for value in match.groups() if value))


def _whole(text: str, spoken: list[tuple[int, int, str | None]]) -> list[VoiceTurn]:
    """Turns that cover the whole text, in order. Neighbours with the same voice are one turn."""
    result: list[VoiceTurn] = []
    position = 0
    for start, end, voice in [*spoken, (len(text), len(text), None)]:
        for turn in (VoiceTurn(position, start, None), VoiceTurn(start, end, voice)):
            if turn.start == turn.end:
                continue
            if result and result[-1].voice == turn.voice:
                result[-1] = VoiceTurn(result[-1].start, turn.end, turn.voice)
            else:
                result.append(turn)
        position = end
    return result
