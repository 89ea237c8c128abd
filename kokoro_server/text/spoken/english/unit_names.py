"""The units that are read after a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.words import plural
from kokoro_server.text.spoken.matching import Dialect
from kokoro_server.text.spoken.vocabulary import Noun

_FILE = vocabulary.load("english_units")
UNITS = _FILE.nouns("units", plural)
TIMES = frozenset(_FILE.having("units", "time"))
# Units that are written with a dot. Symbols of the SI are not: a dot after them ends the sentence.
DOTTED = frozenset(_FILE.having("units", "dotted")) | {unit for unit in UNITS if " " in unit}
# Units that are said after a fraction: ½ cup needs no rule.
_WHOLE = frozenset(_FILE.having("units", "whole"))
FOLLOWED = [unit for unit in UNITS if unit not in _WHOLE]


def unit_words(symbol: str, dialect: Dialect) -> Noun:
    noun = UNITS[symbol]
    return Noun(_british(noun.one), _british(noun.many)) if dialect.british else noun


def _british(name: str) -> str:
    return name.replace("meter", "metre").replace("liter", "litre")


def _glued(match: Any) -> bool:
    return bool(match["hyphen"]) or match.start("unit") == match.end("amount")


def _after_space(match: Any) -> bool:
    return bool(match.start("unit") > match.end("amount")) and not match["hyphen"]


def _following(match: Any) -> str:
    return str(match.string[match.end("unit") : match.end("unit") + 24])


_SOLUTION = regex.compile(r" (?:[A-Z][A-Za-z0-9]+|solutions?|aqueous|concentration)\b")  # 2 M NaOH
_KITCHEN = regex.compile(r" (?!field|magnet|scanner|and|at|in|of|or)\p{Ll}")  # 2 T butter, T cells
# 1.3m people are millions of them; 100m hurdles are not.
_COUNTED = regex.compile(
    r" (?!(?:hurdles|runners|races|sprints|heats|finals|walls|waves|swims|events|titles|records|times|across|"
    r"towers|ships)\b)(?:\p{Ll}{3,}(?<!s)s|people|children|men|women|staff|more)\b"
)


def _inch(match: Any) -> bool:
    """5 in. of rain, 5in, 5-in; not 5 in the box."""
    after = _following(match)
    return _glued(match) or bool(match["dot"]) or after[:1] in (")", ",", ";") or after.strip() == "."


# Symbols that are also something else, and when they are units.
ALONE: dict[str, Callable[[Any], bool]] = {
    "in": _inch,
    "K": _after_space,
    "T": lambda match: _after_space(match) and not _KITCHEN.match(_following(match)),
    "st": lambda match: not (_glued(match) and match["amount"][-1] == "1") and not _following(match).startswith("."),
    "A": lambda match: _after_space(match) and not _following(match)[:2].strip().isupper(),
    "N": _after_space,
    "t": lambda match: _after_space(match) or len(match["amount"]) > 1,
    "d": lambda match: _glued(match) or "." in match["amount"],
    "y": _glued,
    "MP": _glued,
    "b": lambda _match: False,
    "s": lambda match: (
        match.string[match.start() - 1 : match.start()] != "-"
        and not _following(match).startswith(" of ")
        and match["amount"] not in ("707", "717", "727", "737", "747", "757", "767", "777", "787")
    ),
    "m": lambda match: not (_glued(match) and _COUNTED.match(_following(match))),
    "pt": _after_space,
    "cc": lambda match: match["amount"][-1:] == "0" or _after_space(match),
    "pp": lambda match: not _following(match).startswith("."),
    "ac": _after_space,
    "ct": _after_space,
    "cd": _after_space,
    "kn": _after_space,
    "HP": lambda _match: True,
    "bps": lambda match: len(match["amount"]) > 3,  # below a thousand they are basis points
    "AU": _after_space,
    "M": lambda match: (
        _after_space(match) and ("." in match["amount"] or _SOLUTION.match(_following(match)) is not None)
    ),
}
