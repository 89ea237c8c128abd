"""Signs, and the names of those that are left."""

from __future__ import annotations

from kokoro_server.text.spoken import cjk, vocabulary
from kokoro_server.text.spoken.chinese.money import SIGNS as MONEY
from kokoro_server.text.spoken.chinese.words import decimal, digits
from kokoro_server.text.spoken.matching import rule

_FILE = vocabulary.load("chinese")
MARKS = _FILE.words("address_marks")
SIGNS = MONEY | _FILE.words("signs")
_GREEK = _FILE.words("greek")
RULES = [
    *cjk.PICTURES,
    rule(
        "section",
        r"§{1,2}\s?(?P<number>[0-9]++(?:\.[0-9]++)*)",
        lambda match, _dialect: f"第{'点'.join(map(decimal, match['number'].split('.')))}节",
        "§",
    ),
    rule("hashtag", r"[#＃](?=[\p{L}])|(?<=[#＃][^#＃\s]{1,30})[#＃]", "", "#＃"),
    rule("number sign", r"(?:[#＃№]|(?<![A-Za-z])N[Oo]\.)\s?(?=[0-9０-９])", "第", "#＃№N"),
    rule("and", r"(?<=\w)\s?[&＆]\s?(?=\w)", "和", "&＆"),
    rule("plus", r"(?<=[A-Za-z])[+＋]{1,2}", lambda match, _dialect: "加" * len(match[0]), "+＋"),
    rule("about", r"(?<![约\p{L}\p{N}])[~～∼](?=[$¥￥€£]?[0-9０-９])", "约", "~～∼"),
    *cjk.ORNAMENTS,
]
LAST = cjk.last(lambda text: decimal(text) if len(text) < 13 else digits(text), SIGNS, _GREEK)
