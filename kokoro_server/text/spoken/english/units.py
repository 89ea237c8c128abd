"""Quantities: a number and its unit."""

from __future__ import annotations

import re
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import LEFT, NUMBER, OWN_DOT, AnyWord, number_rule, one_of_many
from kokoro_server.text.spoken.english.unit_names import (
    ALONE,
    DEVICES,
    DOTTED,
    FOLLOWED,
    TIMES,
    UNITS,
    VERBS,
    labelled,
    meant,
    unit_words,
)
from kokoro_server.text.spoken.english.words import ONES, TENS, cardinal, decimal, in_pairs, value
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import DIGITS, SPACE, any_of, follows, two_words
from kokoro_server.text.spoken.vocabulary import Noun

_FILE = vocabulary.load("english_units")
_POWERS = {"²": 2, "2": 2, "^2": 2, "³": 3, "3": 3, "^3": 3, "⁻¹": -1, "⁻²": -2}
_POWER_WORDS = {2: "square ", 3: "cubic "}
_EXPONENT = r"(?:\^?[23](?![0-9])|[²³]|⁻[¹²])?"
_UNIT = rf"(?!MP[34]\b)(?:{one_of_many(UNITS)})"
_WORDS = _FILE.list("after_slash")  # mg/kg/day
_COMPOUND = (
    rf"(?P<first>{_UNIT}){_EXPONENT}(?:[/·⋅∙](?&first){_EXPONENT}(?!\p{{L}}))*+(?P<last>/(?:{any_of(_WORDS)})\b)?"
)
_PART = regex.compile(rf"(?P<joint>[/·⋅∙])?(?P<unit>[^/·⋅∙]+?)(?P<power>{_EXPONENT})(?=[/·⋅∙]|\Z)")
# Amounts that other rules read: 1/2, ½, 4+, 120k, 10⁻³.
_FRACTION = (
    r"(?:(?:[0-9]+[ -])?[0-9]+/[0-9]+|[0-9]\+|[0-9][kKM](?=[ \xa0])|[0-9]*[½⅓⅔¼¾⅛⅜⅝⅞]|10\^[-−]?[0-9]{1,3}|"
    r"10[⁻⁰¹²³⁴-⁹]{1,4})"
)
_FRACTION_LIKE = re.compile(r"[0-9½⅓⅔¼¾⅛⅜⅝⅞⁰¹²³⁴-⁹](?:(?<![0-9])|[/+^]|[kKM][ \xa0])")
_DETERMINER = regex.compile(
    r"(?i)\b(?:an?|\p{L}+['’]s|another|the|this|that|each|every|one|his|her|its|our|my|your|their|new|single)\s"
    r"(?:\p{Ll}+\s)?[*_]*\Z"
)
_NOUN = rf"(?=[*_]*{SPACE}(?!(?:{VERBS})\b)(?:\p{{Ll}}|\p{{Lu}}{{2,5}}s?\b|V[0-9]))"
# As LEFT, and after the sign in 4x100m.
_LEFT = r"(?<![\p{N}^])(?:(?<!\p{L})|(?<=[0-9][x×X]))(?<![0-9][.,:/])"
_AFTER_PER = _FILE.list("after_per")
_PER_LIKE = re.compile(r"per [a-zA-Z]{2,3}\b")
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
_MILLIONS = r"(?:hundred|thousand|million|billion|trillion)"
_NOT_MILLIONS = ("in", "c", "bar", "min")
_NUMBER_WORDS = "|".join((*ONES[1:], *TENS[2:], "hundred", "few", "several"))
_AFTER_WORDS = "ft lb lbs oz yd yds mi hr hrs mins yr yrs qt qts gal tbsp tsp kg km cm mm mg mph".split()
_SIMPLE = re.compile("[0-9]+/[0-9]+")
_ELECTRIC = frozenset("W kW V A mA Ah mAh Wh kWh HP hp L".split())
_INITIAL = regex.compile(r"\. \p{Lu}")  # 12 W. Main St.


def _said(text: str, dialect: Dialect) -> Noun | None:
    """The words for a unit such as km, m², m/s², mg/day."""
    if text in UNITS:
        return unit_words(text, dialect)
    one = many = ""
    before, slash, last = text.rpartition("/")
    if slash and last in _WORDS:
        said = _said(before, dialect)
        return said and Noun(f"{said.one} per {last}", f"{said.many} per {last}")
    for part in _PART.finditer(text):
        power = _POWERS.get(part["power"], 1)
        single, several = unit_words(part["unit"], dialect)
        if part["joint"] == "/" or power < 0:
            word = (
                single
                if abs(power) < 2
                else f"{single} squared"
                if part["unit"] in TIMES
                else f"{_POWER_WORDS[abs(power)]}{single}"
            )
            one, many = f"{one} per {word}", f"{many} per {word}"
        else:
            before = _POWER_WORDS.get(power, "")
            if part["joint"]:
                one, many = f"{one} {before}{single}", f"{one} {before}{several}"
            else:
                one, many = before + single, before + several
    return Noun(one.strip(), many.strip()) if one else None


def _quantity(match: Any, dialect: Dialect) -> SpokenWords:
    symbol = meant(match)
    said = _said(symbol, dialect)
    if said is None or (symbol in ALONE and not ALONE[symbol](match)) or symbol.startswith(("c/", "C/", "U/")):
        return None
    if len(symbol) == 1 and symbol.isupper() and (labelled(match) or _INITIAL.match(match.string, match.end("unit"))):
        return None
    amount = match["amount"]
    adjective = bool(match["hyphen"]) or (
        follows(match, _DETERMINER) and match["noun"] is not None and "/" not in match["unit"]
    )
    adjective |= symbol in _ELECTRIC and DEVICES.match(match.string, match.end()) is not None
    words = said.one if adjective or value(amount) == "1" else said.many
    end = match.end("dot") if match["dot"] and symbol in DOTTED else match.end("unit")
    return two_words(match, "amount", decimal(amount, dialect), "unit", words, end)


def _fraction_of(match: Any, dialect: Dialect) -> SpokenWords:
    """The unit after a fraction, which a rule of its own reads."""
    unit = match["unit"]
    said = _said(unit, dialect)
    if (
        said is None
        or (unit == "in" and not (match["dot"] or match["hyphen"]))
        or (unit == "c" and not ALONE["c"](match))
    ):
        return None
    mixed = match["amount"][0].isdecimal() and ("/" not in match["amount"] or not _SIMPLE.fullmatch(match["amount"]))
    end = match.end("dot") if match["dot"] else match.end("unit")
    return [((match.start("unit"), end), said.many if mixed and not match["hyphen"] else said.one)]


def _fraction_inches(match: Any, _dialect: Dialect) -> SpokenWords:
    """A half inch, three and a half inches, a 1-1/2 inch pipe."""
    mixed = match["amount"][0].isdecimal() and not _SIMPLE.fullmatch(match["amount"])
    return [(0, "inches" if mixed and match["noun"] is None else "inch")]


def _per(match: Any, dialect: Dialect) -> SpokenWords:
    said = _said(match["unit"], dialect)
    return said and f"per {said.one}"


def _of_millions(match: Any, dialect: Dialect) -> SpokenWords:
    """100 million kg."""
    said = _said(match["unit"], dialect)
    return said and [("unit", said.many)]


def _of_words(match: Any, dialect: Dialect) -> SpokenWords:
    """A six-ft. fence, two lbs."""
    said = unit_words(match["unit"], dialect)
    end = match.end("dot") if match["dot"] else match.end("unit")
    words = said.one if match["hyphen"] or match["amount"].lower() == "one" else said.many
    return [((match.start("unit"), end), words)]


def _alone(match: Any, dialect: Dialect) -> SpokenWords:
    said = _said(match["unit"], dialect)
    return said and said.one


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
    adjective = match["noun"] is not None and follows(match, _DETERMINER)
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
        rf"{_LEFT}(?P<amount>{NUMBER})(?:\"|″)(?P<noun>(?=\s(?!x\s)(?:\p{{Ll}}+|\p{{Lu}}{{2,}}s?)\b)(?!\s(?:{VERBS})\b))?",
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
    # 1 tablet x 10 days.
    rule(
        "for",
        r"(?<=\p{L}\.?\s)x(?=\s?[0-9]{1,3}\s?(?:days?|weeks?|wks?|months?|hours?|hrs?|doses?|yrs?|years?)\b)",
        "for",
        "x",
        DIGITS,
    ),
    number_rule(
        "resolution",
        r"(?<![\p{L}\p{N}])(?P<lines>480|720|1080|1440|2160|4320)(?P<letter>[pi])(?![\p{L}\p{N}])",
        _resolution,
        "pi",
    ),
    rule("inches", rf"(?<=(?P<amount>{_FRACTION}))[\"″](?P<noun>{_NOUN})?", _fraction_inches, '"″', "½⅓⅔¼¾⅛⅜⅝⅞/"),
    number_rule(
        "unit",
        rf"{_LEFT}(?P<amount>{NUMBER})(?:{SPACE}?|(?P<hyphen>-))(?P<unit>{_COMPOUND})(?![\p{{L}}\p{{N}}])"
        rf"(?![-'’/](?!old\b)\p{{L}}|[-'’][0-9])"
        rf"(?P<dot>\.(?!\s*+\Z|\s*+\n|\s++[\"“‘'(]?(?![NSEW]{{1,2}} )[A-Z]|[\p{{L}}\p{{N}}.]))?"
        rf"(?P<noun>{_NOUN})?",
        _quantity,
    ),
    rule(
        "unit",
        rf"(?<=(?P<amount>{_FRACTION}))(?:{SPACE}?|(?P<hyphen>-))(?P<unit>(?:{one_of_many(FOLLOWED)}|(?<=[⁰¹²³⁴-⁹]{SPACE})K){_EXPONENT}"
        rf"(?:[/·⋅∙](?:{_UNIT}){_EXPONENT})*+)(?![\p{{L}}\p{{N}}])(?P<dot>{OWN_DOT})?",
        _fraction_of,
        DIGITS + "½⅓⅔¼¾⅛⅜⅝⅞",
        _FRACTION_LIKE,
    ),
    rule(
        "unit",
        rf"\b{_MILLIONS}{SPACE}(?P<unit>(?:{one_of_many(unit for unit in FOLLOWED if unit not in _NOT_MILLIONS)})"
        rf"{_EXPONENT}(?:/(?:{_UNIT}){_EXPONENT})?)(?![\p{{L}}\p{{N}}'’-])",
        _of_millions,
        re.compile(r"(?:llion|ousand|undred)\s"),
    ),
    rule(
        "unit",
        rf"\b(?P<amount>(?i:{_NUMBER_WORDS}))(?:{SPACE}|(?P<hyphen>-))(?P<unit>{any_of(_AFTER_WORDS)})(?![\p{{L}}\p{{N}}'’])"
        rf"(?P<dot>{OWN_DOT})?",
        _of_words,
        AnyWord(_AFTER_WORDS),
    ),
    rule("unit", rf"(?<=\bper )(?P<unit>{any_of(_AFTER_PER)})(?![\p{{L}}\p{{N}}])", _alone, _PER_LIKE),
    rule(
        "unit",
        rf"(?<=\p{{L}}{{3}}{SPACE}?|[0-9%]{SPACE}?)/{SPACE}?(?P<unit>{_COMPOUND})(?![\p{{L}}\p{{N}}/])(?<!\b"
        rf"(?:and|or|he|she|his|her|s|A|I)/.*)(?<=/(?:[kcm]?m[²³23]|kg|km|h|hr|min|sec|mi|sq mi|sq km|lb|ha|kWh|GB|MB|"
        rf"L|ml|mL)(?![\p{{L}}]))",
        _per,
        "/",
    ),
]
