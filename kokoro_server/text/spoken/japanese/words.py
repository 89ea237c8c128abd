"""Japanese numbers in kana, with spaces between their groups, so that G2P does not run two of them together.

It reads kana as it stands, while in kanji it often picks the wrong one of several readings.
"""

from __future__ import annotations

from kokoro_server.text.spoken.cjk import plain

DIGIT_NAMES = "ゼロ いち に さん よん ご ろく なな はち きゅう".split()
_HUNDREDS = {1: "ひゃく", 3: "さんびゃく", 6: "ろっぴゃく", 8: "はっぴゃく"}
_THOUSANDS = {1: "せん", 3: "さんぜん", 8: "はっせん"}
_SCALES = ("", "まん", "おく", "ちょう", "けい")
_SHORTENED = {
    "いち": "いっ",
    "ろく": "ろっ",
    "はち": "はっ",
    "じゅう": "じゅっ",
    "ひゃく": "ひゃっ",
    "びゃく": "びゃっ",
    "ぴゃく": "ぴゃっ",
}
_LONGEST_CARDINAL = 4 * len(_SCALES)  # digits; a longer number is said digit by digit


def cardinal(number: int) -> str:
    if not number:
        return DIGIT_NAMES[0]
    said = list[str]()
    for power in range(len(_SCALES) - 1, -1, -1):
        group = number // 10 ** (4 * power) % 10_000
        if group:
            parts = _group(group)
            scale = _SCALES[power]
            if scale and group % 10_000 == 1000:
                parts[-1] = "いっせん"
            if scale == "ちょう" and (group % 10 in (1, 8) or group % 100 == 10):
                parts[-1] = shortened(parts[-1])
            parts[-1] += scale
            said += parts
    return " ".join(said)


def _group(number: int) -> list[str]:
    thousands, hundreds, tens, ones = (int(each) for each in f"{number:04}")
    parts = []
    if thousands:
        parts.append(_THOUSANDS.get(thousands, f"{DIGIT_NAMES[thousands]}せん"))
    if hundreds:
        parts.append(_HUNDREDS.get(hundreds, f"{DIGIT_NAMES[hundreds]}ひゃく"))
    if tens:
        parts.append(f"{DIGIT_NAMES[tens] if tens > 1 else ''}じゅう")
    if ones:
        parts.append(DIGIT_NAMES[ones])
    return parts


def shortened(words: str) -> str:
    """As before a counter that doubles its consonant: いち, いっ."""
    for ending, short in _SHORTENED.items():
        if words.endswith(ending):
            return words.removesuffix(ending) + short
    return words


def digits(text: str) -> str:
    """Each digit by itself."""
    return " ".join(DIGIT_NAMES[int(each)] for each in text if each.isdecimal())


def decimal(text: str) -> str:
    """A number as it is written: `1,234.5`, `007`."""
    whole, _, fraction = plain(text).partition(".")
    if len(whole) > _LONGEST_CARDINAL or (len(whole) > 1 and whole[0] == "0"):
        words = digits(whole)
    else:
        words = cardinal(int(whole))
    if not fraction:
        return words
    if whole == "0":
        words = "れい"
    elif whole[-1] == "1" or whole.endswith("10"):
        words = shortened(words)
    return f"{words}てん{digits(fraction)}"
