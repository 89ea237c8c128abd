"""Sums, fractions, ratios, scores and ranges."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.chinese.words import cardinal, count, decimal
from kokoro_server.text.spoken.cjk import (
    COLON,
    DASH,
    DASHES,
    LEFT,
    MINUS,
    MINUSES,
    NUMBER,
    RIGHT,
    SLASH,
    SPACE,
    D,
    exponent,
    formula,
    number_rule,
    versus,
    vulgar,
)
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import VULGAR_FRACTIONS

_WON = r"(?:获胜|取胜|胜出|战胜|击败|打败|大胜|险胜|力克|不敌|战平|逼平|领先|落后|告负|的?比分|负于|完胜)"
_OPERAND = r"[\p{Latin}\p{Greek}0-9０-９)）\]²³%!]"
_NEXT = r"[\p{Latin}\p{Greek}0-9０-９(（\[√$-]"
_EQUALS = regex.compile(r"[=＝]")
_SUM_AFTER = r"(?=[ 0-9０-９.()+×÷*/\-xy]{1,40}[=＝≈])"
_versus = versus(decimal, "比")
_SIGNS = vocabulary.load("chinese").words("operators")


def _fraction(match: Any, _dialect: Dialect) -> SpokenWords:
    above, below = match["above"], match["below"]
    return f"{decimal(below)}分之{decimal(above)}" if int(below) else None


def _vulgar(match: Any, _dialect: Dialect) -> SpokenWords:
    above, below = vulgar(match)
    words = f"{cardinal(below)}分之{cardinal(above)}"
    return f"{decimal(match['whole'])}又{words}" if match["whole"] else words


def _power(match: Any, _dialect: Dialect) -> SpokenWords:
    power = exponent(match)
    if power in ("2", "3"):
        return [("power", "平方" if power == "2" else "立方")]
    if power.lstrip("-").isdecimal():
        return [("power", f"的{'负' * power.startswith('-')}{cardinal(int(power.lstrip('-')))}次方")]
    return [("power", f"的{power}次方")]


MATHS = [
    formula(decimal, {".": "点", "+": "正", "−": "负"}),
    rule(
        "power",
        r"(?<=[\p{Latin}\p{Greek}0-9０-９)）])(?P<power>[⁻]?[⁰¹²³⁴-⁹]++|\^[-−]?(?:[0-9]{1,4}|[a-z]))",
        _power,
        "⁻⁰¹²³⁴⁵⁶⁷⁸⁹^",
    ),
    rule("minus", rf"(?<=[0-9０-９)xy]{SPACE}?){MINUS}{_SUM_AFTER}", "减", MINUSES, _EQUALS),
    rule("minus", rf"(?<=[=＝][0-9０-９.()+×÷*/ ]{{1,20}}){MINUS}(?={SPACE}?{D})", "减", MINUSES, _EQUALS),
    rule("minus", rf"(?<={D})[−](?={D})", "减", "−"),
    rule("plus", rf"(?<![\p{{L}}{D[1:-1]}+＋)）])[+＋](?={D})", "正", "+＋"),
    rule("sum", rf"(?<={_OPERAND}{SPACE}?)[+＋](?={SPACE}?{_NEXT})", "加", "+＋"),
    rule(
        "times",
        rf"(?<={D}{SPACE}?)[*＊xX](?={SPACE}?{D})|(?<=[\p{{Latin}}0-9]{SPACE})[*＊](?={SPACE}[\p{{Latin}}0-9])",
        "乘以",
        "*＊xX",
    ),
    rule("divided", rf"(?<={D}{SPACE})/(?={SPACE}{D})", "除以", "/"),
    rule(
        "maths",
        rf"[{''.join(_SIGNS).replace('+', '').replace('＋', '')}]",
        lambda match, _dialect: _SIGNS[match[0]],
        "×✕✖÷=＝≠≈≥≤≧≦>＞<＜±≡∈∝",
    ),
    rule("fraction", rf"(?P<whole>{D}++)?{SPACE}?(?P<sign>[{VULGAR_FRACTIONS}])", _vulgar, VULGAR_FRACTIONS),
    number_rule(
        "fraction",
        rf"{LEFT}(?<![\p{{Latin}}])(?P<above>{D}{{1,4}}){SLASH}(?P<below>{D}{{1,4}}){RIGHT}(?![\p{{Latin}}])",
        _fraction,
        "/／",
    ),
]
RANGES = [
    number_rule("ratio", rf"{LEFT}{NUMBER}(?:{SPACE}?{COLON}{SPACE}?{NUMBER}){{1,4}}+(?!{D})", _versus, ":：∶"),
    number_rule(
        "score",
        rf"{LEFT}{D}{{1,3}}[-–—－]{D}{{1,3}}(?:(?={SPACE}?{_WON})|(?<=(?:比分|大比分|"
        rf"以)[是为：: ]?{D}{{1,3}}.{D}{{1,3}})"
        rf"(?![-.0-9个天人元年月%％]))",
        _versus,
        "-–—－",
    ),
    number_rule(
        "range",
        rf"{LEFT}(?P<first>[2２])(?P<dash>{DASH})(?={D}{{1,2}}[^\W\d_A-Za-z月日号])(?<!第..)",
        lambda match, _dialect: [("first", count(match["first"])), ("dash", "到")],
        DASHES,
    ),
    rule(
        "range",
        rf"(?<=[0-9０-９%％‰°℃℉㎡][个]?|[0-9０-９]{SPACE}?[a-zA-Zμ]{{1,4}}[²³]?|"
        rf"[0-9０-９][\p{{Han}}]{{1,3}}){SPACE}?{DASH}{{1,2}}{SPACE}?(?=[$¥￥€£第]?{D})",
        "到",
        DASHES,
    ),
    rule(
        "range",
        r"(?<=\p{Han})[~～〜∼](?=\p{Han})|(?<=[周期][一二三四五六日天])[-–—－](?=周|星期|[一二三四五六日天])",
        "到",
        DASHES,
    ),
]
