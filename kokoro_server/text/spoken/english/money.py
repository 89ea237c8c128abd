"""Amounts of money, with the sign before or after the amount, or the currency's code."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import LEFT, MAGNITUDES, NUMBER, OWN_DOT, number_rule
from kokoro_server.text.spoken.english.words import cardinal, decimal, letters, plural, value
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, Where, rule
from kokoro_server.text.spoken.patterns import DASH, DIGITS, SPACE, any_of, follows
from kokoro_server.text.spoken.vocabulary import Currency, Noun

_FILE = vocabulary.load("english_money")
_SIGNS = _FILE.currencies("currencies", plural)


_CODES = _FILE.currencies("currency_codes", plural)
_AFTER = {sign: _SIGNS[sign] for sign in _FILE.having("currencies", "after")} | _CODES
_AFTER |= _FILE.currencies("currencies_after", plural)
_COINS = _FILE.currencies("coins", plural)
_SYMBOLS = "$£€¥￥₹₽₩₺₫₱₴₦₪₸₡₵₭฿₿¢￠"
# 1.500,00 as in most of Europe, 1'500.00 as in Switzerland.
_COMMA = r"[0-9]{1,3}(?:\.[0-9]{3})*+,[0-9]{2}(?![0-9]|[.,][0-9])"
_AMOUNT = rf"(?:{_COMMA}|[0-9]{{1,3}}(?:['’][0-9]{{3}})++(?:\.[0-9]{{2}})?|{NUMBER})"
_WITH_COMMA = regex.compile(_COMMA)
_POUND = _SIGNS["£"].unit
_PER = vocabulary.load("english_units").words("rates")
_MAGNITUDE = (
    rf"(?:{SPACE}?(?P<big>(?i:k|m|mn|mln|mm|bn|bln|b|tn|trn|t))(?![\p{{L}}\p{{N}}])|(?:{SPACE}|-)(?P<big>"
    rf"(?i:hundred|thousand|million|mil|billion|trillion|mn|bn|lakh|crore))(?!\p{{L}}))"
)
_PER_UNIT = rf"(?P<per>{SPACE}?/{SPACE}?(?P<unit>{any_of(_PER)})(?![\p{{L}}\p{{N}}]){OWN_DOT}?)"
_NOT_NOUNS = any_of(vocabulary.load("english_grammar").list("not_after_money"))
# A five dollar fee: the singular, between an article or the like and a noun.
_DETERMINER = regex.compile(
    r"(?i)\b(?:an?|another|the|this|that|each|every|one|his|her|its|our|my|your|their|new|free|extra)\s(?:(?:new|"
    r"extra|single|whole|total|record|annual|monthly|weekly|daily|estimated|initial|additional)\s)?[*_\"“(]*\Z"
)
_NOUN = rf"(?=[*_]*(?:{SPACE}(?!(?:{_NOT_NOUNS})\b)\p{{L}}|-(?!\p{{Lu}})\p{{L}}))"


def _english(amount: str) -> str:
    """1.500,00 as 1500.00."""
    return amount.replace(".", "").replace(",", ".") if _WITH_COMMA.fullmatch(amount) else amount


def _amount(text: str, big: str | None, currency: Currency, dialect: Dialect, *, noun: bool) -> str:
    """Words for an amount. `noun`: it stands before a noun, as in a five dollar fee."""
    text = _english(text)
    number, unit = value(text), currency.unit
    if big:
        magnitude = MAGNITUDES.get(big.lower(), big.lower())
        return f"{decimal(text, dialect)} {magnitude} {unit.one if noun else unit.many}"
    whole, _, cents = number.partition(".")
    if len(cents) == 2 and currency.cent and len(whole) < 16:
        return _with_cents(int(whole or 0), int(cents), unit, currency.cent, dialect, noun=noun)
    if set(cents) == {"0"}:
        number, cents = whole, ""
    single = noun or number == "1"
    return f"{decimal(number if cents or number != text else text, dialect)} {unit.one if single else unit.many}"


def _with_cents(whole: int, cents: int, unit: Noun, cent: Noun, dialect: Dialect, *, noun: bool) -> str:
    units = f"{cardinal(whole, dialect)} {unit.one if whole == 1 or (noun and not cents) else unit.many}"
    if not cents:
        return units
    parts = f"{cardinal(cents, dialect)} {cent.one if cents == 1 else cent.many}"
    if not whole:
        return parts
    if dialect.british and unit == _POUND and cents > 9:
        return f"{units} {cardinal(cents, dialect)}"
    return f"{units} and {parts}"


def _before(match: Any, dialect: Dialect) -> SpokenWords:
    """$5, $5-10, $5m, $20/month."""
    currency, big, to = _SIGNS[match["sign"]], match["big"], match["to"]
    noun = match["noun"] is not None and follows(match, _DETERMINER)
    claims: list[tuple[Where, str]] = []
    start, last = match.start("sign"), match["amount"]
    if to:
        low = match["lowbig"]
        from_number, to_number = (float(value(_english(match[each]))) for each in ("amount", "to"))
        shared = MAGNITUDES.get(big.lower(), "") if big and not low and from_number < to_number else ""
        first = decimal(_english(match["amount"]), dialect) + (f" {MAGNITUDES[low.lower()]}" if low else "")
        if match["tosign"] and shared:
            first = f"{first} {shared}"
        elif match["tosign"]:
            first = _amount(match["amount"], low, currency, dialect, noun=False)
        claims += [((start, match.end("lowbig" if low else "amount")), first), ("dash", "to")]
        start, last = match.start("tosign" if match["tosign"] else "to"), match["to"]
    end = match.end("big") if big else match.end("to") if to else match.end("amount")
    words = _amount(last, big, currency, dialect, noun=noun)
    if match["plus"]:
        words, end = f"{words} plus", match.end("plus")
    claims.append(((start, end), words))
    if match["per"]:
        unit = _PER[match["unit"]]
        claims.append(("per", unit if unit == "each" else f"per {unit}"))
    return claims


def _after(match: Any, dialect: Dialect) -> SpokenWords:
    currency = _AFTER[match["sign"]]
    noun = match["noun"] is not None and follows(match, _DETERMINER)
    claims: list[tuple[Where, str]] = [("all", _amount(match["amount"], match["big"], currency, dialect, noun=noun))]
    if match["per"]:
        claims.append(("per", f"per {_PER[match['unit']]}"))
    return claims


def _pence(match: Any, dialect: Dialect) -> SpokenWords:
    words = _amount(match["amount"], None, _COINS[match["sign"]], dialect, noun=False)
    return [("all", words), *([("per", f"per {_PER[match['unit']]}")] if match["per"] else [])]


RULES = [
    # EUR/USD.
    rule(
        "currencies",
        rf"(?<![\p{{L}}\p{{N}}])(?P<one>{any_of(_CODES)})(?P<slash>/)(?P<other>{any_of(_CODES)})(?![\p{{L}}\p{{N}}])",
        lambda match, dialect: [
            ("one", letters(match["one"], dialect)),
            ("slash", " "),
            ("other", letters(match["other"], dialect)),
        ],
        "/",
    ),
    rule(
        "money",
        rf"(?<![\p{{L}}\p{{N}}])(?P<sign>{any_of(_SIGNS)}){SPACE}?(?P<amount>{_AMOUNT})(?:{SPACE}?(?P<lowbig>(?i:k|"
        rf"m|bn|b))?(?P<dash>{SPACE}?{DASH}{SPACE}?)(?P<tosign>(?P=sign))?(?P<to>{_AMOUNT}))?{_MAGNITUDE}?"
        rf"(?P<plus>\+(?![0-9]))?{_PER_UNIT}?(?P<noun>{_NOUN})?",
        _before,
        _SYMBOLS + "R",
        DIGITS,
    ),
    number_rule(
        "money",
        rf"{LEFT}(?P<all>(?P<amount>{_AMOUNT})(?:{_MAGNITUDE})?{SPACE}?(?P<sign>{any_of(_AFTER)}))"
        rf"(?![\p{{L}}\p{{N}}]){_PER_UNIT}?(?P<noun>{_NOUN})?",
        _after,
    ),
    rule(
        "money",
        rf"(?<![\p{{L}}\p{{N}}])(?P<sign>{any_of(_CODES)}){SPACE}?(?P<amount>{_AMOUNT}){_MAGNITUDE}?(?![\p{{L}}\p{{N}}])",
        lambda match, dialect: _amount(match["amount"], match["big"], _CODES[match["sign"]], dialect, noun=False),
        DIGITS,
        "UCANSEGJIPRDKBMZT",
    ),
    number_rule(
        "money", rf"{LEFT}(?P<all>(?P<amount>[1-9][0-9]?)(?P<sign>p))(?![\p{{L}}\p{{N}}]){_PER_UNIT}?", _pence, "p"
    ),
    rule("money", rf"(?<=[$£€]{NUMBER})/(?=[0-9])", "per", "$£€", "/"),
    rule("money", r"(?<=(?<![\p{N}.,/])[1-9])/(?=[$£€][0-9])", "for", "$£€", "/"),
    number_rule(
        "money",
        rf"{LEFT}(?P<all>(?P<amount>[1-9][0-9]?)(?P<sign>c))(?P<per>(?!))?(?![\p{{L}}\p{{N}}])(?:"
        rf"(?= (?:each|per|a|an|piece)\b)|(?<=\b(?:rose|fell|up|down|gained|lost|costs?|only|just|by|added|"
        rf"dropped|slipped)\s[0-9]{{1,2}}c))",
        _pence,
        "c",
    ),
]
