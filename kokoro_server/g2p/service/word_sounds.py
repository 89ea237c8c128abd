"""The share of each written word in the phonemes of a text, for readers that give the phonemes of the whole alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import regex

from kokoro_server.g2p.phoneme_map import to_model_symbols
from kokoro_server.g2p.result import Token

_WRITTEN_WORD = re.compile(r"[^\s—–…]+")
_OPENING = regex.compile(r"[\p{P}--[&%@#§]]+", regex.V1)
_CLOSING = regex.compile(r"(?<![\p{P}--[&%@#§]])[\p{P}--[&%@#§]]++$", regex.V1)
_SPOKEN = regex.compile(r"[\p{L}\p{N}\p{S}&%@#*§¶†]")
_CHUNK = re.compile(r"[^ ;:,.!?—…\"()“”]+")
_COMMON = frozenset("abdefijklmnoprstuvwz")  # sounds with which most chunks begin
_SOUND = regex.compile(r"[\p{L}--[ˈˌːʰʲ]]", regex.V1)
_BEFORE_SOUND = "ˈˌ"
_STRESS = str.maketrans("", "", _BEFORE_SOUND)
_DIGIT = regex.compile(r"\d")
_STEPS = ((1, 1), (2, 1), (1, 2), (3, 1), (1, 3), (1, 0), (0, 1))  # expected chunks, and those in which they are said
_WIDTH = 8  # chunks by which the sounds of a text may run ahead of those of its single words, or behind
_NEAR = 3  # phonemes
_TOO_FAR = 1e9

PhonemeRange = tuple[int, int]  # of phonemes


class WordSound(NamedTuple):
    """A written word and its place in the phonemes."""

    text: str
    start: int
    end: int


def tokens(phonemes: str, words: Iterable[WordSound]) -> tuple[Token, ...]:
    """All of `phonemes` as tokens: the words, and the marks between them."""
    found, text, start, end = list[Token](), "", 0, 0
    for following in (*words, ("", len(phonemes), len(phonemes))):
        gap = phonemes[end : following[1]]
        mark = gap.strip(" ")
        if start < end:
            found.append(Token(text, gap[: gap.index(mark)] if mark else gap, phonemes[start:end]))
        if mark:
            found.append(Token("", gap[gap.index(mark) + len(mark) :], mark))
        text, start, end = following
    return tuple(found)


def by_sound(phonemes: str, words: Iterable[tuple[str, str]]) -> tuple[Token, ...] | None:
    """The tokens of words of which each is said as it would be alone. None if `phonemes` has other sounds, too."""
    places = [place for place, symbol in enumerate(phonemes) if symbol != " "]
    packed, found, end = phonemes.replace(" ", ""), list[WordSound](), 0
    for text, sound in words:
        symbols = to_model_symbols(sound)[0].replace(" ", "")
        if not _SOUND.search(symbols):
            continue
        start = packed.find(symbols, end)
        if start < 0 or _SOUND.search(packed, end, start):
            return None
        end = start + len(symbols)
        found.append(WordSound(text, places[start], places[end - 1] + 1))
    return None if _SOUND.search(packed, end) else tokens(phonemes, found)


def by_chunk(text: str, phonemes: str, alone: Callable[[str], str]) -> tuple[Token, ...] | None:
    """The tokens of a text of which each word is mostly one chunk of phonemes.

    Where it is not, as in a number or in words that are drawn together, the phonemes of each word `alone` are compared
    with those of the text. None if they are too different.
    """
    written = [word for word in _WRITTEN_WORD.findall(text) if word[0].isalpha() or _SPOKEN.search(word)]
    chunks = [found.span() for found in _chunks(phonemes)]
    if len(written) == len(chunks) and not _DIGIT.search(text):
        places: Sequence[PhonemeRange | None] = chunks
    else:
        expected = [(index, each) for index, word in enumerate(written) for each in _sounds(alone(word))]
        shares = _shares([each for _, each in expected], phonemes, chunks)
        if shares is None:
            return None
        places = _of_words(len(written), [index for index, _ in expected], shares)
    return tokens(
        phonemes, (WordSound(_bare(word), *place) for word, place in zip(written, places, strict=True) if place)
    )


def _bare(word: str) -> str:
    """The word without the marks around it. An apostrophe at its end is a mark only if it also begins with marks."""
    if word[0].isalnum() and word[-1].isalnum():
        return word
    opening, closing = _OPENING.match(word), _CLOSING.search(word)
    start, end = opening.end() if opening else 0, closing.start() if closing else len(word)
    return word[start : end + (not start and word[end : end + 1] in ("'", "’"))]


def _sounds(phonemes: str) -> list[str]:
    return [found[0].translate(_STRESS) for found in _chunks(phonemes)]


def _chunks(phonemes: str) -> Iterator[re.Match[str]]:
    return (found for found in _CHUNK.finditer(phonemes) if found[0][0] in _COMMON or _SOUND.search(found[0]))


def _of_words(count: int, owners: Sequence[int], shares: Sequence[PhonemeRange | None]) -> list[PhonemeRange | None]:
    """The range of each word: from the first of its sounds to the last."""
    words: list[PhonemeRange | None] = [None] * count
    for owner, share in zip(owners, shares, strict=True):
        known = words[owner]
        words[owner] = (known[0], share[1]) if known and share else share or known
    return words


def _shares(expected: Sequence[str], phonemes: str, chunks: Sequence[PhonemeRange]) -> list[PhonemeRange | None] | None:
    """The range in which each of the `expected` sounds is said. None if they cannot be recognized in the chunks."""
    said = [phonemes[start:end].translate(_STRESS) for start, end in chunks]
    steps = _cheapest_steps(expected, said)
    if steps is None:
        return None
    shares, i, j = list[PhonemeRange | None](), 0, 0
    for sounds, spoken in steps:
        if not sounds and shares and shares[-1]:
            shares[-1] = (shares[-1][0], chunks[j][1])
        elif sounds and not spoken:
            shares.append(None)
        elif sounds:
            whole = chunks[j][0], chunks[j + spoken - 1][1]
            shares += _divided(phonemes, whole, expected[i : i + sounds])
        i, j = i + sounds, j + spoken
    return shares


def _cheapest_steps(expected: Sequence[str], said: Sequence[str]) -> list[tuple[int, int]] | None:
    """How many expected sounds are said in how many chunks, from the first to the last."""
    costs: dict[PhonemeRange, float] = {(0, 0): 0.0}
    steps = dict[PhonemeRange, tuple[int, int]]()
    for i in range(len(expected) + 1):
        middle = i * len(said) // max(len(expected), 1)
        for j in range(max(0, middle - _WIDTH), min(len(said), middle + _WIDTH) + 1):
            for step in _STEPS:
                before = i - step[0], j - step[1]
                cost = costs.get(before, _TOO_FAR)
                if cost < _TOO_FAR:
                    cost += _difference("".join(expected[before[0] : i]), "".join(said[before[1] : j])) + sum(step)
                    if cost < costs.get((i, j), _TOO_FAR):
                        costs[i, j], steps[i, j] = cost, step
    place, found = (len(expected), len(said)), list[tuple[int, int]]()
    while place in steps:
        found.append(steps[place])
        place = place[0] - steps[place][0], place[1] - steps[place][1]
    return found[::-1] if found and place == (0, 0) else None


def _difference(one: str, other: str) -> float:
    return 2 * abs(len(one) - len(other)) + (one[:1] != other[:1]) + (one[-1:] != other[-1:])


def _divided(phonemes: str, whole: PhonemeRange, sounds: Sequence[str]) -> Iterator[PhonemeRange]:
    """The range of each of the sounds that are said as one, by their lengths and first phonemes."""
    start, end = whole
    total, cuts = sum(map(len, sounds)), [start]
    for until, following in zip(accumulate(map(len, sounds)), sounds[1:], strict=False):
        cuts.append(_sound_near(phonemes, start + round((end - start) * until / total), following[0], (cuts[-1], end)))
    return pairwise([*cuts, end])


def _sound_near(phonemes: str, place: int, first: str, within: PhonemeRange) -> int:
    """Where a sound that begins with `first` begins: near `place`, or else there, between two sounds."""
    near = sorted(
        range(max(within[0] + 1, place - _NEAR), min(within[1], place + _NEAR)), key=lambda at: abs(at - place)
    )
    sounds = [at for at in near if _SOUND.match(phonemes, at)]
    cut = next((at for at in sounds if phonemes[at] == first), sounds[0] if sounds else within[1])
    return cut - 1 if phonemes[cut - 1] in _BEFORE_SOUND and cut - 1 > within[0] else cut
