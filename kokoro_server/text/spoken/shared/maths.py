"""Negative numbers, fractions, powers and dimensions. Other operators are signs."""

from __future__ import annotations

import unicodedata
from typing import Any

import regex

from kokoro_server.text.spoken.matching import Dialect, Rule, SpokenWords, rule
from kokoro_server.text.spoken.patterns import FORMULA, FORMULA_SIGNS, SPACE, any_of, formula_parts
from kokoro_server.text.spoken.shared.patterns import DIGITS, LEFT, WORD_END, D, noun_after, number_rule
from kokoro_server.text.spoken.shared.table import LanguageTable

_VULGAR = "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"


def rules(table: LanguageTable) -> list[Rule]:
    minus, plus = table.words.signs["-"], table.words.signs["+"]
    unit = any_of(table.words.units)

    def counted(match: Any) -> str:
        """The name of the unit after a fraction, or the noun."""
        measure = measures.match(match.string, match.end())
        return table.words.units[measure["unit"]].one if measure else noun_after(table, match)

    def fraction(match: Any, _dialect: Dialect) -> SpokenWords:
        upper, lower, noun = int(match["upper"]), int(match["lower"]), counted(match)
        if match["whole"]:
            return table.mixed(int(match["whole"]), upper, lower, noun)
        if (upper, lower) == (24, 7):
            return f"{table.count(24, '')} {table.count(7, '')}"
        said = None if lower in (10, 20, 100) and upper > 1 else table.fraction(upper, lower, noun)
        return said or f"{table.count(upper, '')} {table.words.phrases.over} {table.count(lower, '')}"

    def vulgar(match: Any, _dialect: Dialect) -> SpokenWords:
        upper, lower = map(int, unicodedata.normalize("NFKC", match["sign"]).split("⁄"))
        noun = counted(match)
        if match["whole"]:
            return table.mixed(int(match["whole"]), upper, lower, noun)
        return table.fraction(upper, lower, noun)

    def power(match: Any, _dialect: Dialect) -> SpokenWords:
        exponent = unicodedata.normalize("NFKC", match[0])
        words = table.integer(exponent.lstrip("−+"))
        return (
            f"{table.words.signs['^']} {minus} {words}" if exponent[0] == "−" else f"{table.words.signs['^']} {words}"
        )

    def formula(match: Any, _dialect: Dialect) -> SpokenWords:
        marks = {".": table.words.phrases.point, "+": plus, "−": minus}
        parts = formula_parts(match)
        said = (
            marks.get(part) or (table.spell(part.upper()) if part.isalpha() else table.integer(part)) for part in parts
        )
        return " ".join(said) or None

    def charge(match: Any, _dialect: Dialect) -> SpokenWords:
        return plus if match[0] == "⁺" else minus

    def dimensions(match: Any, _dialect: Dialect) -> SpokenWords:
        return [("by", table.words.phrases.by if measured.match(match.string, match.end()) else table.words.signs["×"])]

    measures = regex.compile(rf"{SPACE}?(?P<unit>{unit}){WORD_END}")
    measured = regex.compile(rf"{SPACE}?{D}[{DIGITS}.,]*{SPACE}?(?:[x×X]|(?:{unit}){WORD_END})")
    found = [
        rule("formula", FORMULA, formula, FORMULA_SIGNS),
        rule("charge", r"(?<=[\p{L}\p{N}])[⁺⁻](?![⁰¹²³⁴-⁹])", charge, "⁺⁻"),
        rule("fraction", rf"(?:{LEFT}(?P<whole>{D}{{1,3}}){SPACE}?)?(?P<sign>[{_VULGAR}])", vulgar, _VULGAR),
        number_rule(
            "fraction",
            rf"{LEFT}(?:(?P<whole>{D}{{1,3}}){SPACE})?(?P<upper>{D}{{1,3}})[/⁄](?P<lower>{D}{{1,3}}){WORD_END}"
            rf"(?![/.,:]{D}|/)",
            fraction,
            "/⁄",
        ),
        # Before the number, after nothing that it could be taken from.
        rule(
            "minus",
            rf"(?<![\p{{L}}\p{{M}}\p{{N}})\]%°€$£*_-])[-−–‑](?=(?:{any_of(table.words.currencies)})?{SPACE}?{D})(?!{SPACE}[-–])",
            lambda match, _dialect: None if match.string[match.end()].isspace() and match[0] != "−" else minus,
            "-−–‑",
            DIGITS,
        ),
        rule(
            "minus",
            rf"(?<={D}{SPACE})[-–](?={SPACE}{D}[^=\n]{{0,30}}=)|(?<==[^=\n]{{1,30}}{D}{SPACE})[-–](?={SPACE}{D})",
            minus,
            "=",
            "-–",
            DIGITS,
        ),
        rule("plus", rf"\+(?={SPACE}?{D})", plus, "+", DIGITS),
        rule(
            "dimensions",
            rf"(?P<by>[x×X*])(?<={D}(?:{SPACE}?(?:{unit}))?{SPACE}?[x×X*])(?={SPACE}?{D})",
            dimensions,
            "x×X*",
            DIGITS,
        ),
        rule("power", r"(?<=[\p{L}\p{N})])(?![²³](?![⁰¹²³⁴-⁹]))[⁻⁺]?[⁰¹²³⁴-⁹]+", power, "⁰¹²³⁴⁵⁶⁷⁸⁹"),
        rule("power", r"\^\{?2\}?(?![0-9])", table.words.signs["²"], "^"),
        rule("power", r"\^\{?3\}?(?![0-9])", table.words.signs["³"], "^"),
        rule(
            "ratio",
            rf"(?<={LEFT}{D}{{1,6}}{SPACE}?):(?={SPACE}?{D}{{1,3}}(?:[. ]{D}{{3}})*+{WORD_END})",
            table.words.phrases.ratio,
            ":",
            DIGITS,
        ),
    ]
    if table.words.phrases.score:
        found.insert(
            0,
            rule(
                "score",
                rf"(?<=(?:\p{{Lu}}\p{{L}}+|por|placar|de|em){SPACE}{D}{{1,2}}{SPACE}?)[x×X](?={SPACE}?{D}{{1,2}}{WORD_END}"
                rf"(?!{SPACE}?(?:{unit}){WORD_END}))",
                table.words.phrases.score,
                "x×X",
                DIGITS,
            ),
        )
    return found
