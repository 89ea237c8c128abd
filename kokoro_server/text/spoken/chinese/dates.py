"""Dates and times of day."""

from __future__ import annotations

from typing import Any

from kokoro_server.text.spoken.chinese.words import cardinal, count, decimal, digits
from kokoro_server.text.spoken.cjk import COLON, DASH, DATE, LEFT, RIGHT, SIXTY, YEAR, D, number_rule, plain
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, Where

_HOUR = r"(?:[01０１]?[0-9０-９]|[2２][0-4０-４])"
# With these a round number before 年 is a number of years.
_SPAN_OF_YEARS = r"年(?:的?历史|之久|多|时间|寿命|前(?!后)|不变|大计)"


def _number(text: str) -> str:
    return cardinal(int(plain(text)))


def _date(match: Any, _dialect: Dialect) -> SpokenWords:
    claims: list[tuple[Where, str]] = [
        ((match.start("year"), match.start("month")), f"{digits(plain(match['year']))}年"),
    ]
    if match["day"] is None:
        return [*claims, ("month", f"{_number(match['month'])}月")]
    middle = (match.start("month"), match.start("day"))
    return [*claims, (middle, f"{_number(match['month'])}月"), ("day", f"{_number(match['day'])}日")]


def _year(match: Any, _dialect: Dialect) -> SpokenWords:
    return [("year", digits(plain(match["year"])))]


def _years(match: Any, _dialect: Dialect) -> SpokenWords:
    return [("year", digits(plain(match["year"]))), ("dash", "到"), ("then", digits(plain(match["then"])))]


def _time(match: Any, _dialect: Dialect) -> SpokenWords:
    hour, minute, second = (plain(match[group] or "") for group in ("hour", "minute", "second"))
    words = f"{count(str(int(hour)))}点"
    if int(minute) or second:
        words += f"{_minutes(minute)}分"
    if second:
        words += f"{_minutes(second)}秒"
    return words


def _minutes(text: str) -> str:
    return f"零{cardinal(int(text))}" if 0 < int(text) < 10 else cardinal(int(text))


TIMES = [
    number_rule(
        "time",
        rf"{LEFT}(?P<hour>{_HOUR}){COLON}(?P<minute>{SIXTY})(?:{COLON}(?P<second>{SIXTY}))?+{RIGHT}(?!%)"
        rf"(?<!(?:比分|比例|大比分|比|以)[为是：: ]?[0-9０-９:：]{{1,8}})(?!\s?(?:获胜|战胜|击败|取胜|领先|落后|战平|"
        rf"险胜|大胜|的?比分))",
        _time,
        ":：∶",
    ),
    number_rule(
        "time",
        rf"{LEFT}(?P<hour>{D}{{1,2}})(?=[点时](?!{D}(?!{D})|间|分之))",
        lambda match, _dialect: [("hour", count(str(int(plain(match["hour"])))))],
        "点时",
    ),
    number_rule(
        "time",
        rf"{LEFT}(?<=[点时])(?P<minute>[0０][1-9１-９])(?=分)",
        lambda match, _dialect: _minutes(plain(match["minute"])),
        "点时",
    ),
]
DATES = [
    number_rule("date", DATE, _date),
    number_rule(
        "date",
        rf"{LEFT}(?<![A-Za-z])(?P<year>(?:19|20){D}{{2}})[-/](?P<month>0[1-9]|1[0-2])(?P<day>(?!))?{RIGHT}(?![-年月%])",
        _date,
        "-/",
    ),
    number_rule(
        "years", rf"{LEFT}(?P<year>{YEAR})(?P<dash>{DASH}{{1,2}})(?P<then>{YEAR})(?=年|赛季|学年|财年)", _years
    ),
    number_rule(
        "year",
        rf"{LEFT}(?P<year>{D}{{2}}[0０]{{2}})(?={_SPAN_OF_YEARS})",
        lambda match, _dialect: decimal(match["year"]),
        "年",
    ),
    number_rule(
        "year", rf"{LEFT}(?P<year>{YEAR}|[0０]{D}{{1,3}}|(?<=公元前?){D}{{3}})(?=(?:学年|财年|年)(?!级))", _year, "年"
    ),
    number_rule(
        "year",
        rf"{LEFT}(?P<year>[5-9５-９]{D})(?=年(?:{D}{{1,2}}月|出生|生|毕业|入学|参加|底|末|初|春|夏|秋|冬|世界杯))",
        _year,
        "年",
    ),
    number_rule("year", rf"{LEFT}(?P<year>[5-9][05]|0[05])(?=后(?![来续面期半者人]))", _year, "后"),
    number_rule(
        "date",
        rf"{LEFT}(?P<day>[0０]?{D}{{1,2}})(?=[月日号])",
        lambda match, _dialect: [("day", _number(match["day"]))],
        "月日号",
    ),
]
