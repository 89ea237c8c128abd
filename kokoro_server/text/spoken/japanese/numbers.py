"""Phone numbers, counted things, fractions, ranges, names with numbers, and the numbers that are left."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
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
    WIDE_DIGITS,
    D,
    number_rule,
    plain,
    roman,
    version,
    versus,
    vulgar,
)
from kokoro_server.text.spoken.japanese import amounts
from kokoro_server.text.spoken.japanese.amounts import AMOUNT
from kokoro_server.text.spoken.japanese.counters import COUNTERS
from kokoro_server.text.spoken.japanese.words import cardinal, decimal, digits
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import VULGAR_FRACTIONS, any_of

_COUNTER = any_of(COUNTERS)
_FILE = vocabulary.load("japanese")
_SUFFIXES = _FILE.words("suffixes")
_SUFFIX = (
    rf"(?P<suffix>目|(?<=[人回本])中(?={D})|(?<=[日週年月回])間|(?<=[年月日週間分秒時])[後前](?!\p{{Han}})|"
    rf"半(?!\p{{Han}}))?+"
)
_ENGLISH = _FILE.words("english_numbers")
_KANJI_DIGITS = str.maketrans("〇零一二三四五六七八九", "00123456789")
_WON = r"(?:勝|敗|負|下し|破|快勝|リード|引き分け|制し)"
_versus = versus(decimal, "たい")


def _phone(match: Any, _dialect: Dialect) -> SpokenWords:
    groups = [digits(plain(part)) for part in regex.split(r"[^0-9０-９]+", match["number"]) if part]
    plus = "プラス " if match["number"][0] in "+＋" else ""
    return [("mark", "郵便番号"), ("number", plus + " の ".join(groups))]


def _counted(match: Any, _dialect: Dialect) -> SpokenWords:
    name = match["counter"]
    counter = COUNTERS[name]
    number = amounts.value(match["amount"])
    if name[0] == "つ" and number not in counter.whole:
        return None
    if name == "月" and (number is None or not 1 <= number <= 12):
        return None
    words = "ひゃくとおばん" if (name, number) == ("番", 110) else amounts.say(match["amount"], counter)
    return words + _SUFFIXES.get(match["suffix"] or "", "")


def _clock(match: Any, _dialect: Dialect) -> SpokenWords:
    """08分, 05秒."""
    return COUNTERS[match["counter"]].say(int(plain(match["amount"])))


def _vulgar(match: Any, _dialect: Dialect) -> SpokenWords:
    above, below = vulgar(match)
    words = f"{cardinal(below)}ぶんの {cardinal(above)}"
    return f"{decimal(match['whole'])}と {words}" if match["whole"] else words


def _about(match: Any, _dialect: Dialect) -> SpokenWords:
    """2、3日: two or three days, without a pause, and not the third of the month."""
    low, high = int(plain(match["low"])), int(plain(match["high"]))
    if high != low + 1:
        return None
    name = match["counter"]
    words = cardinal(high) + {"日": "にち", "人": "にん"}[name] if name in "日人" else COUNTERS[name].say(high)
    return [((match.start("low"), match.start("high")), cardinal(low)), ((match.start("high"), match.end()), words)]


def _kanji_digits(match: Any, _dialect: Dialect) -> SpokenWords:
    plain_digits = match["digits"].translate(_KANJI_DIGITS)
    return COUNTERS["年"].say(int(plain_digits)) if match["year"] else digits(plain_digits)


def _english(match: Any, _dialect: Dialect) -> SpokenWords:
    number = regex.search(r"[0-9.]+", match.string, pos=match.start(), endpos=match.end())
    return [(number.span(), _ENGLISH[match[0]])]


def _code(match: Any, _dialect: Dialect) -> SpokenWords:
    """The number in a name: by its digits if it is long."""
    text = plain(match["number"])
    return [("hyphen", " "), ("number", digits(text) if len(text) > 2 or text[0] == "0" else cardinal(int(text)))]


def _roman(match: Any, _dialect: Dialect) -> SpokenWords:
    number = roman(match["roman"])
    if not number:
        return None
    return COUNTERS[match["counter"]].say(number) if match["counter"] else cardinal(number)


PHONES = [
    rule(
        "phone number",
        rf"(?<![\p{{Latin}}0-9０-９.-])(?P<mark>〒{SPACE}?)?(?P<number>(?<=〒{SPACE}?|"
        rf"郵便番号[はが：: ]?){D}{{3}}[-‐－ー]?{D}{{4}}|"
        rf"[+＋]{D}{{1,3}}(?:[- ]{D}{{1,4}}){{2,4}}|[(（]?0{D}{{1,4}}[)）]?[-‐－ ]{D}{{1,4}}[-‐－ ]{D}{{3,4}}|"
        rf"0{D}{{1,4}}[(（]{D}{{1,4}}[)）]{D}{{4}}|[(（]0{D}{{1,4}}[)）]{D}{{1,4}}[-‐－]{D}{{4}}|0{D}{{9,10}})(?!{D})",
        _phone,
        WIDE_DIGITS,
    ),
    number_rule(
        "number by digits",
        rf"{LEFT}(?<=(?:電話|電話番号|暗証番号|番号|パスワード|コード|内線|"
        rf"口座番号)[はがの：: ]{{0,2}})(?P<mark>(?!))?(?P<number>{D}{{3,}}+)(?![.,]{D}|[個人円番号室])",
        _phone,
    ),
]
COUNTS = [
    number_rule(
        "about", rf"{LEFT}(?P<low>[1-8１-８])[、,，](?P<high>[2-9２-９])(?P<counter>{_COUNTER})", _about, "、,，"
    ),
    rule("year", r"(?P<digits>[一二三四五六七八九][〇零一二三四五六七八九]{3})(?P<year>年)", _kanji_digits, "〇零"),
    rule("digits", r"(?P<digits>[一二三四五六七八九]*+〇[〇一二三四五六七八九]*+)(?P<year>(?!))?", _kanji_digits, "〇"),
    rule("share", rf"(?<=割)(?P<number>{D})分", lambda match, _dialect: f"{decimal(match['number'])}ぶ", "割"),
    number_rule(
        "fraction",
        rf"{LEFT}(?P<below>(?P<b>{D}++)分の)(?P<above>{NUMBER})",
        lambda match, _dialect: [("below", f"{decimal(match['b'])}ぶんの"), ("above", decimal(match["above"]))],
        "分",
    ),
    number_rule(
        "fraction",
        rf"{LEFT}(?P<b>{D}++)分の(?=[一二三四五六七八九])",
        lambda match, _dialect: f"{decimal(match['b'])}ぶんの",
        "分",
    ),
    number_rule("time", rf"{LEFT}(?P<amount>[0０]{D})(?P<counter>[月日時分秒])(?!の{D})", _clock, "月日時分秒"),
    number_rule("counter", rf"{LEFT}(?P<amount>{AMOUNT}){SPACE}?(?P<counter>{_COUNTER}){_SUFFIX}", _counted),
]
MATHS = [
    rule("fraction", rf"(?P<whole>{D}++)?{SPACE}?(?P<sign>[{VULGAR_FRACTIONS}])", _vulgar, VULGAR_FRACTIONS),
    number_rule(
        "fraction",
        rf"{LEFT}(?<![\p{{Latin}}])(?P<above>{D}{{1,4}}){SLASH}(?P<below>[1-9１-９]{D}{{0,3}}){RIGHT}(?![\p{{Latin}}])",
        lambda match, _dialect: f"{decimal(match['below'])}ぶんの {decimal(match['above'])}",
        "/／",
    ),
]
IDENTIFIERS = [
    version(decimal, " てん "),
    rule(
        "name with a number",
        rf"(?<![A-Za-z0-9])(?:{any_of(_ENGLISH)})(?![a-z0-9])",
        _english,
        WIDE_DIGITS,
        regex.compile(r"[A-Z][0-9]|[0-9][A-Z]"),
    ),
    rule(
        "code",
        rf"(?P<hyphen>[-‐‑])?(?P<number>{D}{{1,20}})(?!{D}|[.．,]{D})",
        _code,
        WIDE_DIGITS,
        at=regex.compile(rf"(?<=\p{{Latin}})[-‐‑]?(?={D})"),
    ),
    rule("hyphen", rf"(?<=\p{{Latin}})[-‐‑](?={D})|(?<={D})[-‐‑](?=\p{{Latin}})", " ", "-‐‑", WIDE_DIGITS),
]
RANGES = [
    number_rule(
        "score",
        rf"{LEFT}{D}{{1,3}}(?:{COLON}|[-–－]){D}{{1,3}}(?=で[^。、，0-9０-９\n]{{0,12}}?{_WON})",
        _versus,
        ":：-–－",
    ),
    number_rule("ratio", rf"{LEFT}{NUMBER}(?:{SPACE}?{COLON}{SPACE}?{NUMBER}){{1,4}}+(?!{D})", _versus, ":：∶"),
    # A house: 千代田区1-2-3.
    rule(
        "address",
        rf"(?<=[都道府県市区町村郡目台][\p{{Han}}\p{{Hiragana}}\p{{Katakana}}]{{0,8}}{D}{{1,4}}(?:{DASH}{D}{{1,4}})?){DASH}(?={D}{{1,4}}(?!{D}|[年月日時分人個円%]))"
        rf"(?<=(?:[都道府県市区町村].{{0,14}}){DASH})",
        "の",
        DASHES,
        "都道府県市区町村",
    ),
    rule(
        "range",
        rf"(?<=[0-9０-９%％‰°℃℉㎡]|[0-9０-９]{SPACE}?[a-zA-Zμ]{{1,4}}[²³]?|"
        rf"[0-9０-９][万億千百]?[\p{{Han}}ヶカか円つ]{{1,3}}|ドル|ユーロ){SPACE}?{DASH}{{1,2}}{SPACE}?"
        rf"(?=[$¥￥€£第約]?{D})",
        "から",
        DASHES,
    ),
    rule("range", r"(?<=[\p{Han}\p{Katakana}\p{Hiragana}])[~～〜∼](?=[\p{Han}\p{Katakana}])", "から", DASHES),
]
ROMAN = [
    rule("Roman numeral", rf"(?P<roman>[Ⅰ-Ⅿⅰ-ⅿ]++)(?P<counter>{_COUNTER})?+", _roman, regex.compile(r"[Ⅰ-Ⅿⅰ-ⅿ]")),
    rule(
        "Roman numeral",
        r"(?<=第|[\p{Han}\p{Katakana}ー])(?P<roman>[IVX]{1,7})(?P<counter>世紀|[章節世期級巻部編類])",
        _roman,
        "IVX",
    ),
]
NUMBERS = [
    rule("minus", rf"(?<![\p{{Latin}}0-9０-９)）]){MINUS}(?=[$¥￥€£]?{D})", "マイナス", MINUSES),
    number_rule("number", rf"(?<!{D})(?P<amount>{AMOUNT})", lambda match, _dialect: amounts.say(match["amount"])),
    rule(
        "decimal",
        rf"(?<!{D})[.．](?P<number>{D}++)",
        lambda match, _dialect: f"れいてん {digits(plain(match['number']))}",
        ".．",
        WIDE_DIGITS,
    ),
]
