"""Shared by Chinese and Japanese: numbers in full-width or plain digits, addresses, signs between Latin letters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.emoji import emoji
from kokoro_server.text.spoken.matching import Dialect, ReadMatch, Rule, SpokenWords, Where, rule, rules_at
from kokoro_server.text.spoken.patterns import (
    DIGITS,
    FORMULA,
    FORMULA_SIGNS,
    any_of,
    formula_parts,
    known_digits,
    roman_value,
)

WIDE_DIGITS = DIGITS + "０１２３４５６７８９"
D = "[0-9０-９]"
# A wide comma belongs to a number only between wide digits, else it ends a clause.
INTEGER = rf"(?:{D}{{1,3}}+(?:,{D}{{3}})++|[０-９]{{1,3}}+(?:，[０-９]{{3}})++|{D}++)(?!{D})"
NUMBER = rf"(?:{INTEGER}(?:[.．]{D}++)?+)"
# Not within a number.
LEFT = rf"(?<!{D})(?<!{D}[.,．:：/／])(?<![０-９]，)"
RIGHT = rf"(?!{D})(?![.．:：/／]{D})"
NOT_LATIN = r"(?![\p{Latin}\p{Greek}µ])"
SPACE = r"[ \xa0\u2009\u202f]"
MINUS = "[-−－﹣]"
MINUSES = "-−－﹣"
DASH = "[-‐‑–—―−－~～〜∼]"
DASHES = "-‐‑–—―−－~～〜∼"
SLASH = "[/／]"
COLON = "[:：∶]"
YEAR = rf"(?:[12１２]{D}{{3}})"
MONTH = r"(?:[0０]?[1-9１-９]|[1１][0-2０-２])"
DAY = r"(?:[0０]?[1-9１-９]|[12１２][0-9０-９]|[3３][01０１])"
SIXTY = r"[0-5０-５][0-9０-９]"
DATE = (
    rf"{LEFT}(?<![A-Za-z])(?P<year>{YEAR})(?P<sign>[-/.．／－])(?P<month>{MONTH})(?P=sign)(?P<day>{DAY}){RIGHT}"
    rf"(?!(?P=sign))日?"
)
number_rule = rules_at(re.compile(rf"(?<!{D}){D}"), WIDE_DIGITS)
NOT_ASCII_SIGN = regex.compile(r"[\p{S}\p{N}\p{Co}\p{Cn}--[\x00-\x7f]]", regex.V1)
GREEK_LETTER = re.compile(r"[Α-ω]")

_FULL_WIDTH = {ord(wide): ord(wide) - 0xFEE0 for wide in "０１２３４５６７８９．，：／－＋％＄＃＠＆＝＜＞＊＿～"}
_EMOTICON = (
    r"(?<![\p{L}\p{N}])(?:[:;][-o^']?[)(DPp]|\^_+\^|-_-|T_T|>_<|[（(][^\p{L}\p{N}\s()（）]{2,8}[)）])(?![\p{L}\p{N}])"
)
_FACE = re.compile(r"[:;][-o^']?[)(DPp]|_|[（(][^\w\s()（）]{2,8}[)）]")
_FILE = vocabulary.load("chinese_and_japanese")
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?"
_TAIL = r"(?::[0-9]{1,5})?+(?:[/?#][!-~]*[A-Za-z0-9/=&_-])?+"
_ADDRESS_PART = re.compile(r"[0-9]+|(?<![A-Za-z])[Aa](?![A-Za-z])|[^A-Za-z0-9]")


def plain(text: str) -> str:
    """A number in ASCII digits, without the marks between its thousands."""
    return text.translate(_FULL_WIDTH).replace(",", "")


def ascii_text(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def roman(text: str) -> int | None:
    """The value of a numeral, which may be in the characters made for them: Ⅳ."""
    return roman_value(ascii_text(text).upper())


def vulgar(match: Any) -> tuple[int, int]:
    """The numerator and the denominator of a fraction in one character."""
    above, _, below = ascii_text(match["sign"]).partition("⁄")
    return int(above), int(below)


def exponent(match: Any) -> str:
    return ascii_text(match["power"]).lstrip("^").replace("−", "-")


def formula(number: Callable[[str], str], marks: Mapping[str, str]) -> Rule:
    """H₂SO₄: each letter by itself. `marks` are words for a point and for charges."""

    def read(match: Any, _dialect: Dialect) -> SpokenWords:
        parts = formula_parts(match)
        return (
            " ".join(marks.get(part) or (" ".join(part.upper()) if part.isalpha() else number(part)) for part in parts)
            or None
        )

    return rule("formula", FORMULA, read, FORMULA_SIGNS)


def versus(decimal: Callable[[str], str], word: str) -> ReadMatch:
    """Reads numbers and the signs between them, each for itself: 3:1, 1:2:3."""

    def read(match: Any, _dialect: Dialect) -> SpokenWords:
        parts = regex.finditer(rf"{NUMBER}|[^0-9０-９]+", match.string, pos=match.start(), endpos=match.end())
        return [(part.span(), decimal(part[0]) if part[0][0].isdecimal() else word) for part in parts]

    return read


def version(decimal: Callable[[str], str], point: str) -> Rule:
    return number_rule(
        "version",
        rf"{LEFT}{D}{{1,4}}(?:[.．]{D}{{1,5}}){{2,5}}(?!{D})(?![.．]{D})",
        lambda match, _dialect: point.join(decimal(part) for part in plain(match[0]).split(".")),
        ".．",
    )


def addresses(marks: Mapping[str, str], digits: Callable[[str], str]) -> list[Rule]:
    """Addresses and names of files. Their words are left as they are, `marks` are the names of the marks between."""

    def spelled(match: Any, _dialect: Dialect) -> SpokenWords:
        claims = list[tuple[Where, str]]()
        start = match.start("address")
        if match.start() < start:
            claims.append(((match.start(), start), ""))
        for part in _ADDRESS_PART.finditer(match["address"]):
            words = digits(part[0]) if part[0].isdecimal() else "eh" if part[0] in "Aa" else marks.get(part[0], " ")
            claims.append(((start + part.start(), start + part.end()), words))
        return claims

    host = rf"(?:{_HOST}\.)++(?:{any_of(_FILE.list('top_level_domains'))})(?![A-Za-z0-9-])"
    return [
        rule(
            "web address",
            rf"(?<![A-Za-z0-9])(?:(?:https?|ftp|wss?|ssh|file)://)(?P<address>{_HOST}(?:\.{_HOST})*+{_TAIL})",
            spelled,
            re.compile("://"),
            flags=regex.IGNORECASE,
        ),
        rule(
            "e-mail address",
            rf"(?<![A-Za-z0-9._%+-])(?:mailto:)?(?P<address>[A-Za-z0-9][A-Za-z0-9._%+-]*+@{_HOST}(?:\.{_HOST})+)",
            spelled,
            "@",
        ),
        rule(
            "web address",
            rf"(?<![A-Za-z0-9@._-])(?P<address>(?:www\.{_HOST}(?:\.{_HOST})++|{host}){_TAIL})",
            spelled,
            re.compile(r"[A-Za-z0-9]\.[A-Za-z]"),
        ),
        rule(
            "file name",
            rf"(?<![A-Za-z0-9._-])(?P<address>[A-Za-z0-9_-]{{1,64}}+(?:\.[A-Za-z0-9_-]{{1,20}})*?\."
            rf"(?:{any_of(_FILE.list('file_extensions'))}))"
            rf"(?![A-Za-z0-9])",
            spelled,
            re.compile(r"[A-Za-z0-9]\.[a-z]"),
        ),
        rule(
            "path",
            r"(?<![A-Za-z0-9.:/<])(?P<address>[~.]?/[A-Za-z0-9_.-]++(?:/[A-Za-z0-9_.-]++)*+)(?<![.])"
            r"(?=/?[^A-Za-z0-9/]|/?\Z)",
            spelled,
            "/",
        ),
        rule(
            "IP address",
            r"(?<![A-Za-z0-9.])(?P<address>(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?::[0-9]{1,5})?+)(?![0-9])(?!\.[0-9])",
            spelled,
            ".",
            DIGITS,
        ),
    ]


# Letters are read as in English. A lone A is written `eh`, as it would be taken for the article.
LETTERS = [
    rule("letter", r"(?<![\p{Latin}'’])[Aa](?![\p{Latin}'’])(?![ -]\p{Latin})(?<!\p{Latin}[ -].)", "eh", "Aa"),
]
PICTURES = [
    rule("emoticon", _EMOTICON, "", _FACE),
    emoji("〰〽㊗㊙", NOT_ASCII_SIGN),
]
ORNAMENTS = [
    rule("arrow", r"(?<=[\p{L}\p{N}]\s?)(?:->|=>|→|⇒)(?=\s?[\p{L}\p{N}])", ",", re.compile("->|=>|→|⇒")),
    rule("bars", r"\|(?:\s*+\|)*+", ",", "|"),
    rule("ornament", r"([*_=~#^<>+\\/|～-])\1{2,}+", " ", "*_=~#^<>+\\/|～-"),
]


def last(digits: Callable[[str], str], signs: Mapping[str, str], letters: Mapping[str, str]) -> list[Rule]:
    """The rules for the rest: they pass on no digit and no sign. A sign without a name is an ornament."""

    def sign(match: Any, _dialect: Dialect) -> SpokenWords:
        found = match[0]
        if found in signs:
            return signs[found]
        amount = unicodedata.numeric(found, -1.0)
        if amount >= 0:
            return digits(f"{amount:.0f}")
        compatible, name = ascii_text(found), unicodedata.name(found, "")
        if compatible != found and all(each.isalpha() or each in signs for each in compatible):
            return "".join(signs.get(each, each) for each in compatible)
        if unicodedata.category(found) in ("Sm", "Sc") and name:
            return re.sub(r"[^a-z]+", " ", name.lower().removesuffix(" sign")).strip()
        return " "

    return [
        rule("dash", rf"(?<={D}){DASH}(?={D})", " ", DASHES),
        rule("digits", rf"{D}++", lambda match, _dialect: digits(plain(match[0])), WIDE_DIGITS),
        rule(
            "digits",
            r"\p{Nd}++",
            lambda match, _dialect: digits(known) if (known := known_digits(match[0])) else " ",
            NOT_ASCII_SIGN,
        ),
        rule("Greek letter", r"[Α-ω]", lambda match, _dialect: letters.get(match[0].lower()), GREEK_LETTER),
        rule(
            "sign",
            r"(?V1)[[\p{S}\p{N}\p{Pc}\p{Co}\p{Cn}]&@#%/\\*§¶†‡•·‣′″‰{}|~№`¿¡※⁂＆＠＃％／＼＊＿｛｝｜〔〕〈〉〒〓]",
            sign,
        ),
    ]
