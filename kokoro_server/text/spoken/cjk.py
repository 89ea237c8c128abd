"""Shared by Chinese and Japanese: numbers in full-width or plain digits, addresses, signs between Latin letters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.emoji import emoji
from kokoro_server.text.spoken.matching import Dialect, Rule, SpokenWords, Where, rule, rules_at
from kokoro_server.text.spoken.patterns import DIGITS, any_of, known_digits

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
number_rule = rules_at(re.compile(rf"(?<!{D}){D}"), WIDE_DIGITS)
NOT_ASCII_SIGN = regex.compile(r"[\p{S}\p{N}\p{Co}\p{Cn}--[\x00-\x7f]]", regex.V1)
GREEK_LETTER = re.compile(r"[Α-ω]")

_FULL_WIDTH = {ord(wide): ord(wide) - 0xFEE0 for wide in "０１２３４５６７８９．，：／－＋％＄＃＠＆＝＜＞＊＿～"}
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
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


def roman_value(text: str) -> int | None:
    """The number that is written in Roman numerals, in their usual order; else None."""
    letters = ascii_text(text).upper()
    values = [_ROMAN[letter] for letter in letters]
    total = sum(-each if each < after else each for each, after in zip(values, [*values[1:], 0], strict=True))
    return total if _to_roman(total) == letters else None


def _to_roman(number: int) -> str:
    ones, tens, hundreds = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"), "XLC", "CDM"
    said = "M" * (number // 1000)
    for letters, digit in ((hundreds, number // 100 % 10), (tens, number // 10 % 10)):
        said += ones[digit].translate(str.maketrans("IVX", letters))
    return said + ones[number % 10]


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
