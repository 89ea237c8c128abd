"""Counters, whose sound and that of the number before them change with each other: いっぽん, にほん, さんぼん."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kokoro_server.text.spoken.japanese.words import cardinal, shortened

# For which last part of a number its end is cut short and the counter's beginning hardened or voiced.
_SHORT = {
    "": (), "か": (1, 6, 8, 10, 100), "さ": (1, 8, 10), "た": (1, 8, 10), "は": (1, 6, 8, 10, 100), "カ": (10,),
}  # fmt: skip
_VOICED = str.maketrans("かきくけこさしすせそはひふへほ", "がぎぐげござじずぜぞばびぶべぼ")
_HARD = str.maketrans("はひふへほ", "ぱぴぷぺぽ")
_KATAKANA = {code: code + 0x60 for code in range(ord("ぁ"), ord("ゔ"))}
# In hiragana G2P would take these apart, as it does with はち, whose は it takes for a particle.
_MISREAD = frozenset("さつ えんさつ つう ひょう はつ ほ はん".split())
_LONG_VOWEL = re.compile(
    "(?<=[うくすつぬふむゆるぐずぶぷゅおこそとのほもよろごぞどぼぽょ])う|(?<=[えけせてねへめれげぜでべぺ])い"
)


@dataclass(frozen=True, slots=True)
class Counter:
    reading: str
    row: str = ""  # of the kana that it begins with, where that matters
    three: str = ""  # how it begins after さん and せん: voiced (ぼん) or hard (ぷん)
    ones: dict[int, str] = field(default_factory=dict)  # last digits that are said in another way: 4 よ
    whole: dict[int, str] = field(default_factory=dict)  # numbers that are said in another way, with their counter

    def say(self, number: int) -> str:
        if number in self.whole:
            return self.whole[number]
        before, _, last = self._say(number).rpartition(" ")
        if _last_part(number) == 8 or self.reading in _MISREAD or "びゃっ" in last or "ぴゃっ" in last:
            last = in_katakana(last)
        return f"{before} {last}".strip()

    def _say(self, number: int) -> str:
        words, last = cardinal(number), _last_part(number)
        if last in self.ones:
            before = words.rpartition(" ")[0]
            return f"{before} {self.ones[last]}{self.reading}".strip()
        if last in _SHORT[self.row]:
            return shortened(words) + self._beginning(_HARD)
        if last in (3, 1000) and self.three == "voiced":
            return words + self._beginning(_VOICED)
        if last in (3, 4, 1000) and self.three == "hard":
            return words + self._beginning(_HARD)
        return words + self.reading

    def _beginning(self, change: dict[int, int]) -> str:
        return self.reading[0].translate(change) + self.reading[1:]


def in_katakana(kana: str) -> str:
    return _LONG_VOWEL.sub("ー", kana).translate(_KATAKANA)


def _last_part(number: int) -> int:
    """What a number ends with: its last digit, else 10, 100, 1000 or 10000."""
    for scale in (10, 100, 1000, 10_000):
        if number % scale:
            return number % scale if scale == 10 else scale // 10
    return 10_000


def _table(row: str, three: str, text: str) -> dict[str, Counter]:
    pairs = (entry.split(" ") for entry in text.split("、"))
    return {name: Counter(reading, row, three) for name, reading in pairs}


def katakana(word: str) -> Counter:
    """A word of foreign origin as a counter: only じゅう is cut short before it."""
    return Counter(word, "カ" if word[0] in "カキクケコサシスセソタチツテトパピプペポ" else "")


_FOUR = {4: "よ"}
_HOURS = {4: "よ", 7: "しち", 9: "く"}
_DAYS = {
    1: "いちにち", 2: "ふつか", 3: "みっか", 4: "よっか", 5: "いつか", 6: "むいか", 7: "なのか", 8: "ようか",
    9: "ここのか", 10: "とおか", 14: "じゅうよっか", 20: "二十日", 24: "にじゅう よっか", 17: "じゅうしちにち",
    19: "じゅうくにち", 27: "にじゅう しちにち", 29: "にじゅう くにち",
}  # fmt: skip
_THINGS = "ひとつ ふたつ みっつ よっつ いつつ むっつ ななつ やっつ ここのつ".split()
DAY_OF_MONTH = Counter("にち", whole={**_DAYS, 1: "ついたち"})
MONTH = Counter("がつ", ones=_HOURS | {4: "し"})
HOUR = Counter("じ", ones=_HOURS, whole={0: "れいじ"})
MINUTE = Counter("ふん", "は", "hard")
SECOND = Counter("びょう")
YEAR = Counter("ねん", ones=_FOUR)
PART = Counter("ぶんの")
COUNTERS: dict[str, Counter] = {
    **_table(
        "",
        "",
        "枚 まい、台 だい、番 ばん、番線 ばんせん、番地 ばんち、番街 ばんがい、名 めい、名様 めいさま、秒 びょう、度 "
        "ど、位 い、倍 ばい、羽 わ、話 わ、"
        "割 わり、割引 わりびき、割増 わりまし、対 たい、代 だい、部 ぶ、段 だん、段階 だんかい、行 ぎょう、列 れつ、"
        "条 じょう、両 りょう、畳 じょう、組 くみ、号 ごう、号室 ごうしつ、"
        "号車 ごうしゃ、号線 ごうせん、文字 もじ、世代 せだい、親等 しんとう、乗 じょう、束 たば、年度 ねんど、銭 "
        "せん、円玉 えんだま、円札 えんさつ、面 めん、問 もん、"
        "問目 もんめ、勺 しゃく、膳 ぜん、錠 じょう、児 じ、輪 りん、次 じ、次元 じげん、毛 もう、里 り、枠 わく、"
        "議席 ぎせき、部門 ぶもん、連敗 れんぱい、連勝 れんしょう、"
        "画素 がそ、馬力 ばりき、行目 ぎょうめ、連休 れんきゅう、人種 じんしゅ",
    ),
    **_table(
        "か",
        "",
        "個 こ、コ こ、ヶ こ、回 かい、回転 かいてん、回戦 かいせん、ヶ月 かげつ、ケ月 かげつ、カ月 かげつ、ヵ月 "
        "かげつ、か月 かげつ、箇月 かげつ、ヶ所 かしょ、カ所 かしょ、"
        "か所 かしょ、箇所 かしょ、ヶ国 かこく、カ国 かこく、か国 かこく、ヶ国語 かこくご、カ国語 かこくご、か国語 "
        "かこくご、ヵ国 かこく、ヵ所 かしょ、ヶ年 かねん、カ年 かねん、課 か、"
        "画 かく、曲 きょく、件 けん、機 き、校 こう、国 こく、局 きょく、級 きゅう、巻 かん、項 こう、項目 "
        "こうもく、戸 こ、缶 かん、脚 きゃく、句 く、期 き、期生 きせい、区 く、"
        "区間 くかん、か条 かじょう、基 き、桁目 けため、株 かぶ、冠 かん、騎 き",
    ),
    **_table("か", "voiced", "階 かい、階建て かいだて、軒 けん"),
    **_table(
        "さ",
        "",
        "冊 さつ、章 しょう、節 せつ、席 せき、隻 せき、種 しゅ、種類 しゅるい、周 しゅう、周年 しゅうねん、周目 "
        "しゅうめ、色 しょく、社 しゃ、世 せい、世紀 せいき、世帯 せたい、"
        "週 しゅう、週間 しゅうかん、勝 しょう、首 しゅ、艘 そう、床 しょう、試合 しあい、集 しゅう、車線 しゃせん、"
        "食 しょく、式 しき、寸 すん、選 せん、歳児 さいじ",
    ),
    **_table("さ", "voiced", "足 そく"),
    **_table(
        "た",
        "",
        "頭 とう、点 てん、等 とう、丁 ちょう、丁目 ちょうめ、着 ちゃく、通 つう、滴 てき、店 てん、店舗 てんぽ、棟 "
        "とう、体 たい、対戦 たいせん、打席 だせき、等分 とうぶん、灯 とう、"
        "等賞 とうしょう、得点 とくてん、党 とう",
    ),
    **_table("は", "voiced", "本 ほん、匹 ひき、杯 はい、票 ひょう、俵 ひょう、遍 へん"),
    **_table(
        "は", "hard", "分 ふん、分間 ふんかん、泊 はく、発 はつ、歩 ほ、敗 はい、版 はん、編 へん、品 ひん、拍 はく"
    ),
    "歳": Counter("さい", "さ", whole={20: "はたち"}),
    "才": Counter("さい", "さ", whole={20: "はたち"}),
    "人": Counter("にん", ones=_FOUR, whole={1: "ひとり", 2: "ふたり", 7: "しちにん"}),
    "人前": Counter("にんまえ", ones=_FOUR),
    "人称": Counter("にんしょう", ones=_FOUR),
    "人乗り": Counter("にんのり", ones=_FOUR, whole={1: "ひとりのり", 2: "ふたりのり"}),
    "人目": Counter("にんめ", ones=_FOUR, whole={1: "ひとりめ", 2: "ふたりめ"}),
    "人分": Counter("にんぶん", ones=_FOUR, whole={1: "ひとりぶん", 2: "ふたりぶん"}),
    "人組": Counter("にんぐみ", ones=_FOUR, whole={1: "ひとりぐみ", 2: "ふたりぐみ"}),
    "人用": Counter("にんよう", ones=_FOUR, whole={1: "ひとりよう", 2: "ふたりよう"}),
    "年": YEAR,
    "年間": Counter("ねんかん", ones=_FOUR),
    "年生": Counter("ねんせい", ones=_FOUR),
    "年代": Counter("ねんだい", ones=_FOUR),
    "年前": Counter("ねんまえ", ones=_FOUR),
    "年後": Counter("ねんご", ones=_FOUR),
    "年目": Counter("ねんめ", ones=_FOUR),
    "年度": Counter("ねんど", ones=_FOUR),
    "年ぶり": Counter("ねんぶり", ones=_FOUR),
    "時": HOUR,
    "時間": Counter("じかん", ones=_HOURS),
    "時限": Counter("じげん", ones=_HOURS),
    "円": Counter("えん", ones=_FOUR),
    "月": MONTH,
    "日": Counter("にち", whole=_DAYS),
    "日間": Counter("にちかん", whole={number: f"{day}かん" for number, day in _DAYS.items()}),
    "日目": Counter("にちめ", whole={number: f"{day}め" for number, day in _DAYS.items()}),
    "つ": Counter("", whole=dict(enumerate(_THINGS, 1))),
    "つ目": Counter("", whole={number: f"{name}め" for number, name in enumerate(_THINGS, 1)}),
    "つの": Counter("", whole={number: f"{name}の" for number, name in enumerate(_THINGS, 1)}),
    "箱": Counter("はこ", "は", "hard", whole={1: "ひとはこ", 2: "ふたはこ"}),
    "桁": Counter("けた", whole={1: "ひとけた", 2: "ふたけた"}),
    "晩": Counter("ばん", whole={1: "ひとばん", 2: "ふたばん"}),
    "部屋": Counter("へや", whole={1: "ひとへや", 2: "ふたへや"}),
    "袋": Counter("ふくろ", whole={1: "ひとふくろ", 2: "ふたふくろ"}),
    "皿": Counter("さら", whole={1: "ひとさら", 2: "ふたさら"}),
    "切れ": Counter("きれ", whole={1: "ひときれ", 2: "ふたきれ"}),
    "口": Counter("くち", whole={1: "ひとくち", 2: "ふたくち"}),
    "粒": Counter("つぶ", whole={1: "ひとつぶ", 2: "ふたつぶ"}),
    "通り": Counter("とおり", whole={1: "ひととおり", 2: "ふたとおり"}),
    "番目": Counter("ばんめ"),
    "分目": Counter("ぶんめ"),
    **{
        word: katakana(word)
        for word in (
            "ドル ユーロ ポンド セント トン キロ キログラム グラム キロメートル メートル センチ センチメートル ミリ "
            "ミリメートル リットル パーセント "
            "ポイント ページ セット チーム ケース カップ クラス コース シーズン サイズ ピース パック カラット "
            "カロリー キロカロリー ヘクタール"
        ).split()
    },
}
