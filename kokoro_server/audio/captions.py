"""Word timings as subtitles: short lines that appear while they are spoken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import regex

from kokoro_server.text.markup import PRONUNCIATION_MARKUP
from kokoro_server.text.pauses import PAUSE_MARKUP
from kokoro_server.text.splitter import sentences

LINE = 42  # characters, the usual limit of subtitle guidelines
MAX_SECONDS = 6.0  # a cue stands no longer, unless a single word takes more
MIN_SECONDS = 1.0  # a shorter one is left standing this long, if the next one leaves it the time
LONG_GAP = 0.8  # seconds without a word: the cue ends before it
CLAUSE_BONUS = 0.5  # how far from the middle, as a share of the half, a cut after a clause mark is still better

WIDE = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
OPENING = r"\p{Ps}\p{Pi}"
# A line does not begin with these: what closes, marks on the letter before, long vowels, repetitions, small kana.
FOLLOWING = r"\p{Po}\p{Pe}\p{Pf}\p{M}ー々ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ"
# Between two characters of a script without spaces, or between such a one and another script. Bounded runs of marks
# keep the search linear.
WIDE_BREAK = regex.compile(
    rf"(?<={WIDE}[{FOLLOWING}]{{0,3}})(?![{FOLLOWING}]|$)"
    rf"|(?<=[^\s{OPENING}])(?![{FOLLOWING}])(?=[{OPENING}]{{0,3}}{WIDE})"
)
WORD = regex.compile(r"\S+")
GRAPHEME = regex.compile(r"\X")
BLANK = regex.compile(r"[\s\p{Cc}]")
CLAUSE_END = regex.compile(r"[,;:—–、，；：][\p{Pe}\p{Pf}\"']*$")


@dataclass(frozen=True, slots=True)
class Timing:
    """A word, or a phrase where words are not known, and when it is spoken: `text == original[char_start:char_end]`."""

    text: str
    start: float  # seconds
    end: float
    char_start: int
    char_end: int
    phrase: bool


@dataclass(frozen=True, slots=True)
class Cue:
    """One or two lines and when they are shown."""

    start: float  # seconds, to the millisecond
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class _Word:
    """What is never broken, as a stretch of the displayed text."""

    first: int
    last: int  # exclusive
    start: float
    end: float
    ends_sentence: bool
    ends_clause: bool


def cues(timings: Sequence[Timing], text: str) -> list[Cue]:
    """`text` in lines of readable length, in step with its timings. All of it is there, less the markup."""
    shown, places = _displayed(text)
    located = _located(timings, places)
    if not located:
        return []
    words = _words(shown, located, {places[span.end] for span in sentences(text)})
    groups = [part for run in _runs(words) for part in _split(shown, run)]
    lines = ["\n".join(_lines(shown, group)) for group in groups]
    return [Cue(start, end, line) for (start, end), line in zip(_times(groups), lines, strict=True)]


def srt(cues: Iterable[Cue]) -> str:
    """A SubRip file."""
    return "\n".join(
        f"{number}\n{_stamp(cue.start, ',')} --> {_stamp(cue.end, ',')}\n{cue.text}\n"
        for number, cue in enumerate(cues, 1)
    )


def vtt(cues: Iterable[Cue]) -> str:
    """A WebVTT file."""
    blocks = [f"{_stamp(cue.start, '.')} --> {_stamp(cue.end, '.')}\n{_escaped(cue.text)}\n" for cue in cues]
    return "\n".join(["WEBVTT\n", *blocks])


def _stamp(seconds: float, point: str) -> str:
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{milliseconds:03}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _displayed(text: str) -> tuple[str, list[int]]:
    """`text` without markup and with single spaces; and where in it each character of `text` has gone."""
    characters = list(BLANK.sub(" ", text))
    for mark in PAUSE_MARKUP.finditer(text):
        characters[mark.start() : mark.end()] = [" ", *[""] * (len(mark.group()) - 1)]
    for inline in PRONUNCIATION_MARKUP.finditer(text):
        for first, last in ((inline.start(), inline.start("word")), (inline.end("word"), inline.end())):
            characters[first:last] = [""] * (last - first)
    shown: list[str] = []
    places: list[int] = []
    for character in characters:
        places.append(len(shown))
        if character and (character != " " or (shown and shown[-1] != " ")):
            shown.append(character)
    places.append(len(shown))
    return "".join(shown).rstrip(), places


def _located(timings: Iterable[Timing], places: list[int]) -> list[Timing]:
    """The timings with their places in the displayed text."""
    moved = (
        replace(timing, char_start=places[timing.char_start], char_end=places[timing.char_end]) for timing in timings
    )
    return [timing for timing in moved if timing.char_start < timing.char_end]


def _words(shown: str, timings: list[Timing], sentence_ends: set[int]) -> list[_Word]:
    words: list[_Word] = []
    begin = 0
    for first, last in _unbroken(shown):
        while begin < len(timings) and timings[begin].char_end <= first:
            begin += 1
        stop = begin
        while stop < len(timings) and timings[stop].char_start < last:
            stop += 1
        if stop > begin:
            start, end = _time(timings[begin], first), _time(timings[stop - 1], last)
        elif begin < len(timings) and (not words or words[-1].ends_sentence):
            start = end = timings[begin].start  # what has no sound goes with the word after it
        else:
            start = end = words[-1].end  # or before it
        ends_sentence = last in sentence_ends
        ends_clause = ends_sentence or CLAUSE_END.search(shown, first, last) is not None
        words.append(_Word(first, last, start, max(start, end), ends_sentence, ends_clause))
    return words


def _time(timing: Timing, place: int) -> float:
    """When `place` is spoken, as if all characters took the same time."""
    share = (place - timing.char_start) / (timing.char_end - timing.char_start)
    return timing.start + min(max(share, 0.0), 1.0) * (timing.end - timing.start)


def _unbroken(shown: str) -> Iterator[tuple[int, int]]:
    """The stretches between which a line may end: words, single characters of scripts without spaces, parts of URLs."""
    for word in WORD.finditer(shown):
        inner = [word.start() + gap.start() for gap in WIDE_BREAK.finditer(word.group())]
        for first, last in pairwise([word.start(), *inner, word.end()]):
            for grapheme in GRAPHEME.finditer(shown, first, last):
                if grapheme.end() - first > LINE and grapheme.start() > first:
                    yield first, grapheme.start()
                    first = grapheme.start()
            yield first, last


def _runs(words: Iterable[_Word]) -> list[list[_Word]]:
    """The words between sentence ends and long gaps."""
    runs: list[list[_Word]] = []
    for word in words:
        if not runs or _is_over(runs[-1], word):
            runs.append([])
        runs[-1].append(word)
    return runs


def _is_over(run: list[_Word], following: _Word) -> bool:
    if following.start - run[-1].end >= LONG_GAP:
        return True
    is_moment = run[-1].end - run[0].start < MIN_SECONDS  # too short to be read alone
    return run[-1].ends_sentence and not is_moment


def _split(shown: str, words: list[_Word]) -> list[list[_Word]]:
    """Parts that can each be shown at once, about equally long."""
    is_brief = words[-1].end - words[0].start <= MAX_SECONDS
    if len(words) == 1 or (is_brief and _lines(shown, words)):
        return [words]
    cut = _best_cut(words, range(1, len(words)))
    return _split(shown, words[:cut]) + _split(shown, words[cut:])


def _lines(shown: str, words: list[_Word]) -> list[str]:
    """One line, or two; none if they would be too long."""
    first, last = words[0].first, words[-1].last
    if last - first <= LINE or len(words) == 1:
        return [shown[first:last]]
    if last - first > 2 * LINE + 1:
        return []
    cuts = [
        cut for cut in range(1, len(words)) if words[cut - 1].last - first <= LINE and last - words[cut].first <= LINE
    ]
    if not cuts:
        return []
    cut = _best_cut(words, cuts)
    return [shown[first : words[cut - 1].last], shown[words[cut].first : last]]


def _best_cut(words: list[_Word], cuts: Iterable[int]) -> int:
    """The one nearest to the middle, or one after a clause not far from it."""
    half = (words[-1].last - words[0].first) / 2
    middle = words[0].first + half

    def badness(cut: int) -> float:
        return abs(words[cut].first - middle) / half - (CLAUSE_BONUS if words[cut - 1].ends_clause else 0.0)

    return min(cuts, key=badness)


def _times(groups: list[list[_Word]]) -> Iterator[tuple[float, float]]:
    """From the first word to the last, in whole milliseconds, never overlapping and never empty."""
    starts = [round(group[0].start * 1000) for group in groups]
    free = 0
    for group, start, following in zip(groups, starts, [*starts[1:], None], strict=True):
        begin = max(start, free)
        shortest = begin + round(MIN_SECONDS * 1000)
        end = max(round(group[-1].end * 1000), shortest if following is None else min(shortest, following), begin + 1)
        free = end
        yield begin / 1000, end / 1000
