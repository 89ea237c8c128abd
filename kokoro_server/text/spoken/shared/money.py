"""Amounts of money, with the sign or the code of the currency before or after the amount."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken.matching import Dialect, Rule, SpokenWords, rule
from kokoro_server.text.spoken.patterns import SPACE, any_of
from kokoro_server.text.spoken.shared.patterns import (
    DIGITS,
    LEFT,
    WORD_END,
    D,
    amount_pattern,
    number_rule,
    of_noun,
    say_amount,
)
from kokoro_server.text.spoken.shared.table import LanguageTable
from kokoro_server.text.spoken.vocabulary import Currency

_SIGN_END = r"(?:(?<=[\p{L}\p{M}])(?![\p{L}\p{M}\p{N}])|(?<![\p{L}\p{M}]))"


def rules(table: LanguageTable) -> list[Rule]:
    def before(match: Any, _dialect: Dialect) -> SpokenWords:
        if named.match(match.string, match.end()):  # $1.500 pesos
            return f"{table.number(match['amount'])} {match['big'] or ''}".strip()
        words = _say(table, match["amount"], match["big"], table.words.currencies[match["sign"]])
        return f"{table.words.signs['-']} {words}" if match["minus"] else words

    def after(match: Any, _dialect: Dialect) -> SpokenWords:
        sign, amount = match["sign"], match["amount"]
        has_cents = len(table.parse(amount, money=True)[2]) == 2
        if sign.islower() and not has_cents:  # a plain word: nothing but the cents needs a rule
            return None
        return _say(table, amount, match["big"], table.words.currencies[sign])

    def split(match: Any, _dialect: Dialect) -> SpokenWords:
        """5€50"""
        return _with_cents(table, match["whole"], int(match["cents"]), table.words.currencies[match["sign"]])

    amount = amount_pattern(table)
    named = regex.compile(
        rf"{SPACE}(?:{any_of({each.unit.many for each in table.words.currencies.values()})}){WORD_END}"
    )
    names = any_of(sign for sign in table.words.currencies if not sign.islower())
    return [
        rule(
            "money",
            rf"(?<![\p{{L}}\p{{N}}$])(?P<sign>{names}){SPACE}?(?P<minus>(?<!{D}{SPACE}?(?:{names})){SPACE}?[-−])?{amount}(?![\p{{Latin}}\p{{N}}])",
            before,
            DIGITS,
        ),
        number_rule("money", rf"{LEFT}(?P<whole>{D}{{1,6}})(?P<sign>[€£$])(?P<cents>{D}{{2}}){WORD_END}", split, "€£$"),
        number_rule("money", rf"{LEFT}{amount}{SPACE}?(?P<sign>{any_of(table.words.currencies)}){_SIGN_END}", after),
    ]


def _say(table: LanguageTable, amount: str, big: str | None, currency: Currency) -> str:
    whole, _, decimals = table.parse(amount, money=True)
    unit, cent = currency
    if big:
        return say_amount(table, amount, big, unit.many)
    if len(decimals) == 2 and cent:
        return _with_cents(table, whole, int(decimals), currency)
    if decimals:
        return f"{table.number(amount)} {table.noun(unit, amount)}"
    noun = table.noun(unit, whole)
    return f"{table.integer(whole, noun)} {of_noun(table, whole, noun)}"


def _with_cents(table: LanguageTable, whole: str, cents: int, currency: Currency) -> str:
    unit, cent = currency
    name = table.noun(unit, whole)
    amount = f"{table.integer(whole, name)} {of_noun(table, whole, name)}"
    if not cents or not cent:
        return amount
    coin = table.noun(cent, str(cents))
    if not whole.strip("0०"):
        return f"{table.count(cents, coin)} {coin}"
    words = f"{table.count(cents, coin)} {coin}" if table.name_cents else table.count(cents, "")
    joint = table.words.phrases.cents
    return f"{amount} {joint} {words}" if joint else f"{amount} {words}"
