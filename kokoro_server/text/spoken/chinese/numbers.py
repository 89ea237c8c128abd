"""Numbers that no other rule has read: names, counts of things, cardinals."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.chinese.words import cardinal, count, decimal, digits
from kokoro_server.text.spoken.cjk import (
    LEFT,
    MINUS,
    MINUSES,
    NUMBER,
    SPACE,
    WIDE_DIGITS,
    D,
    number_rule,
    plain,
    roman,
    version,
)
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule

# Two of these are 两, as 第2 and 2月 are not.
_MEASURE = vocabulary.load("chinese").pattern("measures")
_NAMED = (
    r"(?:电话|手机|号码|热线|传真|邮编|密码|验证码|卡号|账号|编号|学号|工号|尾号|订单号?|单号|分机|转|车牌|"
    r"身份证号?码?|QQ群?|微信|拨打|致电|拨|请打|房间)"
    r"号?(?:码)?[是为:： ]{0,3}"
)
_ONE = "幺"


def _phone(match: Any, _dialect: Dialect) -> SpokenWords:
    plus = "加" if match[0][0] in "+＋" else ""
    return plus + ",".join(
        digits(plain(part), _ONE) for part in regex.split(r"[^0-9０-９]+", match[0].strip("+＋(")) if part
    )


def _code(match: Any, _dialect: Dialect) -> SpokenWords:
    """The number in a name: by its digits if it is long."""
    text = plain(match["number"])
    return digits(text) if len(text) > 2 or text[0] == "0" else cardinal(int(text))


def _roman(match: Any, _dialect: Dialect) -> SpokenWords:
    number = roman(match["roman"])
    return None if not number else cardinal(number)


PHONES = [
    rule(
        "phone number",
        rf"(?<![\p{{Latin}}0-9０-９.])(?:[+＋]{D}{{1,3}}[ -]?)?(?:[(（]?0{D}{{2,3}}[)）]?[- ]?{D}{{7,8}}|"
        rf"1[3-9]{D}(?:[- ]?{D}{{4}}){{2}}|"
        rf"[48]00[- ]?{D}{{3,4}}[- ]?{D}{{3,4}}|[+＋]{D}{{1,3}}(?:[- ]{D}{{2,5}}){{2,5}})(?![0-9０-９.])"
        rf"(?![元人个万亿])",
        _phone,
        WIDE_DIGITS,
    ),
    number_rule(
        "number by digits", rf"{LEFT}(?<={_NAMED})(?P<number>{D}{{3,}}+)(?![.．,]{D}|[个人元块万亿年月天次岁%])", _phone
    ),
    # Numbers that everyone knows.
    number_rule(
        "number by digits",
        rf"{LEFT}(?P<number>110|119|120|122|12306|12315|12345|12348|12333|10086|10010|10000|95[0-9]{{3}})"
        rf"(?<=(?:打|拨|{_NAMED}(?:[0-9]{{3,12}}(?:或者?|和|及|、|/)){{1,3}})[0-9]{{3,5}})(?![0-9.]|[个人元块万亿年月天次岁米分%])",
        _phone,
    ),
    number_rule(
        "number by digits", rf"{LEFT}(?P<number>11[0-9]|12[0-9]|999|911)(?=报警|急救|火警|热线|电话|指挥中心)", _phone
    ),
]
IDENTIFIERS = [
    version(decimal, "点"),
    rule(
        "code",
        rf"(?<=\p{{Latin}})(?P<hyphen>[-‐‑])?(?P<number>{D}{{1,20}})(?!{D}|[.．,]{D})",
        lambda match, dialect: [("hyphen", " "), ("number", str(_code(match, dialect)))],
        WIDE_DIGITS,
        at=regex.compile(rf"(?<=\p{{Latin}})[-‐‑]?(?={D})"),
    ),
    number_rule(
        "number by digits",
        rf"{LEFT}(?P<number>{D}{{3,4}})(?=室|房(?!间|子|屋|东)|号房|国道|省道|县道|次列车|航班)",
        _code,
        "室房国省县次航",
    ),
    number_rule("number by digits", rf"{LEFT}(?P<number>{D}{{3}})(?=路(?:公交|车|汽车)?)", _code, "路"),
    number_rule("number by digits", rf"{LEFT}(?P<number>{D}{{3,4}})(?=[pP](?![A-Za-z]))", _code, "pP"),
    rule(
        "hyphen",
        rf"(?<=[歼轰运直苏米风鹰\p{{Latin}}])[-‐‑](?={D})|(?<={D})[-‐‑](?=\p{{Latin}})",
        " ",
        "-‐‑",
        WIDE_DIGITS,
    ),
]
ROMAN = [
    rule("Roman numeral", r"(?P<roman>[Ⅰ-Ⅿⅰ-ⅿ]++)", _roman, regex.compile(r"[Ⅰ-Ⅿⅰ-ⅿ]")),
    rule(
        "Roman numeral",
        r"(?<=第|\p{Han})(?P<roman>[IVX]{1,7})(?=[章节世期型级卷部篇阶类度届集回册]|世纪)",
        _roman,
        "IVX",
    ),
]
COUNTS = [
    number_rule(
        "count",
        rf"{LEFT}(?<!第{SPACE}?|[\p{{Latin}}])(?P<number>[2２])(?={SPACE}?(?:{_MEASURE}))",
        lambda match, _dialect: [("number", count(match["number"]))],
        "2２",
    ),
]
NUMBERS = [
    rule("minus", rf"(?<![\p{{Latin}}0-9０-９)）]){MINUS}(?=[$¥￥€£]?{D})", "负", MINUSES),
    number_rule("number", rf"(?<!{D})(?P<number>{NUMBER})", lambda match, _dialect: decimal(match["number"])),
    rule(
        "decimal",
        rf"(?<!{D})[.．](?P<number>{D}++)",
        lambda match, _dialect: f"零点{digits(plain(match['number']))}",
        ".．",
        WIDE_DIGITS,
    ),
]
