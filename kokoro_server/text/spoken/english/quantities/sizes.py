"""Angles, temperatures, feet and inches, and what is written with x: sizes and resolutions."""

from __future__ import annotations

import re
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import (
    DETERMINER,
    LEFT,
    LEFT_OR_TIMES,
    NUMBER,
    number_rule,
)
from kokoro_server.text.spoken.english.quantities.unit_names import (
    VERBS,
)
from kokoro_server.text.spoken.english.words import cardinal, decimal, in_pairs, value
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import DIGITS, SPACE, follows

_FILE = vocabulary.load("english_units")
_COMPASS = _FILE.words("compass")
_OPEN_QUOTE = regex.compile(r"(?<![0-9])[\"“](?:[^\"\n]|(?<=[0-9])\")*\Z")
_OPEN_SINGLE_QUOTE = regex.compile(r"(?<![\p{L}\p{N}])['‘][^'’\n]*\Z")
# What stands after the number of a carbon atom, and words of such texts.
_STRAND_PARTS = (
    r"(?:UTRs?|untranslated|splice|termin(?:us|i|al)|\p{Ll}*phosphates?|hydroxyl|OH|exonucleases?|poly\(|LTRs?|"
    r"flanking|deoxy\p{Ll}*|ends?\b(?!\s(?:tables?|caps?|zones?|mills?|panels?|posts?|walls?|pieces?|units?)\b))"
)
_STRAND = (
    rf"(?=[-–\s]{_STRAND_PARTS}|\s?(?:→|->)\s?[1-5]['’′]|[-–][ACGTUN]{{3,}}\b|"
    rf"[-–\s](?:and|or|to)[-–\s][1-5]['’′][-–\s](?:{_STRAND_PARTS}|direction|orientation|strand))"
    rf"|(?<=(?:→|->)\s?[1-5]['’′])|(?<=[1-5]['’′][-–\s](?:and|or|to)[-–\s][1-5]['’′])(?=\s(?:direction|orientation|strand))"
)
_STRANDS = re.compile(
    r"[DR]NA\b|poly\(A|\b(?:nucleotides?|nucleases?|polymerases?|primers?|exons?|introns?|genes?|genomic|transcripts?|codons?|"
    r"ribose|oligos?|plasmids?|ligases?|helicases?|exonucleases?|UTRs?|RACE)\b"
)
_TURNED = regex.compile(r" (?:angles?|turns?|bends?|corners?|rotations?|views?|arcs?|cuts?|slopes?|inclines?)\b")


def _temperature(match: Any, dialect: Dialect) -> SpokenWords:
    amount, scale = match["amount"], match["scale"]
    name = {"C": " Celsius", "F": " Fahrenheit", "K": " Kelvin", None: ""}[scale]
    compass = _COMPASS.get(match["compass"] or "", "")
    one = value(amount) == "1" or match["hyphen"] or _TURNED.match(match.string, match.end())
    degrees = "degree" if one else "degrees"
    words = f"{decimal(amount, dialect)} {degrees}{name}"
    return f"{words} {compass}" if compass else words


def _angle(match: Any, dialect: Dialect) -> SpokenWords:
    words = f"{decimal(match['deg'], dialect)} degrees {decimal(match['min'], dialect)} minutes"
    if match["sec"]:
        words += f" {decimal(match['sec'], dialect)} seconds"
    return f"{words} {_COMPASS[match['compass']]}" if match["compass"] else words


def _feet(match: Any, dialect: Dialect) -> SpokenWords:
    feet, inches = match["feet"], match["inches"]
    first = f"{decimal(feet, dialect)} {'foot' if feet == '1' else 'feet'}"
    return first if not inches else f"{first} {decimal(inches, dialect)} {'inch' if inches == '1' else 'inches'}"


def _prime(match: Any, dialect: Dialect) -> SpokenWords:
    """The 5' end of a strand, 5'→3'."""
    start, end = match.span()
    if match["sure"] is None and not _STRANDS.search(match.string, max(0, start - 200), end + 200):
        return None
    return [((start, match.end("number") + 1), f"{cardinal(int(match['number']), dialect)} prime")]


def _only_feet(match: Any, dialect: Dialect) -> SpokenWords:
    """A 3' pole, 6' tall; not the end of a quotation."""
    if follows(match, _OPEN_SINGLE_QUOTE, 80):
        return None
    adjective = match["noun"] is not None and follows(match, DETERMINER)
    feet = match["feet"]
    return f"{decimal(feet, dialect)} {'foot' if feet == '1' or adjective else 'feet'}"


def _coordinates(match: Any, dialect: Dialect) -> SpokenWords:
    """40 N, 74 W."""
    return [
        (("north", "east")[index], f"{decimal(match[amount], dialect)} {_COMPASS[match[way]]}")
        for index, (amount, way) in enumerate((("first", "ns"), ("second", "ew")))
    ]


def _calibre(match: Any, dialect: Dialect) -> SpokenWords:
    return in_pairs(match["number"], dialect)


def _screen(match: Any, dialect: Dialect) -> SpokenWords:
    """1920x1080."""
    return f"{in_pairs(match['width'], dialect)} by {in_pairs(match['height'], dialect)}"


def _inches(match: Any, dialect: Dialect) -> SpokenWords:
    amount = match["amount"]
    if follows(match, _OPEN_QUOTE, 80):
        return None
    return f"{decimal(amount, dialect)} {'inch' if amount == '1' or match['noun'] is not None else 'inches'}"


def _dimensions(_match: Any, _dialect: Dialect) -> SpokenWords:
    return [("by", "by")]


def _resolution(match: Any, dialect: Dialect) -> SpokenWords:
    number = int(match["lines"])
    said = (
        f"{cardinal(number // 100, dialect)} {cardinal(number % 100, dialect)}"
        if number % 100
        else decimal(match["lines"], dialect)
    )
    return f"{said} {match['letter'].upper()}"


RULES = [
    number_rule(
        "angle",
        rf"{LEFT}(?P<deg>[0-9]{{1,3}})°\s?(?P<min>[0-9]{{1,2}}(?:\.[0-9]+)?)[′'’]\s?(?:(?P<sec>[0-9]{{1,2}}"
        rf"(?:\.[0-9]+)?)(?:[″\"”]|'')\s?)?(?P<compass>[NSEW]\b)?",
        _angle,
        "°",
    ),
    number_rule(
        "temperature",
        rf"{LEFT}(?P<amount>{NUMBER})(?P<hyphen>-)?{SPACE}?(?:(?:[°º˚]|degrees|deg\.?){SPACE}?(?P<scale>[CFK])"
        rf"(?![\p{{L}}\p{{N}}])|(?P<scale>(?!))?[°º˚](?:{SPACE}?(?P<compass>[NSEW])(?![\p{{L}}\p{{N}}]))?)",
        _temperature,
        "°º˚d",
    ),
    # Bake at 180C, 180C/350F.
    number_rule(
        "temperature",
        rf"{LEFT}(?P<amount>[0-9]{{2,3}}(?:\.[0-9])?)(?P<hyphen>(?!))?(?P<scale>[CF])(?P<compass>(?!))?(?![\p{{L}}\p{{N}}])"
        rf"(?:(?<=\b(?i:oven|fan|baked?|pre-?heat(?:ed)?|heat(?:ed)?|roast(?:ed)?|temp|temps|temperature|fever|grill)\b"
        rf"[^.\n0-9]{{0,20}}(?:[0-9]{{2,3}}[CF]\s?/\s?)?[0-9.]+[CF])|(?=\s?/\s?[0-9]{{2,3}}F\b)|(?<=[0-9]C\s?/\s?[0-9.]+F))",
        _temperature,
        "CF",
    ),
    number_rule(
        "temperature",
        rf"{LEFT}(?P<amount>{NUMBER})(?P<hyphen>-)?{SPACE}?(?P<degree>[℃℉])(?P<compass>(?!))?",
        lambda match, dialect: (
            f"{decimal(match['amount'], dialect)} degrees {'Celsius' if match['degree'] == '℃' else 'Fahrenheit'}"
        ),
        "℃℉",
    ),
    number_rule(
        "prime",
        rf"(?<![\p{{L}}\p{{N}}'\"“‘.])(?P<number>[1-5])['’′](?![0-9'’′])(?:(?P<sure>(?<=\b[ACGTUN]{{3,}}[-–].['’′])|{_STRAND})|"
        rf"(?=[-–\s]\p{{L}}|[.,;)]|\s*\Z)(?!\s(?:x|by|from|off|{VERBS}|tall|wide)\b))",
        _prime,
        "'’′",
    ),
    number_rule(
        "feet and inches",
        r"(?<![\p{L}\p{N}'\"“‘])(?P<feet>[0-9]{1,3})(?:['′]|[ -]?(?:ft|feet|foot)\.?)[ -]?(?P<inches>[0-9]{1,2}"
        r"(?:\.[0-9]+)?)(?:\"|″|''|[ -]?(?:in|inches)\b)",
        _feet,
        "'′f",
    ),
    number_rule(
        "feet and inches",
        r"(?<![\p{L}\p{N}'\"“‘.])(?P<feet>[3-8])['’](?P<inches>1[01]|[0-9])(?![\p{L}\p{N}'’])",
        _feet,
        "'’",
    ),
    number_rule("feet and inches", r"(?<![\p{L}\p{N}'\"“‘])(?P<feet>[0-9]{1,3})′(?P<inches>(?!))?", _feet, "′"),
    number_rule(
        "feet",
        r"(?:(?<!\p{L})|(?<=['’\"″]\s?[x×]))(?<![\p{N}'\"“‘.,:(+])(?P<feet>[0-9]{1,4}(?:\.[0-9]+)?)['’](?=\s?[x×]\s?[0-9]|[.,;:)](?![0-9])|\s*\Z|"
        rf"\s(?:{VERBS}|tall|wide)\b|(?P<noun>\s\p{{Ll}}))",
        _only_feet,
        "'’",
    ),
    number_rule(
        "coordinates",
        rf"{LEFT}(?P<north>(?P<first>{NUMBER})\s(?P<ns>[NS])),?\s(?P<east>(?P<second>{NUMBER})\s(?P<ew>[EW]))(?![\p{{L}}\p{{N}}'’])",
        _coordinates,
        "EW",
    ),
    number_rule(
        "caliber",
        r"(?<![\p{L}\p{N}.,])\.(?P<number>[0-9]{2,3})(?=[ -](?:rifles?|pistols?|revolvers?|handguns?|cal|caliber|"
        r"calibre|bullets?|rounds?|ammo|ammunition|guns?|Magnum|magnum|ACP|Remington|Winchester|Colt)\b)",
        _calibre,
        ".",
    ),
    number_rule(
        "resolution",
        r"(?<![\p{L}\p{N}.,])(?P<width>640|800|1024|1280|1366|1440|1600|1920|2048|2560|3440|3840|4096|5120|7680)[x×](?P<height>"
        r"[1-9][0-9]{2,3})(?![\p{L}\p{N}])(?!\s?[x×])",
        _screen,
        "x×",
    ),
    number_rule(
        "inches",
        rf"{LEFT_OR_TIMES}(?P<amount>{NUMBER})(?:\"|″)(?P<noun>(?=\s(?!x\s)(?:\p{{Ll}}+|\p{{Lu}}{{2,}}s?)\b)(?!\s(?:{VERBS})\b))?",
        _inches,
        '"″',
    ),
    rule(
        "dimensions",
        rf"(?<=[0-9](?:(?:{SPACE}|-)?(?:mm|cm|m|km|in|ft|px|\"|')\.?)?){SPACE}?(?P<by>[x×X]){SPACE}?(?=[0-9])"
        rf"(?<![0-9]\s[x×]\s)(?!{SPACE}?10[\^⁰¹²³⁴-⁹⁻]|{SPACE}?[0-9.]+{SPACE}?=)(?<!=[^=\n]{{0,20}})(?<!\b0[x])",
        _dimensions,
        "x×X",
    ),
    # 10 x 20 x 5 cm: with a unit after it even a spaced sign is no product.
    rule(
        "dimensions",
        rf"(?<=[0-9]{SPACE})(?P<by>[x×])(?={SPACE}(?:{NUMBER}{SPACE}[x×]{SPACE})?{NUMBER}{SPACE}?(?:[cm]?m|in|ft|px|"
        r"inch|inches|feet|pixels)\b|(?<=\#[0-9]{1,2}\s[x×])\s[0-9])",
        _dimensions,
        "x×",
    ),
    rule(
        "dimensions",
        rf"(?<=[0-9]['’\"″]?{SPACE}?)(?P<by>[x×])(?={SPACE}?[0-9]{{1,4}}(?:[-. ][0-9]+)?(?:/[0-9]+)?(?:{SPACE}?[x×]"
        rf"{SPACE}?[0-9]{{1,4}})?['’\"″])|"
        rf"(?<=[0-9]['’\"″]{SPACE}?)(?P<by>[x×])(?={SPACE}?[0-9])",
        _dimensions,
        "x×",
    ),
    rule(
        "for",
        r"(?<=\p{L}\.?\s)x\s?(?P<days>[0-9]{1,3})d(?![\p{L}\p{N}])",
        lambda match, dialect: f"for {cardinal(int(match['days']), dialect)} days",
        "x",
        DIGITS,
    ),
    # 1 tablet x 10 days.
    rule(
        "for",
        r"(?<=\p{L}\.?\s)[x×](?=\s?[0-9]{1,3}\s?(?:days?|weeks?|wks?|months?|hours?|hrs?|doses?|yrs?|years?)\b)",
        "for",
        "x×",
        DIGITS,
    ),
    number_rule(
        "resolution",
        r"(?<![\p{L}\p{N}])(?P<lines>480|720|1080|1440|2160|4320)(?P<letter>[pi])(?![\p{L}\p{N}])",
        _resolution,
        "pi",
    ),
]
