"""`<say-as>`: a text in words, read as what it is said to be."""

from __future__ import annotations

import re
from collections.abc import Callable

from kokoro_server import languages
from kokoro_server.languages import Language
from kokoro_server.text import spoken
from kokoro_server.text.spoken.english import words as english
from kokoro_server.text.spoken.matching import Dialect
from kokoro_server.text.traced import Traced

FORMATS = {
    "date": ("mdy", "dmy", "ymd", "ydm", "md", "dm", "ym", "my", "y"),
    "time": ("hms12", "hms24"),  # how it is written: that is seen anyway
}
LETTERS_IN_DOTS = (*languages.ENGLISH, languages.JA, languages.ZH)  # `I.B.M`; other languages say single letters
_ORDINALS = {
    languages.ES: "{}º",
    languages.FR: "{}e",
    languages.HI: "{}वाँ",
    languages.IT: "{}º",
    languages.JA: "第{}",
    languages.PT_BR: "{}º",
    languages.ZH: "第{}",
}
_WHOLE = re.compile(r"(?P<sign>[-−+]?)\s?(?P<digits>[0-9]{1,30}|[0-9]{1,3}(?:[,.  ][0-9]{3})+)")
_DECIMAL = re.compile(r"(?P<sign>[-−+]?)\s?(?P<number>[0-9]{1,3}(?:,[0-9]{3})*\.[0-9]{1,30}|[0-9]{0,30}\.[0-9]{1,30})")
_NUMBERS = re.compile(r"[0-9]+")
_LONGEST = 1_000  # characters of what is read so

ReadAs = Callable[[str, Language], str | None]


def say(text: str, kind: str, format: str, language: Language) -> str | None:
    """The words of `text`; None if it is not of that kind. `format` is for dates."""
    if len(text) > _LONGEST:
        return None
    if kind == "date" and format:
        return _date(text, format, language)
    return KINDS[kind](text.strip(), language)


def plain(text: str, language: Language) -> str:
    """`text` in words, as it would be read anywhere."""
    return spoken.speak(text, language)


def _spell(text: str, language: Language) -> str | None:
    return " ".join(filter(None, (_character(each, language) for each in text))) or None


def _character(each: str, language: Language) -> str:
    if each.isalpha() and each.isascii() and language in LETTERS_IN_DOTS:
        return english.letters(each, Dialect(british=language == languages.EN_GB))
    if each.isalpha():
        return each.upper() if len(each.upper()) == 1 else each
    words = plain(each, language).strip()
    return words if any(map(str.isalnum, words)) else ""


def _digits(text: str, language: Language) -> str | None:
    """Each digit by itself. Anything else is a pause between groups of them."""
    groups = _NUMBERS.findall(text)
    if not groups or any(map(str.isalpha, text)):
        return None
    plus = plain("+1", language).removesuffix(plain("1", language)) if text.startswith("+") else ""
    return plus + ", ".join(" ".join(plain(digit, language) for digit in group) for group in groups)


def _cardinal(text: str, language: Language) -> str | None:
    match = _WHOLE.fullmatch(text) or _DECIMAL.fullmatch(text)
    if not match:
        return None
    if language not in languages.ENGLISH:
        return plain(text, language)
    sign = {"": "", "+": "plus "}.get(match["sign"], "minus ")
    dialect = Dialect(british=language == languages.EN_GB)
    number = text[len(match["sign"]) :].strip()
    if match.re is _WHOLE:
        return sign + english.cardinal(int("".join(filter(str.isdecimal, number))), dialect)
    return sign + english.decimal(number, dialect)


def _ordinal(text: str, language: Language) -> str | None:
    match = _WHOLE.fullmatch(text.rstrip("stndrhºªe."))
    if not match or match["sign"]:
        return None
    number = int("".join(filter(str.isdecimal, match["digits"])))
    if language in languages.ENGLISH:
        return english.ordinal(number, Dialect(british=language == languages.EN_GB))
    return plain(_ORDINALS[language].format(number), language)


def _date(text: str, format: str, language: Language) -> str | None:
    """ISO's way of writing a date is read in every language."""
    parts = _NUMBERS.findall(text)
    if len(parts) != len(format) or any(map(str.isalpha, text)):
        return _by_rules("dates")(text, language)
    found = {letter: int(part) for letter, part in zip(format, parts, strict=True)}
    year, month, day = found.get("y"), found.get("m"), found.get("d")
    if not 1 <= (month or 1) <= 12 or not 1 <= (day or 1) <= 31:
        return None
    if year is not None and year < 100:
        year += 2000 if year < 70 else 1900
    if year is not None and month and day:
        return plain(f"{year:04}-{month:02}-{day:02}", language)
    return _part_of_date(year, month, day, language)


def _part_of_date(year: int | None, month: int | None, day: int | None, language: Language) -> str | None:
    if year is not None and not month:
        return english.year(year, _dialect(language)) if language in languages.ENGLISH else plain(str(year), language)
    whole = plain(f"{year or 2000:04}-{month or 1:02}-{day or 1:02}", language)
    if language not in languages.ENGLISH:
        return None
    missing = english.year(2000, _dialect(language)) if year is None else english.ordinal(1, _dialect(language))
    return " ".join(whole.replace(missing, "").replace("the  of ", "").split())


def _dialect(language: Language) -> Dialect:
    return Dialect(british=language == languages.EN_GB)


def _by_rules(kind: str) -> ReadAs:
    """The words of the rules of that kind; None if they do not claim the whole text, which then is not of that kind."""

    def read(text: str, language: Language) -> str | None:
        rules = spoken.ruleset(language).kinds.get(kind, [])
        claims = spoken.claims(text, language, kinds=(kind, "numbers", "symbols"))
        known = {rule.name for rule in rules}
        return spoken.apply(claims, Traced.of(text)).text if any(claim.rule in known for claim in claims) else None

    return read


def _telephone(text: str, language: Language) -> str | None:
    return _by_rules("phones")(text, language) if text[:1] == "+" else _digits(text, language)


KINDS: dict[str, ReadAs] = {
    "characters": _spell,
    "spell-out": _spell,
    "verbatim": _spell,
    "digits": _digits,
    "cardinal": _cardinal,
    "number": _cardinal,
    "ordinal": _ordinal,
    "date": _by_rules("dates"),
    "time": _by_rules("times"),
    "telephone": _telephone,
    "currency": _by_rules("money"),
    "fraction": _by_rules("maths"),
    "unit": _by_rules("units"),
    "address": plain,
}
