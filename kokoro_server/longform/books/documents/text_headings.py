"""Finds the headings and the table of contents of a plain text, by how they are written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kokoro_server.longform.books.data_files import load
from kokoro_server.longform.books.documents.text_lines import LineGroup

_WORDS = {name: "|".join(words) for name, words in load("headings").items()}
_PARTS, _CHAPTERS, _NUMBER = _WORDS["parts"], _WORDS["chapters"], _WORDS["numbers"]
_NUMBERED = re.compile(rf"(?:(?P<part>{_PARTS})|(?:{_CHAPTERS}))\s+(?:{_NUMBER})(?=[.:,;)—–-]|\s|$)(?P<rest>.*)", re.I)
_NAMED = re.compile(rf"(?:{_WORDS['named']})\b[.:]?.{{0,60}}", re.I)
_CJK = re.compile(r"第\s*[一二三四五六七八九十百千零〇\d]+\s*(?P<what>[章回節节話话部卷篇]).{0,40}|[序终終]章.{0,20}")
_NUMERAL = re.compile(r"(?:([IVXLC]{1,8})|(\d{1,3}))\.?")
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_LONGEST = 120  # characters of a heading
_TITLE = 70  # characters of its second line
_CONTENTS = re.compile(_WORDS["contents"], re.I)
_LEADERS = re.compile(r"[\s.·…_-]*\s(?:\d{1,4}|[ivxlc]{1,8})\s*$|[\s.·…]+\d{1,4}\s*$", re.I)
_LEAD = re.compile(rf"^(?:(?:{_PARTS}|{_CHAPTERS})\s+)?(?:[ivxlcdm]+|\d{{1,4}})\b[\s.:)—–-]*", re.I)
_IN_SEQUENCE = 3  # bare numerals that count up, at least


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    rank: int  # 1 for parts, 2 for chapters
    bare: bool = False  # only a number, whose title may follow


def headings(found: Sequence[LineGroup]) -> dict[int, Heading]:
    """The headings, by the index of their group."""
    result = {number: heading for number, group in enumerate(found) if (heading := _heading(group))}
    if not any(heading.bare or _NUMBERED.match(heading.text) for heading in result.values()):
        result |= _numerals(found)
    if not result:
        result = _capitals(found)
    return result


def heading(line: str) -> Heading | None:
    """The heading that a line is by itself."""
    return _heading(LineGroup((line,), False, 0))


def _heading(group: LineGroup) -> Heading | None:
    if len(group.lines) > 3 or sum(map(len, group.lines)) > _LONGEST:
        return None
    text = " ".join(group.lines)
    if match := _NUMBERED.fullmatch(text):
        rest = match["rest"].strip(" .:—–-")
        first = _NUMBERED.fullmatch(group.lines[0])
        # "Part one of the plan was done, and" is a sentence: a title begins in capitals, or on a line of its own.
        if rest and rest[0].islower() and not (first and not first["rest"].strip(" .:—–-")):
            return None
        if rest and text.endswith((",", ";")):
            return None
        return Heading(text, 1 if match["part"] else 2, not rest)
    if (match := _CJK.fullmatch(text)) and not text.endswith("。"):
        return Heading(text, 1 if match["what"] in ("部", "卷", "篇") else 2)
    if _NAMED.fullmatch(text) and len(group.lines) == 1 and (text.isupper() or len(text.split()) <= 3):
        return Heading(text, 2) if text[0].isupper() and not text.endswith((",", ";")) else None
    return None


def _numerals(found: Sequence[LineGroup]) -> dict[int, Heading]:
    """Groups that are only numbers and count up."""
    numbers = [
        (place, group.lines[0])
        for place, group in enumerate(found)
        if len(group.lines) == 1 and _NUMERAL.fullmatch(group.lines[0])
    ]
    expected, result = 1, dict[int, Heading]()
    for place, text in numbers:
        if _value(text.rstrip(".")) == expected:
            result[place] = Heading(text, 2, bare=True)
            expected += 1
    return result if len(result) >= _IN_SEQUENCE else {}


def _value(numeral: str) -> int:
    if numeral.isdigit():
        return int(numeral)
    values = [_ROMAN[letter] for letter in numeral]
    return sum(-value if value < max(values[i:]) else value for i, value in enumerate(values))


def _capitals(found: Sequence[LineGroup]) -> dict[int, Heading]:
    """Single lines in capitals after much space."""
    return {
        place: Heading(group.lines[0], 2)
        for place, group in enumerate(found)
        if place
        and group.space_before >= 2
        and len(group.lines) == 1
        and len(group.lines[0]) <= _TITLE
        and group.lines[0].isupper()
        and not group.lines[0].endswith((",", ";"))
        and len(group.lines[0]) > 2
    }


def is_title(group: LineGroup) -> bool:
    """Whether it may be the title of a chapter whose heading is a bare number."""
    text = " ".join(group.lines[:3])[: _TITLE + 1]
    words = text.split()
    return (
        len(group.lines) <= 2
        and len(text) <= _TITLE
        and text[0] not in "\"'“‘«„["
        and text[-1] not in ",;"
        and (
            text.isupper() or (text[-1] not in '!?."”’' and 2 * sum(word[0].isupper() for word in words) >= len(words))
        )
    )


def contents(found: Sequence[LineGroup]) -> range:
    """The groups of the table of contents: its heading, and those after it whose lines appear again later."""
    begin = next((i for i, group in enumerate(found) if _CONTENTS.fullmatch(group.lines[0].strip(" .:"))), None)
    if begin is None:
        return range(0)
    later = Counter(key for group in found[begin + 1 :] for key in map(_key, group.lines))
    end = begin + 1
    below = list(found[begin].lines[1:])
    if below and not _listed(below, later):
        return range(0)
    first = next(map(_key, below), None)
    while end < len(found):
        lines = found[end].lines
        keys = [*map(_key, lines)]
        if (first is not None and keys[:1] == [first]) or not _listed(lines, later):
            break
        first = first or keys[0]
        later.subtract(keys)
        end += 1
    return range(begin, end) if end > begin + 1 or below else range(0)


def _key(line: str) -> str:
    if len(line) > _LONGEST:
        return line
    text = _LEADERS.sub("", line)
    bare = _LEAD.sub("", text)
    return re.sub(r"\W+", " ", bare if bare.strip(" .") else text).strip().lower()


def _listed(lines: Sequence[str], later: Counter[str]) -> bool:
    listed = sum(
        later[_key(line)] > 1 or (len(line) <= _LONGEST and _LEADERS.search(line) is not None) for line in lines
    )
    return 2 * listed > len(lines) or (listed > 0 and len(lines) == 2)
