"""Word timings as subtitles: short lines that appear while they are spoken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import regex

from kokoro_server.synthesis.phonemes import PhonemeTiming
from kokoro_server.text.markup import PRONUNCIATION_MARKUP
from kokoro_server.text.pauses import PAUSE_MARKUP
from kokoro_server.text.script import PlainText, Script
from kokoro_server.text.splitter import grapheme_ends, sentences
from kokoro_server.text.voice_tags import VOICE_TAG, has_tags

MAX_LINE = 42  # characters, the usual limit of subtitle guidelines
MAX_SECONDS = 6.0  # a cue is shown no longer, unless a single word takes more
MIN_SECONDS = 1.0  # a shorter cue stays this long, if the next one leaves it the time
LONG_GAP = 0.8  # seconds without a word: the cue ends before it
CLAUSE_BONUS = 0.5  # how far from the middle, as a share of the half, a cut after a clause mark is still better

CJK = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
OPENING = r"\p{Ps}\p{Pi}"
# A line must not begin with these: closing punctuation, combining marks, long vowel and repetition marks, small kana.
NO_LINE_START = r"\p{Po}\p{Pe}\p{Pf}\p{M}ー々ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ"
# Line breaks between two characters of a script without spaces, or between such a character and another script.
# Bounded runs of marks keep the search linear.
CJK_BREAK = regex.compile(
    rf"(?<={CJK}[{NO_LINE_START}]{{0,3}})(?![{NO_LINE_START}]|$)"
    rf"|(?<=[^\s{OPENING}])(?![{NO_LINE_START}])(?=[{OPENING}]{{0,3}}{CJK})"
)
WORD = regex.compile(r"\S+")
BLANK = regex.compile(r"[\s\p{Cc}]")
CLAUSE_END = regex.compile(r"[,;:—–、，；：][\p{Pe}\p{Pf}\"']*$")


Timed = TypeVar("Timed", "Timing", PhonemeTiming)


@dataclass(frozen=True, slots=True)
class Timing:
    """A word, or a phrase where words are not known, and when it is spoken: `text == original[char_start:char_end]`."""

    text: str
    start: float  # seconds
    end: float
    char_start: int
    char_end: int
    phrase: bool


def later(word: Timed, seconds: float) -> Timed:
    """A copy of the word or phoneme that comes later, with its times to a tenth of a millisecond."""
    return replace(word, start=round(word.start + seconds, 4), end=round(word.end + seconds, 4))


@dataclass(frozen=True, slots=True)
class Cue:
    """One or two lines of a subtitle, and when they are shown."""

    start: float  # seconds, to the millisecond
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class _Word:
    """An unbreakable span of the displayed text, and when it is spoken."""

    first: int
    last: int  # exclusive
    start: float
    end: float
    ends_sentence: bool
    ends_clause: bool


def cues(timings: Sequence[Timing], text: str) -> list[Cue]:
    """All of `text` but its markup, in lines of readable length that follow its timings."""
    display, offsets = _display_text(text)
    located = _display_timings(timings, offsets)
    if not located:
        return []
    words = _words(display, located, {offsets[span.end] for span in sentences(text)})
    groups = [part for run in _runs(words) for part in _split(display, run)]
    lines = ["\n".join(_lines(display, group)) for group in groups]
    return [Cue(start, end, line) for (start, end), line in zip(_cue_times(groups), lines, strict=True)]


def script_cues(timings: Sequence[Timing], script: Script) -> list[Cue]:
    """As `cues`, for a script: its text alone, without the markup that it was in."""
    plain = PlainText(script)
    located = ((timing, plain.locate(timing.char_start, timing.char_end)) for timing in timings)
    return cues([replace(timing, char_start=start, char_end=end) for timing, (start, end) in located], plain.text)


def srt(cues: Iterable[Cue]) -> str:
    return "\n".join(
        f"{number}\n{_timestamp(cue.start, ',')} --> {_timestamp(cue.end, ',')}\n{cue.text}\n"
        for number, cue in enumerate(cues, 1)
    )


def vtt(cues: Iterable[Cue]) -> str:
    blocks = [f"{_timestamp(cue.start, '.')} --> {_timestamp(cue.end, '.')}\n{_escape(cue.text)}\n" for cue in cues]
    return "\n".join(["WEBVTT\n", *blocks])


def _timestamp(seconds: float, point: str) -> str:
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{milliseconds:03}"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _display_text(text: str) -> tuple[str, list[int]]:
    """`text` without markup and with single spaces; and the offset in that of each character of `text`."""
    characters = list(BLANK.sub(" ", text))
    voices = VOICE_TAG.finditer(text) if has_tags(text) else ()
    for mark in (*PAUSE_MARKUP.finditer(text), *voices):
        characters[mark.start() : mark.end()] = [" ", *[""] * (len(mark.group()) - 1)]
    for inline in PRONUNCIATION_MARKUP.finditer(text):
        for first, last in ((inline.start(), inline.start("word")), (inline.end("word"), inline.end())):
            characters[first:last] = [""] * (last - first)
    display: list[str] = []
    offsets: list[int] = []
    for character in characters:
        offsets.append(len(display))
        if character and (character != " " or (display and display[-1] != " ")):
            display.append(character)
    offsets.append(len(display))
    return "".join(display).rstrip(), offsets


def _display_timings(timings: Iterable[Timing], offsets: list[int]) -> list[Timing]:
    moved = (
        replace(timing, char_start=offsets[timing.char_start], char_end=offsets[timing.char_end]) for timing in timings
    )
    return [timing for timing in moved if timing.char_start < timing.char_end]


def _words(display: str, timings: list[Timing], sentence_ends: set[int]) -> list[_Word]:
    words: list[_Word] = []
    begin = 0
    for first, last in _unbreakable(display):
        while begin < len(timings) and timings[begin].char_end <= first:
            begin += 1
        stop = begin
        while stop < len(timings) and timings[stop].char_start < last:
            stop += 1
        if stop > begin:
            start, end = _time_at(timings[begin], first), _time_at(timings[stop - 1], last)
        elif begin < len(timings) and (not words or words[-1].ends_sentence):
            start = end = timings[begin].start  # what has no sound is shown with the word after it
        else:
            start = end = words[-1].end  # or with the word before it
        ends_sentence = last in sentence_ends
        ends_clause = ends_sentence or CLAUSE_END.search(display, first, last) is not None
        words.append(_Word(first, last, start, max(start, end), ends_sentence, ends_clause))
    return words


def _time_at(timing: Timing, offset: int) -> float:
    """When the character at `offset` is spoken, as if all characters took the same time."""
    share = (offset - timing.char_start) / (timing.char_end - timing.char_start)
    return timing.start + min(max(share, 0.0), 1.0) * (timing.end - timing.start)


def _unbreakable(display: str) -> Iterator[tuple[int, int]]:
    """The spans between which a line may end: words, single characters of scripts without spaces, parts of URLs."""
    for word in WORD.finditer(display):
        inner = [word.start() + gap.start() for gap in CJK_BREAK.finditer(word.group())]
        for first, last in pairwise([word.start(), *inner, word.end()]):
            fits = first
            for end in grapheme_ends(display, first, last):
                if end - first > MAX_LINE and fits > first:
                    yield first, fits
                    first = fits
                fits = end
            yield first, last


def _runs(words: Iterable[_Word]) -> list[list[_Word]]:
    """The words between sentence ends and long gaps."""
    runs: list[list[_Word]] = []
    for word in words:
        if not runs or _ends_run(runs[-1], word):
            runs.append([])
        runs[-1].append(word)
    return runs


def _ends_run(run: list[_Word], following: _Word) -> bool:
    if following.start - run[-1].end >= LONG_GAP:
        return True
    too_short = run[-1].end - run[0].start < MIN_SECONDS  # to be read alone
    return run[-1].ends_sentence and not too_short


def _split(display: str, words: list[_Word]) -> list[list[_Word]]:
    """`words` in parts of about the same length, each short enough for one cue."""
    is_brief = words[-1].end - words[0].start <= MAX_SECONDS
    if len(words) == 1 or (is_brief and _lines(display, words)):
        return [words]
    cut = _best_cut(words, range(1, len(words)))
    return _split(display, words[:cut]) + _split(display, words[cut:])


def _lines(display: str, words: list[_Word]) -> list[str]:
    """One line or two; none if they would be too long."""
    first, last = words[0].first, words[-1].last
    if last - first <= MAX_LINE or len(words) == 1:
        return [display[first:last]]
    if last - first > 2 * MAX_LINE + 1:
        return []
    cuts = [i for i in range(1, len(words)) if max(words[i - 1].last - first, last - words[i].first) <= MAX_LINE]
    if not cuts:
        return []
    cut = _best_cut(words, cuts)
    return [display[first : words[cut - 1].last], display[words[cut].first : last]]


def _best_cut(words: list[_Word], cuts: Iterable[int]) -> int:
    """The cut nearest to the middle, or one after a clause that is not far from it."""
    half = (words[-1].last - words[0].first) / 2
    middle = words[0].first + half

    def badness(cut: int) -> float:
        return abs(words[cut].first - middle) / half - (CLAUSE_BONUS if words[cut - 1].ends_clause else 0.0)

    return min(cuts, key=badness)


def _cue_times(groups: list[list[_Word]]) -> Iterator[tuple[float, float]]:
    """The start and end of each cue, in whole milliseconds: no cue overlaps another or is empty."""
    starts = [round(group[0].start * 1000) for group in groups]
    free = 0
    for group, start, following in zip(groups, starts, [*starts[1:], None], strict=True):
        begin = max(start, free)
        shortest = begin + round(MIN_SECONDS * 1000)
        end = max(round(group[-1].end * 1000), shortest if following is None else min(shortest, following), begin + 1)
        free = end
        yield begin / 1000, end / 1000
