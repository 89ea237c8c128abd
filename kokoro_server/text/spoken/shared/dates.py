"""Dates in figures, and days and months with their abbreviations."""

from __future__ import annotations

import re
from typing import Any

from kokoro_server.text.spoken.matching import Dialect, Rule, SpokenWords, Where, rule
from kokoro_server.text.spoken.patterns import DASH, SPACE, any_of
from kokoro_server.text.spoken.shared.patterns import DIGITS, LEFT, WORD_END, D, number_rule
from kokoro_server.text.spoken.shared.table import LanguageTable

_LEFT = rf"(?<![\p{{L}}\p{{M}}\p{{N}}])(?<!{D}[.,:/-])"


def rules(table: LanguageTable) -> list[Rule]:
    words, joint = table.words, table.words.phrases.of_date
    months = {name: index for index, name in enumerate(words.months, 1)}
    months |= {name.capitalize(): index for name, index in months.items()}
    short = dict(words.short_months) | {name.capitalize(): index for name, index in words.short_months.items()}
    month = rf"(?:{any_of(months)}|(?:{any_of(short)})(?![\p{{L}}\p{{M}}])\.?)"
    known = months | short
    apart = f" {joint} " if joint else " "

    def day(number: int) -> str:
        return words.phrases.first_day if number == 1 else table.count(number, "")

    def say(day_: int, month_: int, year: int | None) -> str | None:
        if not (1 <= day_ <= 31 and 1 <= month_ <= 12):
            return None
        said = f"{day(day_)}{apart}{words.months[month_ - 1]}"
        return said if year is None else f"{said}{apart}{table.year(year, '')}"

    def numeric(match: Any, _dialect: Dialect) -> SpokenWords:
        year = match["year"]
        if year is not None and len(year) == 2:
            year = str(2000 + int(year) if int(year) < 50 else 1900 + int(year))
        first, second = int(match["day"]), int(match["month"])
        if first <= 12 < second:
            first, second = second, first
        return say(first, second, int(year) if year else None)

    def named(match: Any, _dialect: Dialect) -> SpokenWords:
        """Claims for day, month and year. A claim adds the word between them, `de`, where the text leaves it out."""
        claims: list[tuple[Where, str]] = []
        if match["day"]:
            if not 1 <= int(match["day"]) <= 31:
                return None
            claims.append(("day", day(int(match["day"]))))
        name = words.months[known[match["name"].rstrip(".")] - 1]
        is_short = match["name"].rstrip(".") in short
        before = f"{joint} " if joint and match["day"] and not match["of"] else ""
        if is_short or before:
            claims.append(("name", before + (name if is_short else match["name"])))
        if match["year"]:
            before = f"{joint} " if joint and not match["then"] else ""
            claims.append(("year", before + table.year(int(match["year"]), "")))
        return claims or None

    def season(match: Any, _dialect: Dialect) -> SpokenWords:
        second = match["second"]
        return [
            ("first", table.year(int(match["first"]), "")),
            ("dash", " "),
            ("second", table.integer(second) if second[0] in "0०" else table.count(int(second), "")),
        ]

    of = r"(?P<of>de|di|d['’])" if joint else r"(?P<of>(?!))"
    then = r"(?P<then>del?|do)" if joint else r"(?P<then>(?!))"
    return [
        number_rule(
            "date",
            rf"{_LEFT}(?P<year>[12१२]{D}{{3}})(?P<sep>[-/.‑])(?P<month>{D}{{1,2}})(?P=sep)(?P<day>{D}{{1,2}})"
            rf"(?:(?=T{D}{{2}}:)|(?![\p{{L}}\p{{M}}\p{{N}}]|[-/.]{D}))",
            numeric,
        ),
        number_rule(
            "date",
            rf"{_LEFT}(?P<day>{D}{{1,2}})(?P<sep>[-/.])(?P<month>{D}{{1,2}})(?P=sep)(?P<year>[12१२]{D}{{3}}|"
            rf"(?<=/){D}{{2}})(?![\p{{L}}\p{{M}}\p{{N}}]|[-/]{D})",
            numeric,
        ),
        number_rule(
            "date",
            rf"(?<=(?<!\p{{L}})(?i:{words.patterns.before_dates}),?{SPACE})(?P<day>{D}{{1,2}})/(?P<month>{D}{{1,2}})(?P<year>(?!))?"
            rf"(?![\p{{L}}\p{{M}}\p{{N}}/%]|[.,:-]{D}|{SPACE}(?:de|del|d[aeo]s?|dei|delle|des|du){SPACE})",
            numeric,
            "/",
        ),
        number_rule(
            "date",
            rf"{LEFT}(?:(?P<day>{D}{{1,2}})(?:{SPACE}{of})?(?:{SPACE}|-))(?P<name>{month}){WORD_END}"
            rf"(?:(?:,?{SPACE}{then})?(?:,?{SPACE}|-)(?P<year>[12१२]{D}{{3}}){WORD_END}(?![.,:/]{D}))?",
            named,
        ),
        rule(
            "date",
            rf"(?<![\p{{L}}\p{{M}}\p{{N}}])(?P<day>(?!))?(?P<of>(?!))?(?P<name>(?:{any_of(short)})\.|{any_of(months)})"
            rf"{SPACE}(?:{then}{SPACE})?(?P<year>[12१२]{D}{{3}}){WORD_END}(?![.,:/]{D})",
            lambda match, dialect: named(match, dialect) if match["name"].rstrip(".") in short else None,
            DIGITS,
            re.compile(any_of(short)),
        ),
        number_rule(
            "date",
            rf"{_LEFT}(?P<day>0[1-9]|1[3-9]|2{D}|3[01])/(?P<month>0[1-9]|1[0-2])(?P<year>(?!))?(?![\p{{L}}\p{{M}}\p{{N}}/%]|[.,:-]{D})",
            numeric,
            "/",
        ),
        rule(
            "year",
            rf"(?<![\p{{L}}\p{{N}}])['’‘](?P<year>{D}{{2}})(?![\p{{L}}\p{{M}}\p{{N}}'’])",
            lambda match, _dialect: table.integer(match["year"]),
            "'’‘",
            DIGITS,
        ),
        number_rule(
            "season",
            rf"{LEFT}(?P<first>(?:1[5-9]|20){D}{{2}})(?P<dash>{DASH}|/)(?P<second>{D}{{2}}){WORD_END}(?![-.,/–]{D})",
            season,
        ),
        rule("T", rf"(?<={D}{{2}})T(?={D}{{2}}:)", " ", "T", DIGITS),
    ]
