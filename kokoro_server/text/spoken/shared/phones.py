"""Telephone numbers, and other long numbers that are read digit by digit."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken.matching import Dialect, Rule, SpokenWords, rule
from kokoro_server.text.spoken.patterns import SPACE
from kokoro_server.text.spoken.shared.patterns import D, number_rule
from kokoro_server.text.spoken.shared.table import LanguageTable

_GROUP = regex.compile(rf"\+|{D}+")
_LEFT = rf"(?<![\p{{L}}\p{{M}}\p{{N}}+])(?<!{D}[.,/-])"
_RIGHT = rf"(?![\p{{L}}\p{{M}}\p{{N}}%])(?![-.,/]{D})"
_SEP = r"[-. \xa0\u202f‑–/]"


def rules(table: LanguageTable) -> list[Rule]:
    def phone(match: Any, _dialect: Dialect) -> SpokenWords:
        said, country = list[str](), False
        for group in _GROUP.findall(match[0]):
            if group == "+":
                said.append(table.words.signs["+"])
                country = True
                continue
            in_words = country or (table.phone_pairs and len(group) == 2 and int(group[0]) > 0)
            said.append(table.count(int(group), "") if in_words and len(group) < 3 else table.digits(group))
            country = False
        return " ".join(said)

    pattern = table.words.patterns.phones.replace("D", D)
    return [
        rule(
            "phone number",
            rf"(?<![\p{{L}}\p{{N}}])\(?\+{D}{{1,3}}(?:{_SEP}?[()]?[ ]?{D}{{1,5}}\)?){{2,6}}{_RIGHT}",
            phone,
            "+",
        ),
        rule(
            "phone number", rf"(?<![\p{{L}}\p{{N}}])\({D}{{2,4}}\)[ ]?{D}{{3,5}}{_SEP}?{D}{{3,5}}{_RIGHT}", phone, "("
        ),
        number_rule("phone number", rf"{_LEFT}(?:{pattern}){_RIGHT}", phone),
        number_rule(
            "phone number",
            rf"{_LEFT}(?<=(?<!\p{{L}})(?:{table.words.patterns.before_phones}){SPACE}?:?{SPACE}?){D}{{2,5}}(?:{_SEP}{D}{{2,7}}){{1,5}}{_RIGHT}",
            phone,
        ),
        number_rule("digits", rf"{_LEFT}{D}{{4}}(?:[ -]{D}{{4}}){{3}}{_RIGHT}", phone),
        number_rule("digits", rf"{_LEFT}{D}{{9,}}(?<![0०]{{3}}){_RIGHT}", phone),
    ]
