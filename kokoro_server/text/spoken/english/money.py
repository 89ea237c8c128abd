"""Amounts of money, with the sign before or after the amount, or the currency's code."""

from __future__ import annotations

from typing import Any, NamedTuple

import regex

from kokoro_server.text.spoken.english.patterns import (
    AT_NUMBER,
    DASH,
    LEFT,
    MAGNITUDES,
    NUMBER,
    OWN_DOT,
    SPACE,
    follows,
)
from kokoro_server.text.spoken.english.words import cardinal, decimal, value
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, Where, rule
from kokoro_server.text.spoken.patterns import DIGITS, any_of


class EnglishCurrency(NamedTuple):
    one: str
    many: str
    cent: str = ""
    cents: str = ""


_DOLLAR = EnglishCurrency("dollar", "dollars", "cent", "cents")
_POUND = EnglishCurrency("pound", "pounds", "penny", "pence")
_EURO = EnglishCurrency("euro", "euros", "cent", "cents")
_YEN = EnglishCurrency("yen", "yen")
_YUAN = EnglishCurrency("yuan", "yuan")
_RUPEE = EnglishCurrency("rupee", "rupees", "paisa", "paise")
_FRANC = EnglishCurrency("Swiss franc", "Swiss francs")
_BITCOIN = EnglishCurrency("bitcoin", "bitcoins")


def _dollars(country: str) -> EnglishCurrency:
    return EnglishCurrency(f"{country} dollar", f"{country} dollars", "cent", "cents")


SIGNS = {
    "$": _DOLLAR,
    "US$": _dollars("U.S"),
    "A$": _dollars("Australian"),
    "AU$": _dollars("Australian"),
    "C$": _dollars("Canadian"),
    "CA$": _dollars("Canadian"),
    "CAD$": _dollars("Canadian"),
    "NZ$": _dollars("New Zealand"),
    "HK$": _dollars("Hong Kong"),
    "NT$": _dollars("New Taiwan"),
    "S$": _dollars("Singapore"),
    "MX$": EnglishCurrency("Mexican peso", "Mexican pesos"),
    "R$": EnglishCurrency("real", "reais"),
    "£": _POUND,
    "€": _EURO,
    "¥": _YEN,
    "￥": _YEN,
    "₹": _RUPEE,
    "Rs.": _RUPEE,
    "Rs": _RUPEE,
    "₽": EnglishCurrency("ruble", "rubles"),
    "₩": EnglishCurrency("won", "won"),
    "₺": EnglishCurrency("lira", "lira"),
    "₫": EnglishCurrency("dong", "dong"),
    "₱": EnglishCurrency("peso", "pesos"),
    "₴": EnglishCurrency("hryvnia", "hryvnias"),
    "₦": EnglishCurrency("naira", "naira"),
    "₪": EnglishCurrency("shekel", "shekels"),
    "₸": EnglishCurrency("tenge", "tenge"),
    "₡": EnglishCurrency("colon", "colones"),
    "₵": EnglishCurrency("cedi", "cedis"),
    "₭": EnglishCurrency("kip", "kip"),
    "฿": EnglishCurrency("baht", "baht"),
    "₿": _BITCOIN,
}
CODES = {
    "USD": _dollars("U.S"),
    "CAD": _dollars("Canadian"),
    "AUD": _dollars("Australian"),
    "NZD": _dollars("New Zealand"),
    "SGD": _dollars("Singapore"),
    "HKD": _dollars("Hong Kong"),
    "EUR": _EURO,
    "GBP": _POUND,
    "JPY": _YEN,
    "CNY": _YUAN,
    "RMB": _YUAN,
    "INR": _RUPEE,
    "CHF": _FRANC,
    "SEK": EnglishCurrency("Swedish krona", "Swedish kronor"),
    "NOK": EnglishCurrency("Norwegian krone", "Norwegian kroner"),
    "DKK": EnglishCurrency("Danish krone", "Danish kroner"),
    "PLN": EnglishCurrency("Polish zloty", "Polish zlotys"),
    "RUB": EnglishCurrency("ruble", "rubles"),
    "KRW": EnglishCurrency("won", "won"),
    "BRL": EnglishCurrency("real", "reais"),
    "MXN": EnglishCurrency("Mexican peso", "Mexican pesos"),
    "ZAR": EnglishCurrency("rand", "rand"),
    "TRY": EnglishCurrency("lira", "lira"),
    "BTC": _BITCOIN,
    "ETH": EnglishCurrency("ether", "ether"),
}
_AFTER = {sign: SIGNS[sign] for sign in "€£¥₹₽₩₺₫₱₴₦₪฿₿$"} | CODES
_AFTER |= {
    "¢": EnglishCurrency("cent", "cents"),
    "￠": EnglishCurrency("cent", "cents"),
    "kr": EnglishCurrency("krone", "kroner"),
    "zł": EnglishCurrency("zloty", "zlotys"),
}
_CENTS = {"p": EnglishCurrency("penny", "pence"), "c": EnglishCurrency("cent", "cents")}
SYMBOLS = "$£€¥￥₹₽₩₺₫₱₴₦₪₸₡₵₭฿₿¢￠"
_PER = {
    "month": "month", "mo": "month", "year": "year", "yr": "year", "week": "week", "wk": "week", "day": "day",
    "hour": "hour", "hr": "hour", "h": "hour", "night": "night", "person": "person", "user": "user", "seat": "seat",
    "share": "share", "kg": "kilogram", "lb": "pound", "oz": "ounce", "gal": "gallon", "kWh": "kilowatt hour",
    "MWh": "megawatt hour", "mile": "mile", "km": "kilometer", "min": "minute", "minute": "minute", "unit": "unit",
    "ton": "ton", "bbl": "barrel", "barrel": "barrel", "GB": "gigabyte", "item": "item", "piece": "piece",
    "pc": "piece", "head": "head", "student": "student", "ticket": "ticket", "token": "token",
    "MTok": "million tokens", "dozen": "dozen", "session": "session", "visit": "visit", "call": "call", "ea": "each",
    "annum": "annum", "quarter": "quarter", "game": "game", "class": "class", "lesson": "lesson", "guest": "guest",
}  # fmt: skip
_MAGNITUDE = (
    rf"(?:{SPACE}?(?P<big>(?i:k|m|mn|mln|mm|bn|bln|b|tn|trn|t))(?![\p{{L}}\p{{N}}])|(?:{SPACE}|-)(?P<big>"
    rf"(?i:hundred|thousand|million|mil|billion|trillion|mn|bn))(?!\p{{L}}))"
)
_PER_UNIT = rf"(?P<per>{SPACE}?/{SPACE}?(?P<unit>{any_of(_PER)})(?![\p{{L}}\p{{N}}]){OWN_DOT}?)"
_NOT_NOUNS = (
    "a all also an and apart are as at away back because before between but by can could did does down each either "
    "else even ever every extra for from had has have he his how if in instead into is it its just later less like "
    "more most much next no nor not now of off on once only onto or out over per plus right she should since so "
    "some than that the their then there they this through to today together tomorrow too under until up upon "
    "versus was we were when where which while who will with within without worth would yesterday yet you your "
    "last annually monthly weekly daily went came goes"
).split()
# A five dollar fee: the singular, between an article or the like and a noun.
_DETERMINER = regex.compile(
    r"(?i)\b(?:an?|another|the|this|that|each|every|one|his|her|its|our|my|your|their|new|free|extra)\s(?:(?:new|"
    r"extra|single|whole|total|record|annual|monthly|weekly|daily|estimated|initial|additional)\s)?[*_\"“(]*\Z"
)
_NOUN = rf"(?=[*_]*(?:{SPACE}(?!(?:{any_of(_NOT_NOUNS)})\b)\p{{L}}|-(?!\p{{Lu}})\p{{L}}))"


def _amount(text: str, big: str | None, currency: EnglishCurrency, dialect: Dialect, *, noun: bool) -> str:
    """Words for an amount. `noun`: it stands before a noun, as in a five dollar fee."""
    number = value(text)
    if big:
        magnitude = MAGNITUDES.get(big.lower(), big.lower())
        return f"{decimal(text, dialect)} {magnitude} {currency.one if noun else currency.many}"
    whole, _, cents = number.partition(".")
    if len(cents) == 2 and currency.cents and len(whole) < 16:
        return _with_cents(int(whole or 0), int(cents), currency, dialect, noun=noun)
    if set(cents) == {"0"}:
        number, cents = whole, ""
    single = noun or number == "1"
    return (
        f"{decimal(number if cents or number != text else text, dialect)} {currency.one if single else currency.many}"
    )


def _with_cents(whole: int, cents: int, currency: EnglishCurrency, dialect: Dialect, *, noun: bool) -> str:
    units = f"{cardinal(whole, dialect)} {currency.one if whole == 1 or (noun and not cents) else currency.many}"
    if not cents:
        return units
    parts = f"{cardinal(cents, dialect)} {currency.cent if cents == 1 else currency.cents}"
    if not whole:
        return parts
    if dialect.british and currency is _POUND and cents > 9:
        return f"{units} {cardinal(cents, dialect)}"
    return f"{units} and {parts}"


def _before(match: Any, dialect: Dialect) -> SpokenWords:
    """$5, $5-10, $5m, $20/month."""
    currency, big, to = SIGNS[match["sign"]], match["big"], match["to"]
    noun = match["noun"] is not None and follows(match, _DETERMINER)
    claims: list[tuple[Where, str]] = []
    start, last = match.start("sign"), match["amount"]
    if to:
        low = match["lowbig"]
        first = decimal(match["amount"], dialect) + (f" {MAGNITUDES[low.lower()]}" if low else "")
        if match["tosign"]:
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


def _code_before(match: Any, dialect: Dialect) -> SpokenWords:
    return _amount(match["amount"], match["big"], CODES[match["sign"]], dialect, noun=False)


def _pence(match: Any, dialect: Dialect) -> SpokenWords:
    words = _amount(match["amount"], None, _CENTS[match["sign"]], dialect, noun=False)
    return [("all", words), *([("per", f"per {_PER[match['unit']]}")] if match["per"] else [])]


RULES = [
    rule(
        "money",
        rf"(?<![\p{{L}}\p{{N}}])(?P<sign>{any_of(SIGNS)}){SPACE}?(?P<amount>{NUMBER})(?:{SPACE}?(?P<lowbig>(?i:k|"
        rf"m|bn|b))?(?P<dash>{SPACE}?{DASH}{SPACE}?)(?P<tosign>(?P=sign))?(?P<to>{NUMBER}))?{_MAGNITUDE}?"
        rf"(?P<plus>\+(?![0-9]))?{_PER_UNIT}?(?P<noun>{_NOUN})?",
        _before,
        SYMBOLS + "R",
        DIGITS,
    ),
    rule(
        "money",
        rf"{LEFT}(?P<all>(?P<amount>{NUMBER})(?:{_MAGNITUDE})?{SPACE}?(?P<sign>{any_of(_AFTER)}))"
        rf"(?![\p{{L}}\p{{N}}]){_PER_UNIT}?(?P<noun>{_NOUN})?",
        _after,
        DIGITS,
        at=AT_NUMBER,
    ),
    rule(
        "money",
        rf"(?<![\p{{L}}\p{{N}}])(?P<sign>{any_of(CODES)}){SPACE}?(?P<amount>{NUMBER}){_MAGNITUDE}?(?![\p{{L}}\p{{N}}])",
        _code_before,
        DIGITS,
        "UCANSEGJIPRDKBMZT",
    ),
    rule(
        "money",
        rf"{LEFT}(?P<all>(?P<amount>[1-9][0-9]?)(?P<sign>p))(?![\p{{L}}\p{{N}}]){_PER_UNIT}?",
        _pence,
        "p",
        DIGITS,
        at=AT_NUMBER,
    ),
    rule("money", rf"(?<=[$£€]{NUMBER})/(?=[0-9])", "per", "$£€", "/"),
    rule(
        "money",
        rf"{LEFT}(?P<all>(?P<amount>[1-9][0-9]?)(?P<sign>c))(?P<per>(?!))?(?![\p{{L}}\p{{N}}])(?:"
        rf"(?= (?:each|per|a|an|piece)\b)|(?<=\b(?:rose|fell|up|down|gained|lost|costs?|only|just|by|added|"
        rf"dropped|slipped)\s[0-9]{{1,2}}c))",
        _pence,
        "c",
        DIGITS,
        at=AT_NUMBER,
    ),
]
