"""Signs, and the names of those that are left."""

from __future__ import annotations

import unicodedata
from typing import Any

import regex

from kokoro_server.text.spoken import cjk, vocabulary
from kokoro_server.text.spoken.cjk import MINUS, MINUSES, SPACE, D, exponent, formula
from kokoro_server.text.spoken.japanese.money import SIGNS as MONEY
from kokoro_server.text.spoken.japanese.words import cardinal, decimal, digits
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule

_FILE = vocabulary.load("japanese")
MARKS = _FILE.words("address_marks")
SIGNS = {sign: name.replace("円", "えん") for sign, name in MONEY.items()} | _FILE.words("signs")
_GREEK = _FILE.words("greek")
_SUM = _FILE.words("operators")


def _power(match: Any, _dialect: Dialect) -> SpokenWords:
    power = exponent(match)
    minus = "マイナス" if power.startswith("-") else ""
    return [("power", f"の {minus}{cardinal(int(power.lstrip('-')))}じょう")]


MATHS = [
    formula(decimal, {".": "てん", "+": "プラス", "−": "マイナス"}),
    rule(
        "power",
        r"(?<=[\p{Latin}\p{Greek}0-9０-９)）])(?P<power>[⁻]?[⁰¹²³⁴-⁹]{1,4}+|\^[-−]?[0-9]{1,4})",
        _power,
        "⁻⁰¹²³⁴⁵⁶⁷⁸⁹^",
    ),
    rule(
        "minus",
        rf"(?<=[0-9０-９)xy]{SPACE}?){MINUS}(?=[ 0-9０-９.()+×÷*/\-xy]{{1,40}}[=＝≈≒])",
        "マイナス",
        MINUSES,
        "=＝≈≒",
    ),
    rule(
        "minus", rf"(?<=[=＝][0-9０-９.()+×÷*/ ]{{1,20}}){MINUS}(?={SPACE}?{D})|(?<={D})−(?={D})", "マイナス", MINUSES
    ),
    rule("times", rf"(?<={D}{SPACE}?)[*＊xX](?={SPACE}?{D})", "かける", "*＊xX"),
    rule("divided", rf"(?<={D}{SPACE})/(?={SPACE}{D})", "わる", "/"),
    rule("maths", f"[{''.join(_SUM)}]", lambda match, _dialect: _SUM[match[0]], "".join(_SUM)),
]
RULES = [
    rule("page", r"(?<![A-Za-z])pp?\.\s?(?=[0-9０-９])", "ページ", "p"),
    *cjk.PICTURES,
    rule(
        "circled number",
        r"[①-⑳❶-❿➀-➉]",
        lambda match, _dialect: f"{cardinal(int(unicodedata.numeric(match[0])))},",
        regex.compile(r"[①-⑳❶-❿➀-➉]"),
    ),
    rule("hashtag", r"(?<![\p{L}\p{N}])[#＃](?=\p{L})", "ハッシュタグ", "#＃"),
    rule("number sign", r"(?:[#＃№]|(?<![A-Za-z])N[Oo]\.)\s?(?=[0-9０-９])", "ナンバー", "#＃№N"),
    rule("and", r"(?<=\w)\s?[&＆]\s?(?=\w)", "アンド", "&＆"),
    rule("plus", r"(?<=[A-Za-z])[+＋]{1,2}", lambda match, _dialect: "プラス" * len(match[0]), "+＋"),
    rule("about", r"(?<![約\p{L}\p{N}])[~～〜∼](?=[$¥￥€£]?[0-9０-９])", "やく", "~～〜∼"),
    *cjk.ORNAMENTS,
]
LAST = cjk.last(lambda text: decimal(text) if len(text) < 13 else digits(text), SIGNS, _GREEK)
