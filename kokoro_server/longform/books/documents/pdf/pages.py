"""Finds page numbers and running heads, which are no part of the text."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kokoro_server.longform.books.documents.flow import PAGE_NUMBER

RUNNING_HEAD = "running head"
_EDGE = 2  # lines at the top and at the bottom of a page that may be one
_NUMBER = re.compile(
    r"(?:(?:page|seite|p\.)\s*)?[-–—|\[(\s]{0,4}(\d{1,4}|[ivxlc]{1,8})[-–—|\])\s.]{0,4}(?:(?:of|/|von)\s*\d{1,4})?",
    re.I,
)
_DIGITS = re.compile(r"\d+")
_LONGEST = 150  # characters of a running head
_TIMES = 3  # that it appears, at least
_NEAR = 4  # pages within which it appears again: often on every other page


@dataclass(slots=True)
class Page:
    lines: list[str]  # may be empty
    left: list[tuple[str, str]] = field(default_factory=list)  # kind and text of omissions


def without_furniture(pages: Sequence[Page]) -> list[Page]:
    edges = [_edges(page.lines) for page in pages]
    offsets = _offsets(pages, edges)
    heads = _heads(pages, edges)
    return [_cleared(page, number, edges[number], offsets, heads) for number, page in enumerate(pages)]


def _edges(lines: Sequence[str]) -> list[int]:
    """The places of the first and last non-empty lines."""
    written = [place for place, line in enumerate(lines) if line]
    return sorted({*written[:_EDGE], *written[-_EDGE:]})


def _offset(line: str, number: int) -> int | None:
    """How far a page number is from the index of its page. Roman ones are counted apart. None for other lines."""
    match = _NUMBER.fullmatch(line) if len(line) <= _LONGEST else None
    if match is None:
        return None
    return int(match[1]) - number if match[1].isdigit() else 100_000 + len(match[1])


def _offsets(pages: Sequence[Page], edges: Sequence[list[int]]) -> Counter[int]:
    """How often each difference occurs."""
    found: Counter[int] = Counter()
    for number, (page, places) in enumerate(zip(pages, edges, strict=True)):
        found.update({offset for place in places if (offset := _offset(page.lines[place], number)) is not None})
    return found


def _heads(pages: Sequence[Page], edges: Sequence[list[int]]) -> set[tuple[int, str]]:
    """Lines, with their page, that are repeated on near pages. Numbers in them may differ."""
    places: dict[str, list[int]] = defaultdict(list)
    for number, (page, lines) in enumerate(zip(pages, edges, strict=True)):
        for shape in {_shape(page.lines[place]) for place in lines if len(page.lines[place]) <= _LONGEST}:
            places[shape].append(number)
    found: set[tuple[int, str]] = set()
    for shape, numbers in places.items():
        run = numbers[:1]
        for before, number in [*pairwise(numbers), (0, 10**9)]:
            if number - before > _NEAR:
                if len(run) >= _TIMES:
                    found.update((one, shape) for one in run)
                run = []
            run.append(number)
    return found


def _shape(line: str) -> str:
    return _DIGITS.sub("#", line)


def _cleared(page: Page, number: int, edges: list[int], offsets: Counter[int], heads: set[tuple[int, str]]) -> Page:
    left: dict[int, str] = {}
    for place in edges:
        offset = _offset(page.lines[place], number)
        if offset is not None and (offsets[offset] > 1 or offset in (0, 1)):
            left[place] = PAGE_NUMBER
        elif (number, _shape(page.lines[place])) in heads:
            left[place] = RUNNING_HEAD
    return Page(
        [line for place, line in enumerate(page.lines) if place not in left],
        [*page.left, *((kind, page.lines[place]) for place, kind in left.items())],
    )
