"""A text, passage by passage, with the claims on each: the first can be read before the last is looked at."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kokoro_server.text.spoken.apply import apply
from kokoro_server.text.spoken.matching import Claim
from kokoro_server.text.traced import Traced

_SHORTEST = 2_000  # characters, but for the last
_LONG = 4_000  # from then on, the end of a line will do, or a full stop that may be an abbreviation's
_LONGEST = 8_000  # a run-on that is longer is cut between words
_LONGEST_FENCED = 64_000  # and so is a block of code, in which much may have to be skipped
# Where no rule looks across: a blank line that is not in a fenced block, and a full stop that is no abbreviation's.
_BREAK = re.compile(
    r"(?P<fence>^[ ]{0,3}(?:`{3,}|~{3,}))|\n[ \t]*\n|(?<=[a-z]{7}[.!?])[\"”’)]?\s(?=[\"“‘(]?[A-Z])|"
    r"(?P<weak>\n|(?<=[.!?।])[\"”’)]?\s(?=[\"“‘(¿¡]?[^\W\d_a-z]))|(?P<space>\s)|"
    r"(?<=[。！？])(?![。！？」』”’）])",
    re.MULTILINE,
)


def passages(text: str) -> Iterator[tuple[int, int]]:
    """The ranges of the passages of `text`, in order. Together they cover the text."""
    start, fenced = 0, False
    for match in _BREAK.finditer(text) if len(text) >= _SHORTEST else ():
        if match["fence"]:
            fenced = not fenced
            continue
        enough = _LONGEST if match["space"] else _LONG if match["weak"] else _SHORTEST
        if match.end() - start >= (_LONGEST_FENCED if fenced else enough):
            yield start, match.end()
            start = match.end()
    yield start, len(text)


@dataclass(frozen=True, slots=True)
class Readings:
    """The claims on a passage, which begins at `start` in the original."""

    claims: Sequence[Claim]
    start: int

    def unbroken(self, passage: str) -> list[tuple[int, int]]:
        """Ranges of the passage within which no sentence ends. A dot that is not said ends none either."""
        return [
            (claim.start, claim.end + 1 if _swallows_stop(claim, passage) else claim.end)
            for claim in self.claims
            if claim.end - claim.start > 1
        ]

    def read(self, text: Traced) -> Traced:
        """`text`, which is as it stands in the original, with the words of the claims on it."""
        low = text.starts[0] - self.start
        return apply(self._between(low, low + len(text.text)), text)

    def _between(self, low: int, high: int) -> Iterable[Claim]:
        """The claims from `low` to `high`. The words of one that reaches beyond go with its beginning."""
        first = bisect_left(self.claims, low, key=lambda claim: claim.end - 1)
        for claim in self.claims[first:]:
            if claim.start >= high:
                break
            words = claim.words if claim.start >= low else ""
            yield Claim(max(claim.start, low) - low, min(claim.end, high) - low, words, claim.rule)


def _swallows_stop(claim: Claim, passage: str) -> bool:
    return passage[claim.end - 1] == "." and not claim.words.endswith(".")
