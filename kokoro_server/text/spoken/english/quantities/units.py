"""Quantities: a number and its unit."""

from __future__ import annotations

import re
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import (
    DETERMINER,
    LEFT_OR_TIMES,
    NUMBER,
    OWN_DOT,
    AnyWord,
    number_rule,
    one_of_many,
)
from kokoro_server.text.spoken.english.quantities.unit_names import (
    AGED,
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
from kokoro_server.text.spoken.english.words import ONES, TENS, decimal, value
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
_NOUN = rf"(?=[*_]*{SPACE}(?!(?:{VERBS})\b)(?:\p{{Ll}}|\p{{Lu}}{{2,5}}s?\b|V[0-9]))"
_AFTER_PER = _FILE.list("after_per")
_PER_LIKE = re.compile(r"per [a-zA-Z]{2,3}\b")
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
        follows(match, DETERMINER) and match["noun"] is not None and "/" not in match["unit"]
    )
    adjective |= symbol in _ELECTRIC and DEVICES.match(match.string, match.end()) is not None
    adjective |= symbol == "yo" and AGED.match(match.string, match.end("unit")) is not None
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


def _part_of(match: Any, dialect: Dialect) -> SpokenWords:
    """7.8/16 GB."""
    first, second = (decimal(match[each], dialect) for each in ("first", "second"))
    return f"{first} of {second} {unit_words(match['unit'], dialect).many}"


RULES = [
    number_rule(
        "part of",
        rf"(?<![\p{{L}}\p{{N}}.,/])(?P<first>{NUMBER}){SPACE}?/{SPACE}?(?P<second>{NUMBER}){SPACE}?(?P<unit>[KMGT]i?B)"
        r"(?![\p{L}\p{N}/])",
        _part_of,
        "/",
        "B",
    ),
    rule("inches", rf"(?<=(?P<amount>{_FRACTION}))[\"″](?P<noun>{_NOUN})?", _fraction_inches, '"″', "½⅓⅔¼¾⅛⅜⅝⅞/"),
    number_rule(
        "unit",
        rf"{LEFT_OR_TIMES}(?P<amount>{NUMBER})(?:{SPACE}?|(?P<hyphen>-))(?P<unit>{_COMPOUND})(?![\p{{L}}\p{{N}}])"
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
    rule("unit", rf"(?<=\bper )(?P<unit>{any_of(_AFTER_PER)})(?![\p{{L}}\p{{N}}]){OWN_DOT}?", _alone, _PER_LIKE),
    rule(
        "unit",
        rf"(?<=\p{{L}}{{3}}{SPACE}?|[0-9₀-₉%]{SPACE}?)/{SPACE}?(?P<unit>{_COMPOUND})(?![\p{{L}}\p{{N}}/])(?<!\b"
        rf"(?:and|or|he|she|his|her|s|A|I)/.*)(?<=/(?:[kcm]?m[²³23]|kg|km|h|hr|min|sec|mi|sq mi|sq km|lb|ha|kWh|GB|MB|"
        rf"L|ml|mL)(?![\p{{L}}]))",
        _per,
        "/",
    ),
]
