"""Splits text into sentences, before G2P. Every character is in exactly one sentence or in the space between two."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import regex

from kokoro_server.text.markup import CJK, PRONUNCIATION_MARKUP

MAX_SENTENCE_CHARACTERS = 800  # sent to G2P at once; a longer run-on is broken at a clause, else between words

# Dots after these end no sentence, whatever follows.
NONFINAL_ABBREVIATIONS = frozenset(
    "dr dra mr mrs ms mx prof rev hon st gen col maj capt cmdr lt sgt cpl pvt adm gov sen rep pres messrs mme mlle "
    "sra srta sig dott ing vs ca cf viz approx dept univ assn mt ft ave blvd rd av e.g i.e ex ph.d".split()
)
# Dots after these, and after initials, end a sentence if one plainly begins: "in the U.S. The", not "U.S. Army".
AMBIGUOUS_ABBREVIATIONS = frozenset("al bros co corp est inc jr ltd sr ud uds".split())
SENTENCE_OPENERS = frozenset(
    "A An And At But By For From He Her Here His How However I If In It Its My No Not Now On Our She So That The "
    "Their Then There These They This Those We What When Where Which While Who Why Yes You Your".split()
)
# Dots after these end no sentence when a number follows: "No. 5", "Jan. 3", "pp. 4-6".
ABBREVIATIONS_BEFORE_NUMBERS = frozenset(
    "no nos nr núm vol vols fig figs eq chap ch sec p pp pág art op jan feb mar apr jun jul aug sep sept oct nov dec "
    "janv févr avr".split()
)

_CLOSING = re.escape("\"'”’»)]}」』）】〉》")
_LINE_END = r"\n\r\v\f\x85\u2028\u2029"
# The look-behind keeps a long run of dots from being tried at each of its dots.
_TERMINATOR = (
    rf"(?P<stop>(?<![.!?…‽])[.!?…‽]++[{_CLOSING}]*+(?=\s|\Z))|(?P<wide>(?:[。！？｡।॥]|．(?!\d))++[{_CLOSING}]*+)"
)
_BREAK = re.compile(rf"{PRONUNCIATION_MARKUP.pattern}|{_TERMINATOR}|(?P<line>[{_LINE_END}]\s*+)")
_SPACE = re.compile(r"\s+")
BLANK_LINE = re.compile(r"\n[^\S\n\v]*+\n|\u2029")  # a line with nothing but a vertical tab is none: SSML's <s>
_LONGEST_GAP = 1_000  # characters of white space, in which a blank line is looked for
_BREAKABLE_SPACE = re.compile(r"[^\S\xa0\u2007\u202f]+")  # a no-break space holds a number together
_WIDE_COMMA = r"(?:[、；]|[，：](?!\d))"
CLAUSE = re.compile(rf"(?:[,;:][{_CLOSING}]*(?=\s)|(?:—|{_WIDE_COMMA}|…{{2}})+[{_CLOSING}]*|(?<=\s)–(?=\s))\s*")
_WORD_BEFORE = re.compile(r"[^\s(\[\"“‘'¿¡]+\Z")
_WORD_AFTER = re.compile(r"\s*[\"“‘'(]?(\w+)(?!\w|\.)")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")  # J, U.S
_ITEM_NUMBER = re.compile(r"(?:\A|\n|[:.!?…]\s)\s*\(?\d{1,3}\Z")
_BULLET = re.compile(r"(?:[-*•‣◦#]|\(?(?:\d{1,3}|[a-z])[.)])\s")
_GRAPHEME = regex.compile(r"\X")
_LONGEST_GRAPHEME = 200  # characters
_WIDE = regex.compile(rf"[{CJK}]")
WRAPPED_LINE_COLUMNS = 50  # a longer line that ends mid-sentence was wrapped, a shorter one is a heading or an item


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A range of the original text: `text == original[start:end]`."""

    start: int
    end: int
    text: str
    continues: bool = False  # the sentence goes on in the next span
    ends_paragraph: bool = False  # a blank line follows

    def between(self, start: int, end: int) -> TextSpan:
        """The part from `start` to `end`, offsets in the original, without the space around it."""
        body = self.text[start - self.start : end - self.start]
        inner = body.strip()
        start += len(body) - len(body.lstrip()) if inner else 0
        return TextSpan(start, start + len(inner), inner)


def sentences(
    text: str,
    limit: int = MAX_SENTENCE_CHARACTERS,
    offset: int = 0,
    unbroken: Sequence[tuple[int, int]] = (),
) -> Iterator[TextSpan]:
    """The sentences of `text`, in order, stripped and none empty. `offset` is where `text` begins in the original.

    A sentence longer than `limit` comes in several spans. No sentence ends within one of the `unbroken` ranges, which
    are in order.
    """
    start, ranges = 0, deque(unbroken)
    for end in _ends(text):
        while ranges and ranges[0][1] <= end:
            ranges.popleft()
        if ranges and ranges[0][0] < end < len(text):
            continue
        for first, last in split_long(text, start, end, limit):
            body = text[first:last]
            inner = body.strip()
            if inner:
                position = offset + first + len(body) - len(body.lstrip())
                gap = _SPACE.match(text, first + len(body.rstrip()), last + _LONGEST_GAP)
                blank = gap is not None and BLANK_LINE.search(gap.group()) is not None
                yield TextSpan(position, position + len(inner), inner, continues=last < end, ends_paragraph=blank)
        start = end


def clauses(text: str) -> Iterator[tuple[int, int]]:
    """The ranges of the clauses of a sentence, in order. Together they are all of `text`."""
    start = 0
    for match in CLAUSE.finditer(text):
        yield start, match.end()
        start = match.end()
    if start < len(text):
        yield start, len(text)


def grapheme_ends(text: str, start: int, stop: int) -> Iterator[int]:
    """Where the characters that are seen as one end, between `start`, where one begins, and `stop`.

    In bits: to find where a flag ends, all flags before it are counted, each time.
    """
    stop = min(stop, len(text))
    while start < stop:
        bit = text[start : min(start + _LONGEST_GRAPHEME, stop)]
        ends = [start + match.end() for match in _GRAPHEME.finditer(bit)]
        if len(ends) > 1 and ends[-1] < stop:
            ends.pop()  # it may go on
        yield from ends
        start = ends[-1]


def _ends(text: str) -> Iterator[int]:
    for match in _BREAK.finditer(text):
        if (
            match["wide"]
            or (match["stop"] and _ends_sentence(text, match))
            or (match["line"] and _ends_line(text, match))
        ):
            yield match.end()
    yield len(text)


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    gap = _SPACE.match(text, match.end())
    following = text[gap.end() : gap.end() + 1] if gap else ""
    if following.islower():
        return False
    if match.group()[:2] == ".." or match.group()[0] in "!?…‽":
        return True
    return not _is_abbreviation(text[max(0, match.start() - 40) : match.start()], text[match.end() : match.end() + 40])


def _is_abbreviation(before: str, after: str) -> bool:
    """Whether a dot between `before` and `after` ends no sentence."""
    match = _WORD_BEFORE.search(before)
    if match is None:
        return False
    word = match.group().lower()
    if word in NONFINAL_ABBREVIATIONS or _ITEM_NUMBER.search(before):
        return True
    if word in ABBREVIATIONS_BEFORE_NUMBERS and after.lstrip()[:1].isdigit():
        return True
    if word in AMBIGUOUS_ABBREVIATIONS or _INITIALS.fullmatch(word):
        opener = _WORD_AFTER.match(after)
        return opener is None or opener[1] not in SENTENCE_OPENERS
    return False


def _ends_line(text: str, match: re.Match[str]) -> bool:
    """A blank line and an item of a list always end a sentence. Any other line break does if the line is not full."""
    if match.group().count("\n") > 1 or _BULLET.match(text, match.end()):
        return True
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    columns = len(line) + len(_WIDE.findall(line[:WRAPPED_LINE_COLUMNS]))
    return columns < WRAPPED_LINE_COLUMNS and not text[match.end() : match.end() + 1].islower()


def split_long(text: str, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """The range from `start` to `end` in parts of at most `limit` characters."""
    while end - start > limit:
        cut = _best_cut(text, start, start + limit)
        yield start, min(cut, end)
        start = cut
    if start < end:
        yield start, end


def _best_cut(text: str, start: int, stop: int) -> int:
    """The last clause end in the second half, else the last gap between words, else the last gap between graphemes."""
    links = PRONUNCIATION_MARKUP.finditer(text, start, stop + 1000)
    markup = [link.span() for link in links if link.start() < stop]
    half = (start + stop) // 2
    for pattern, low in ((CLAUSE, half), (_BREAKABLE_SPACE, half), (_BREAKABLE_SPACE, start + 1)):
        for match in reversed(list(pattern.finditer(text, low, stop))):
            if not _is_within(match.end(), markup) and not _follows_abbreviation(text, match.start()):
                return match.end()
    return _grapheme_cut(text, start, stop, markup)


def _follows_abbreviation(text: str, position: int) -> bool:
    dot = position - 1
    return text[dot] == "." and _is_abbreviation(text[max(0, dot - 40) : dot], text[position : position + 40])


def _grapheme_cut(text: str, start: int, stop: int, markup: list[tuple[int, int]]) -> int:
    if markup and markup[-1][0] < stop < markup[-1][1]:
        first, last = markup[-1]
        return first if first > start else last
    return max((end for end in grapheme_ends(text, start, stop + 1) if end <= stop), default=stop)


def _is_within(position: int, ranges: list[tuple[int, int]]) -> bool:
    return any(first < position < last for first, last in ranges)
