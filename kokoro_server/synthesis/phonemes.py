"""When each phoneme is spoken, and the shapes of the mouth that go with it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

from kokoro_server.runtime.json import JsonObject

VisemeSet = Literal["oculus", "azure"]

AT_REST: dict[VisemeSet, str | int] = {"oculus": "sil", "azure": 0}
SHORT_GAP = 0.12  # seconds: the mouth does not come to rest between two words of one breath

_PUNCTUATION = ' ;:,.!?—…"()“”'
_STRESS = frozenset("ˈˌ")  # before the sound that it belongs to


@dataclass(frozen=True, slots=True)
class PhonemeTiming:
    """A sound in the model's symbols, with the marks of stress, length and tone on it, and when it is spoken."""

    symbol: str
    start: float  # seconds
    end: float
    word: int  # index of the word that it belongs to, of those that come with it


@dataclass(frozen=True, slots=True)
class Viseme:
    """A shape of the mouth, which holds until the next one."""

    viseme: str | int
    start: float  # seconds


def symbol(phonemes: str) -> str:
    """One of the ranges of `sounds`, without the spaces and marks of punctuation around it."""
    return phonemes.strip(_PUNCTUATION)


def sounds(phonemes: str, start: int, end: int) -> list[tuple[int, int]]:
    """The ranges of the single sounds in `phonemes[start:end]`. They leave no gap.

    A mark of stress goes with the sound after it. All else without a sound goes with the sound before it.
    """
    begins = list[int]()
    for place in range(start, end):
        if phonemes[place] not in _sound_symbols():
            continue
        stressed = place > start and phonemes[place - 1] in _STRESS
        begins.append(place - 1 if stressed else place)
    return list(pairwise([start, *begins[1:], end])) if begins else []


def next_sound(phonemes: str, place: int) -> int:
    """Where the first sound at `place` or after it begins; their end if there is none."""
    return next((i for i in range(place, len(phonemes)) if phonemes[i] not in _PUNCTUATION), len(phonemes))


def visemes(phonemes: Iterable[PhonemeTiming], kind: VisemeSet) -> list[Viseme]:
    """The shapes of the mouth for these phonemes. The last one is the mouth at rest."""
    found = list[Viseme]()
    for each in _shapes(phonemes, kind):
        if not found or found[-1].viseme != each.viseme:
            found.append(each)
    return found


def _shapes(phonemes: Iterable[PhonemeTiming], kind: VisemeSet) -> Iterator[Viseme]:
    table, end = _shape_table(kind), None
    for phoneme in phonemes:
        if end is not None and phoneme.start - end >= SHORT_GAP:
            yield Viseme(AT_REST[kind], end)
        shapes = next((table[symbol] for symbol in phoneme.symbol if symbol in table), ())
        share = (phoneme.end - phoneme.start) / max(len(shapes), 1)
        for number, shape in enumerate(shapes):
            yield Viseme(shape, round(phoneme.start + number * share, 4))
        end = phoneme.end
    if end is not None:
        yield Viseme(AT_REST[kind], end)


@cache
def _tables() -> JsonObject:
    path = Path(__file__).with_name("data") / "visemes.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def _sound_symbols() -> frozenset[str]:
    """The symbols of the model that are sounds, not marks."""
    return frozenset(_shape_table("azure"))


@cache
def _shape_table(kind: VisemeSet) -> dict[str, tuple[str | int, ...]]:
    shapes: dict[str, tuple[str | int, ...]] = {
        symbol: (int(shape) if kind == "azure" else shape,)
        for shape, symbols in _tables()[kind].items()
        for symbol in symbols
    }
    glides: dict[str, str] = _tables()["glides"]
    for glide, parts in glides.items():
        shapes.setdefault(glide, tuple(shape for part in parts for shape in shapes[part]))
    return shapes
