"""Ordinals, percentages, magnitudes and versions."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken.english.patterns import INTEGER, LEFT, MAGNITUDES, NUMBER, number_rule
from kokoro_server.text.spoken.english.words import cardinal, decimal, digits, ordinal, plural, value
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import DIGITS, INNER_DOT, SPACE

_ROUND = [
    "",
    "tens",
    "hundreds",
    "thousands",
    "tens of thousands",
    "hundreds of thousands",
    "millions",
]
_ISH = regex.compile(r"[0-9m]-?ish")
_RACE = regex.compile(r"\s(?:runs?|races?|marathon)\b")


def _ordinal(match: Any, dialect: Dialect) -> SpokenWords:
    number = value(match["number"])
    if len(number) > 15 or not _is_ordinal(number, match["ending"].lower()):
        return None
    words = ordinal(int(number), dialect)
    return plural(words) if match["many"] else words


def _is_ordinal(number: str, ending: str) -> bool:
    """10st is ten stone."""
    return ending != "st" or (number[-1] == "1" and number[-2:] != "11")


def _percent(match: Any, dialect: Dialect) -> SpokenWords:
    return f"{decimal(match['number'], dialect)} {'percent' if match['sign'] in '%％' else 'per mille'}"


def _magnitude(match: Any, dialect: Dialect) -> SpokenWords:
    letter = match["big"]
    if letter == "k" and _RACE.match(match.string, match.end()):
        letter = "K"
    words = MAGNITUDES[letter.lower()] if letter not in ("K", "B", "T", "b", "t") else letter
    return f"{decimal(match['number'], dialect)} {words}"


def _dotted(match: Any, dialect: Dialect) -> SpokenWords:
    """A version or a section: 3.2.1."""
    said = " point ".join(
        decimal(part, dialect) if part[0] != "0" else digits(part) for part in match["number"].split(".")
    )
    return [("v", "version"), ("number", said)] if match["v"] else [("number", said)]


def _basis_points(match: Any, dialect: Dialect) -> SpokenWords:
    return f"{decimal(match['number'], dialect)} basis {'point' if match['number'] == '1' else 'points'}"


def _about(match: Any, dialect: Dialect) -> SpokenWords:
    """30ish, 7:30-ish: another rule may read the number."""
    number = match["number"]
    return [("all", f"{decimal(number, dialect)}-ish")] if number else [("all", "ish")]


def _round(match: Any, _dialect: Dialect) -> SpokenWords:
    """100s of, 10,000s of: hundreds, tens of thousands."""
    return _ROUND[len(value(match["number"])) - 1]


def _members(match: Any, dialect: Dialect) -> SpokenWords:
    """49ers, a 20-something: niners, as the word is said with its ending."""
    words = decimal(match["number"], dialect)
    ending = match["ending"]
    if ending[0] == "e" and words.endswith("e"):
        words = words[:-1]
    elif ending[0] == "e" and words.endswith("y"):
        words = f"{words[:-1]}i"
    return f"{words}{ending}"


RULES = [
    number_rule("number", rf"{LEFT}(?P<number>[0-9]{{2,3}})(?P<ending>ers?)(?![\p{{L}}\p{{N}}])", _members),
    number_rule("percent", rf"{LEFT}(?P<number>{NUMBER}){SPACE}?(?P<sign>[%％‰])", _percent, "%％‰"),
    number_rule(
        "ordinal",
        rf"{LEFT}(?P<number>{INTEGER})(?P<ending>st|nd|rd|th|ST|ND|RD|TH)(?P<many>s)?(?![\p{{L}}\p{{N}}])",
        _ordinal,
    ),
    rule(
        "version",
        r"(?<![\p{L}\p{N}])(?P<v>[vV]\.?[ ]?)(?P<number>[0-9]+(?:\.[0-9]+){1,6})(?![0-9])",
        _dotted,
        "vV",
        DIGITS,
    ),
    number_rule(
        "version",
        r"(?<![\p{L}\p{N}])(?<![0-9]\.)(?P<v>(?!))?(?P<number>[0-9]+(?:\.[0-9]+){2,6})(?![0-9])",
        _dotted,
        INNER_DOT,
    ),
    number_rule(
        "version",
        r"(?<![\p{L}\p{N}])(?<![0-9]\.)(?P<v>(?!))?(?P<number>[0-9]+\.[0-9]+)(?=\.x\b)",
        _dotted,
        "x",
    ),
    rule(
        "version",
        r"(?<![\p{L}\p{N}])(?P<v>v\.?|V\.)(?P<number>[0-9]+(?:\.[0-9]+)?)(?![\p{L}\p{N}])",
        _dotted,
        "vV",
        DIGITS,
    ),
    number_rule(
        "number",
        r"(?<=[A-Z][\p{L}]*\s[><=≥~]{0,2}\s?)(?P<number>[0-9]\.[1-9][0-9])(?P<suffix>(?!))?(?![\p{L}\p{N}%]|\.[0-9])(?<=\b"
        r"(?:Python|Java|Ruby|PHP|Go|Node|Rust|Ubuntu|Django|Kubernetes)\s(?:[><=≥~]{1,2}\s)?\S+)",
        lambda match, dialect: " point ".join(cardinal(int(part), dialect) for part in match["number"].split(".")),
        ".",
    ),
    number_rule(
        "version",
        r"(?<=\b[Vv]ersions?\s)(?P<v>(?!))?(?P<number>[0-9]{1,3}\.[0-9]{1,3})(?![\p{L}\p{N}%]|\.[0-9])",
        _dotted,
        ".",
    ),
    number_rule(
        "times",
        rf"{LEFT}(?P<number>{NUMBER})(?:[x×]|X(?=\s(?:\p{{Ll}}+er|more|less|as)\b))(?![\p{{L}}\p{{N}}])(?!{SPACE}?[-−+=*/^×])",
        lambda match, dialect: f"{decimal(match['number'], dialect)} times",
        "x×X",
    ),
    number_rule("basis points", rf"{LEFT}(?P<number>{NUMBER})[ -]?bps(?![\p{{L}}\p{{N}}])", _basis_points, "b"),
    number_rule("about", rf"{LEFT}(?P<all>(?P<number>{NUMBER})-?ish)(?!\p{{L}})", _about, "i"),
    rule("about", r"(?<=[0-9]\s?(?:[ap]\.?m)?)(?P<all>(?P<number>(?!))?-?ish)(?!\p{L})", _about, DIGITS, _ISH),
    number_rule("round number", rf"{LEFT}(?P<number>10{{1,6}}|10{{0,2}}(?:,000){{1,2}})['’]?s(?=\sof\b)", _round, "s"),
    number_rule(
        "magnitude",
        rf"{LEFT}(?<!\p{{L}}[\p{{L}}\p{{N}}]{{0,9}}-(?:[0-9]{{1,4}}-)?)(?P<number>{NUMBER})(?P<big>k|K|M|B|T|bn|"
        rf"mn|mln|tn|m)(?![\p{{L}}\p{{N}}])",
        _magnitude,
        "kKMBTbmt",
    ),
]
