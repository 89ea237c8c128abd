"""Quantities: a number and its unit, degrees, and what follows a slash."""

from __future__ import annotations

import re
from typing import Any

import regex

from kokoro_server.text.spoken.matching import Dialect, Rule, SpokenWords, rule
from kokoro_server.text.spoken.patterns import SPACE, any_of, follows, two_words
from kokoro_server.text.spoken.shared.patterns import (
    DIGITS,
    LEFT,
    OWN_DOT,
    WORD_END,
    D,
    amount_pattern,
    noun_after,
    number_pattern,
    number_rule,
    of_noun,
    say_amount,
)
from kokoro_server.text.spoken.shared.table import LanguageTable
from kokoro_server.text.spoken.vocabulary import Noun

_EXPONENT = r"(?:\^?[23](?![0-9])|[²³])?"
_FRACTION = rf"[½⅓⅔¼¾⅛⅜⅝⅞]|{D}/{D}{{1,2}}"
_BARE = re.compile(r"km|kg|cm|mm|ml|m²|m³|kWh|GB|MB|TB")
# Before an ordinal that is written with the sign of degrees: il 1° gennaio.
_ARTICLE = regex.compile(
    rf"(?<!\p{{L}})(?:[Ii]l|[Aa]l|[Dd]el|[Nn]el|[Dd]al|[Ll]a|[Aa]lla|[Ll]e|[Aa]u|[Dd]u|[Ee]l|[Oo]|[Dd]o|[Nn]o|[Aa]o|[Ee]m)"
    rf"{SPACE}\Z|l['’]\Z"
)


def rules(table: LanguageTable) -> list[Rule]:
    unit = any_of(table.words.units)
    degree = Noun(table.words.phrases.degree, table.words.phrases.degrees)
    compound = rf"(?:{unit}){_EXPONENT}(?:/(?:{unit}){_EXPONENT})?"
    part = regex.compile(rf"(?P<unit>{unit})(?P<power>{_EXPONENT})")

    def name(text: str) -> Noun:
        if text in table.words.units:
            return table.words.units[text]
        parts = text.split("/")
        size = 1 if part.fullmatch(parts[0]) else 2  # a unit may have a slash: Mbit/s
        first, second = "/".join(parts[:size]), "/".join(parts[size:])
        noun = _powered(table, part.fullmatch(first))
        if not second:
            return noun
        per = table.per(_powered(table, part.fullmatch(second)).one)
        return Noun(f"{noun.one} {per}", f"{noun.many} {per}")

    def quantity(match: Any, _dialect: Dialect) -> SpokenWords:
        noun, amount, big = name(match["unit"]), match["amount"], match["big"]
        if big:
            return say_amount(table, amount, big, noun.many)
        said = table.noun(noun, amount)
        words = two_words(match, "amount", table.number(amount, said), "unit", of_noun(table, amount, said))
        return [*words, ("dot", "")] if match["dot"] else words

    def split(match: Any, _dialect: Dialect) -> SpokenWords:
        """1m80"""
        noun = table.noun(table.words.units["m"], match["whole"])
        return f"{table.integer(match['whole'], noun)} {noun} {table.count(int(match['rest']), '')}"

    def per(match: Any, _dialect: Dialect) -> SpokenWords:
        said = table.words.rates.get(match["unit"]) or name(match["unit"]).one
        return [("all", table.per(said))]

    def degrees(match: Any, _dialect: Dialect) -> SpokenWords:
        noun = noun_after(table, match)
        if match["ordinal"] and (match["amount"] == "1" or noun or follows(match, _ARTICLE, 6)):
            return table.ordinal(int(match["amount"]), "º", noun)
        said = table.noun(degree, match["amount"])
        scale = {"℃": "C", "℉": "F"}.get(match["sign"], match["scale"])
        words = f"{table.number(match['amount'], said)} {said}"
        return f"{words} {table.words.scales[scale]}" if scale else words

    ordinal = "" if table.degree_is_ordinal else "(?!)"
    return [
        number_rule(
            "temperature",
            rf"{LEFT}(?P<amount>{number_pattern(table)}){SPACE}?(?:(?P<sign>[°º˚]){SPACE}?(?P<scale>[CFK])"
            rf"{WORD_END}|(?P<sign>[℃℉])|(?P<ordinal>{ordinal}(?<=(?<![.,]{D}*){D}{{1,2}})(?P<sign>°)(?={SPACE}\p{{L}}))|"
            rf"(?P<sign>[°˚])|(?<=[-−]{D}{{1,2}})(?P<sign>º))",
            degrees,
            "°º˚℃℉",
        ),
        number_rule(
            "unit",
            rf"{LEFT}{amount_pattern(table)}{SPACE}?-?(?P<unit>{compound}){WORD_END}(?!['’][\p{{L}}])(?P<dot>{OWN_DOT}(?!{D}))?(?!\.\p{{L}})",
            quantity,
        ),
        number_rule("unit", rf"{LEFT}(?P<whole>{D}{{1,3}})m(?P<rest>{D}{{2}}){WORD_END}", split, "m"),
        rule(
            "unit",
            rf"(?<={_FRACTION}){SPACE}?(?P<unit>{compound}){WORD_END}",
            lambda match, _dialect: [("unit", name(match["unit"]).one)],
            "½⅓⅔¼¾⅛⅜⅝⅞/",
            DIGITS + "½⅓⅔¼¾⅛⅜⅝⅞",
        ),
        # Without a number: `miles de km`.
        rule(
            "unit",
            rf"(?<![\p{{L}}\p{{M}}\p{{N}}./@_-])(?P<unit>(?:km/h|km²|m²|m³|km|kg|cm|mm|ml|kWh|GB|MB|TB))"
            rf"(?![\p{{L}}\p{{M}}\p{{N}}²³/_-])(?!\.\p{{L}}|{SPACE}{D})",
            lambda match, _dialect: name(match["unit"]).many,
            _BARE,
        ),
        rule(
            "per",
            rf"(?<=[€$£₹¥%\p{{L}}0-9]{SPACE}?)(?P<all>/{SPACE}?(?!(?<={D}/)[A-Z]{WORD_END})(?P<unit>{any_of(table.words.rates)}|{compound})){WORD_END}"
            rf"(?<=(?:[0-9€$£₹¥%]|{any_of(table.words.currencies)}){SPACE}?/{SPACE}?[^/]*)(?!/)",
            per,
            "/",
            DIGITS,
        ),
    ]


def _powered(table: LanguageTable, part: Any) -> Noun:
    noun, power = table.words.units[part["unit"]], part["power"].lstrip("^")
    if not power:
        return noun
    phrases = table.words.phrases
    one, many = (phrases.square, phrases.squares) if power in "2²" else (phrases.cubic, phrases.cubics)
    return Noun(one.format(noun.one), many.format(noun.many))
