"""Joins lines to paragraphs: separates the author's line breaks from those where a line was full."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kokoro_server.longform.books.documents.flow import BREAK_MARK

_LONG = 160  # characters: a longer line is not wrapped
_SPARE = 10  # characters that a full line may leave free besides the word that did not fit
_INDENT = re.compile(r" {2}|\u3000")
_SENTENCE_END = re.compile(r"[.!?:…。！？—-][\"'”’»)\]_」』]*$")
_HYPHENATED = re.compile(r"([^\W\d_]+)-$")
_WORD_START = re.compile(r"[^\W\d_]+")
_WORDS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class LineGroup:
    """The stripped lines between two empty ones."""

    lines: tuple[str, ...]
    indented: bool
    space_before: int  # empty lines

    @property
    def is_break(self) -> bool:
        return len(self.lines) == 1 and BREAK_MARK.fullmatch(self.lines[0]) is not None


def line_groups(text: str) -> list[LineGroup]:
    found: list[LineGroup] = []
    lines: list[str] = []
    empty = space = 0
    for line in [*text.replace("\f", "\n\n\n").expandtabs(4).splitlines(), ""]:
        if line.strip() and not (lines and BREAK_MARK.fullmatch(line.strip())):
            if not lines:
                space = empty
            lines.append(line.rstrip())
            empty = 0
            continue
        if lines:
            for paragraph in _paragraphs(lines):
                found.append(_group(paragraph, space))
                space = 0
            lines = []
        if line.strip():
            found.append(_group([line], empty))
            empty = 0
        else:
            empty += 1
    return found


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Cut at indented lines, if only first lines of paragraphs are indented, unlike in verse."""
    starts = [number for number, line in enumerate(lines) if _INDENT.match(line)]
    inner = [number for number in starts if number]
    if inner and len(starts) < len(lines) and all(_SENTENCE_END.search(lines[number - 1]) for number in inner):
        for start, end in pairwise((0, *inner, len(lines))):
            yield lines[start:end]
    else:
        yield lines


def _group(lines: list[str], space: int) -> LineGroup:
    indented = all(line.startswith(" " * 3) for line in lines)
    return LineGroup(tuple(line.strip() for line in lines), indented, space)


def width(found: Iterable[LineGroup]) -> int:
    """The length of a full line."""
    lengths = sorted(len(line) for group in found for line in group.lines[:-1])
    return lengths[int(len(lengths) * 0.9)] if lengths else _LONG


class LineJoiner:
    """Joins lines. A hyphen at the end of a line is kept, unless the document has that word without it."""

    def __init__(self, text: str, *, hyphenates: bool) -> None:
        self._words = {word.lower() for word in _WORDS.findall(text)}
        self._hyphenates = hyphenates  # whether words that occur nowhere else are taken as divided

    def join(self, lines: Sequence[str]) -> str:
        pieces: list[str] = []
        for index, line in enumerate(lines):
            following = lines[index + 1] if index + 1 < len(lines) else None
            if following is None:
                pieces.append(line)
            elif (match := _HYPHENATED.search(line)) and (start := _WORD_START.match(following)):
                pieces.append(line[:-1] if self._divided(match[1], start[0]) else line)
            elif line.endswith(("--", "—")) or (_is_cjk(line[-1:]) and _is_cjk(following[:1])):
                pieces.append(line)
            else:
                pieces.append(line + " ")
        return "".join(pieces)

    def _divided(self, first: str, second: str) -> bool:
        if f"{first}-{second}".lower() in self._words:
            return False
        if f"{first}{second}".lower() in self._words:
            return True
        return self._hyphenates and second.islower()


def is_verse(group: LineGroup, full: int) -> bool:
    """Whether most of its lines end early: the first word of the next line would have fitted."""
    if len(group.lines) < 2:
        return False
    early = sum(
        len(line) + 1 + len(following.split(maxsplit=1)[0]) <= full - _SPARE
        for line, following in zip(group.lines, group.lines[1:], strict=False)
    )
    return 2 * early > len(group.lines) - 1


def is_unwrapped(group: LineGroup) -> bool:
    return any(len(line) > _LONG for line in group.lines)


def _is_cjk(character: str) -> bool:
    return "\u2e80" <= character <= "\u9fff" or "\uff00" <= character <= "\uffef"
