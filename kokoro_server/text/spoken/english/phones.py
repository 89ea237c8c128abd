"""Telephone numbers and other numbers that are read digit by digit: cards, ISBNs, postcodes."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import number_rule
from kokoro_server.text.spoken.english.words import cardinal, digits, letters
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import DIGITS, any_of

_STATES = any_of(vocabulary.load("english").words("states").values())
_GROUP = regex.compile(r"[0-9]+|[A-Z]+|\+")
_LEFT = r"(?<![\p{L}\p{N}+$£€])(?<![0-9][.,/-])"
_RIGHT = r"(?![\p{L}\p{N}%])(?![-.,/][0-9])"
_SEP = r"[-. \xa0‑–]"
_EXTENSION = r"(?P<ext>,?\s?(?:ext\.?|extension|x)\s?(?P<extension>[0-9]{1,6}))?"
_CUE = (
    r"(?:[Cc]all|[Pp]hone|[Tt]el|[Dd]ial|[Tt]ext|[Rr]ing|[Ff]ax|[Mm]obile|[Cc]ell|[Nn]umber|[Hh]otline|"
    r"[Cc]ontact|[Ss]MS|[Ww]hats[Aa]pp)"
)
# Codes that are said as hundreds: one eight hundred.
_HUNDREDS = frozenset({"800", "900"})


def _grouped(match: Any, dialect: Dialect) -> str:
    said, text = list[str](), match["number"]
    for group in _GROUP.findall(text):
        if group == "+":
            said.append("plus")
        elif group in _HUNDREDS and text.startswith("1"):
            said.append(cardinal(int(group), dialect) + ",")
        elif group.isalpha():
            said.append(group.capitalize() if len(group) > 3 else letters(group, dialect))
        elif said and said[-1] == "plus" and len(group) < 3:
            said.append(cardinal(int(group), dialect) + "," if len(group) == 2 else digits(group) + ",")
        else:
            said.append(digits(group) + ",")
    return " ".join(said).rstrip(",")


def _phone(match: Any, dialect: Dialect) -> SpokenWords:
    extension = match.groupdict().get("extension")
    if extension:
        return [("number", _grouped(match, dialect)), ("ext", f"extension {digits(extension)}")]
    return [("number", _grouped(match, dialect))]


def _spelled(match: Any, dialect: Dialect) -> SpokenWords:
    """A postcode: SW1A 1AA."""
    said = (digits(part) if part.isdecimal() else letters(part, dialect) for part in _GROUP.findall(match[0]))
    return " ".join(said)


RULES = [
    rule(
        "phone number",
        rf"(?<![\p{{L}}\p{{N}}])(?=\+(?:[-. ()\xa0‑–]{{0,2}}[0-9]){{7}})"
        rf"(?P<number>\+[0-9]{{1,3}}(?:{_SEP}?\(?[0-9]{{1,5}}\)?){{2,6}}){_EXTENSION}{_RIGHT}",
        _phone,
        "+",
    ),
    number_rule(
        "phone number",
        rf"{_LEFT}(?P<number>(?:1{_SEP}?)?(?:\([0-9]{{3}}\){_SEP}?|"
        rf"[0-9]{{3}}{_SEP})[0-9]{{3}}{_SEP}[0-9]{{4}}){_EXTENSION}{_RIGHT}",
        _phone,
        "-. \xa0‑–",
    ),
    number_rule(
        "phone number",
        rf"{_LEFT}(?P<number>1-(?:800|888|877|866|855|844|833|900)-(?:[A-Z]{{4,9}}|"
        rf"[A-Z0-9]{{2,4}}-[A-Z0-9]{{3,5}})){_RIGHT}",
        _phone,
        "8",
        "-",
    ),
    # British, French and Australian numbers begin with a nought.
    number_rule(
        "phone number",
        rf"{_LEFT}(?P<number>0[1-9](?: [0-9]{{2}}){{4}}|"
        rf"(?:\(0[1-9]\)|\(?0[1-9][0-9]{{1,4}}\)?)[ \xa0-][0-9]{{3,4}}[ \xa0-]?[0-9]{{3,4}}|"
        rf"0[0-9]{{9,10}}){_EXTENSION}{_RIGHT}",
        _phone,
        "0",
    ),
    number_rule(
        "phone number",
        rf"{_LEFT}(?P<number>(?<=\b{_CUE}(?: (?:us|me|him|her|them|at|on|is|to|now|"
        rf"number))*:? \(?)[0-9]{{3,4}}{_SEP}[0-9]{{3,4}}(?:{_SEP}[0-9]{{2,4}})?){_EXTENSION}{_RIGHT}",
        _phone,
        "-. \xa0‑–",
    ),
    number_rule(
        "phone number",
        rf"{_LEFT}(?P<number>[2-9][0-9]{{2}}-(?P<second>[0-9]{{4}})){_EXTENSION}{_RIGHT}(?! [a-z]+s\b)",
        lambda match, dialect: _phone(match, dialect) if not match["second"].endswith("00") else None,
        "-",
    ),
    number_rule(
        "emergency number",
        rf"{_LEFT}(?P<number>(?<=\b(?:[Cc]all|[Dd]ial|[Pp]hone|[Rr]ing|[Tt]ext)(?:ed|ing|s|ling|led)?(?: on)? )"
        rf"(?:911|999|112|411|311|211|511|711|988|101|111|000)|911(?= (?:call|dispatch|operator|"
        rf"emergency))){_RIGHT}",
        _phone,
    ),
    number_rule(
        "digits",
        rf"{_LEFT}(?P<number>[0-9]{{4}}[ -][0-9]{{4}}[ -][0-9]{{4}}[ -][0-9]{{4}}|"
        rf"[0-9]{{3}}-[0-9]{{2}}-[0-9]{{4}}){_RIGHT}",
        _phone,
    ),
    number_rule(
        "digits",
        rf"{_LEFT}(?P<number>(?<=\bISBN(?:-1[03])?(?::| is)? )[0-9][0-9 -]{{8,20}}[0-9X]){_RIGHT}",
        _phone,
        "I",
    ),
    number_rule(
        "digits",
        rf"{_LEFT}(?P<number>(?<=\b(?:PIN|pin|code|passcode|password|ZIP|zip|SSN|serial|tracking|account|acct\.?|"
        rf"ISSN|IBAN|OTP)(?: (?:code|number|no\.))?(?: is|:)? )[0-9]{{3,}}(?:-[0-9]+)*+"
        rf"(?:(?<=\b[0-9]{{3}}) [0-9]{{3}})?){_RIGHT}",
        _phone,
    ),
    # The number of an order, a part, a room: no range.
    number_rule(
        "digits",
        rf"{_LEFT}(?P<number>(?<=\b(?:[Oo]rder|[Cc]ase|[Rr]ef(?:erence)?|[Tt]racking|[Ii]nvoice|[Tt]icket|[Pp]olicy|"
        rf"[Cc]onfirmation|[Cc]ontract|[Cc]laim|[Ss]erial|SKU|ID|[Rr]oom|Rm\.?|[Ss]uite|[Uu]nit|[Pp]art|[Cc]ode)"
        rf"(?: (?:ID|number|no\.|No\.?(?=:)))?(?: is)?:? \#?)"
        rf"(?:[0-9]++(?:-[0-9]++)++|(?<=ID:? |[Cc]ode:? )[0-9]{{3}}(?: [0-9]{{3,4}})++)){_RIGHT}",
        _phone,
        "- ",
    ),
    # GB29 NWBK 6016 1331 9268 19.
    rule(
        "IBAN",
        rf"{_LEFT}[A-Z]{{2}}[0-9]{{2}}(?: [A-Z]{{4}})?(?: [0-9]{{4}}){{2,6}}(?: [0-9]{{1,4}})?{_RIGHT}",
        _spelled,
        DIGITS,
    ),
    # #2026-0098; but #1-5.
    number_rule(
        "digits",
        rf"{_LEFT}(?<=\#)(?P<number>(?P<first>[0-9]{{2,8}})-(?P<last>[0-9]{{2,8}})){_RIGHT}",
        lambda match, dialect: (
            None
            if len(match["first"]) == len(match["last"]) and match["first"] < match["last"]
            else _phone(match, dialect)
        ),
        "#",
        "-",
    ),
    # A place and its postcode: NY 10001, Boston, MA 02110-1234.
    number_rule(
        "postcode",
        rf"{_LEFT}(?P<number>(?<=\b[A-Z]{{2}} |\bD\.C\. |, (?:{_STATES}) )[0-9]{{5}}(?:-[0-9]{{4}})?+){_RIGHT}",
        _phone,
    ),
    rule("postcode", rf"{_LEFT}[A-Z]{{1,2}}[0-9][0-9A-Z]? [0-9][A-Z]{{2}}(?![\p{{L}}\p{{N}}])", _spelled, DIGITS),
]
