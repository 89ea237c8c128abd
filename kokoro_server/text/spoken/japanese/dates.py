"""Dates and times of day."""

from __future__ import annotations

from typing import Any

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.cjk import COLON, DATE, DAY, LEFT, MONTH, RIGHT, SIXTY, D, number_rule, plain
from kokoro_server.text.spoken.japanese.counters import COUNTERS, DAY_OF_MONTH
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule

_HOUR = r"(?:[01０１]?[0-9０-９]|[2２][0-9０-９])"


_WEEKDAYS = vocabulary.load("japanese").words("weekdays")


def _number(text: str) -> int:
    return int(plain(text))


def _date(match: Any, _dialect: Dialect) -> SpokenWords:
    year = (match.start("year"), match.start("month"))
    month = (match.start("month"), match.start("day"))
    return [
        (year, COUNTERS["年"].say(_number(match["year"]))),
        (month, COUNTERS["月"].say(_number(match["month"]))),
        ((match.start("day"), match.end()), DAY_OF_MONTH.say(_number(match["day"]))),
    ]


def _month_and_day(match: Any, _dialect: Dialect) -> SpokenWords:
    return [
        ((match.start("month"), match.start("day")), COUNTERS["月"].say(_number(match["month"]))),
        ("day", DAY_OF_MONTH.say(_number(match["day"]))),
    ]


def _time(match: Any, _dialect: Dialect) -> SpokenWords:
    words = COUNTERS["時"].say(_number(match["hour"]))
    if _number(match["minute"]) or match["second"]:
        words += f" {COUNTERS['分'].say(_number(match['minute']))}"
    if match["second"]:
        words += f" {COUNTERS['秒'].say(_number(match['second']))}"
    return words


TIMES = [
    number_rule(
        "time",
        rf"{LEFT}(?P<hour>{_HOUR}){COLON}(?P<minute>{SIXTY})(?:{COLON}(?P<second>{SIXTY}))?+{RIGHT}"
        rf"(?<!(?:スコア|比|比率)[はがの：: ]?[0-9０-９:：]{{1,8}})(?!\s?(?:で勝|で敗|で負|の割合|の比))",
        _time,
        ":：∶",
    ),
]
DATES = [
    number_rule("date", DATE, _date),
    number_rule(
        "date",
        rf"{LEFT}(?P<month>{MONTH})[/／](?P<day>{DAY})(?=\s?[(（][月火水木金土日祝][)）・,、]|の?\s?(?:午前|午後|{D}{{1,2}}(?:[:：]{D}{{2}}|時)))",
        _month_and_day,
        "/／",
    ),
    number_rule(
        "date",
        rf"{LEFT}(?<=月{D}{{0,2}}[〜～~・、-]?)(?P<day>{DAY})日(?![間目])",
        lambda match, _dialect: DAY_OF_MONTH.say(_number(match["day"])),
        "日",
    ),
    rule(
        "weekday",
        rf"(?<=日\s?|/{D}{{1,2}}\s?)[(（](?P<weekday>[月火水木金土日])(?=[)）・])",
        lambda match, _dialect: [("weekday", f"{_WEEKDAYS[match['weekday']]}ようび")],
        "(（",
    ),
]
