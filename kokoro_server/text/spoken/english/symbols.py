"""Signs, and last of all the digits and signs that no other rule has read: G2P must not get them."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.emoji import EMOTICON, emoji
from kokoro_server.text.spoken.english.patterns import NOT_ASCII
from kokoro_server.text.spoken.english.words import decimal, letters
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import DIGITS, INNER_DOT, known_digits, numeral

SIGNS = vocabulary.load("english_signs").words("signs")
_NOT_PLAIN = re.compile(r"[^ \n!\"'(),.:;?A-Za-z\[\]‘’“”–—…-]")


def _ampersand(match: Any, dialect: Dialect) -> SpokenWords:
    """R&D and AT&T: the letters around it are named."""
    return " and ".join(letters(part, dialect) for part in match[0].split("&"))


def _left_over(match: Any, dialect: Dialect) -> SpokenWords:
    """A sign by its name. An ornament is silent."""
    sign = match[0]
    if sign in SIGNS:
        return SIGNS[sign]
    if sign.isnumeric():
        return decimal(found, dialect) if (found := numeral(sign)) else " "
    category, name = unicodedata.category(sign), unicodedata.name(sign, "")
    if category in ("Sm", "Sc") and name:
        return re.sub(r"[^a-z]+", " ", name.lower().removesuffix(" sign")).strip()
    return " "


def _plain_letters(match: Any, _dialect: Dialect) -> SpokenWords:
    """Letters in circles and squares."""
    return unicodedata.normalize("NFKC", match[0])


def _stars(match: Any, _dialect: Dialect) -> SpokenWords:
    return "stars" if match["noun"] is None else "star"


RULES = [
    # The minute of a goal: Saka (12', 45+1').
    rule("minute", r"(?<=\((?:[0-9+]{1,6}['′’], ?){0,5}[0-9]{1,3}(?:\+[0-9]{1,2})?)['′’](?=[,)])", "", "'′’", "("),
    rule("styled letters", "[Ⓐ-ⓩ\U0001f130-\U0001f149]+", _plain_letters, NOT_ASCII),
    rule("apostrophe", r"(?<=\p{L})[′´](?=(?:t|s|re|ve|ll|d|m)\b)", "'", "′´"),
    # A 5★ hotel; stars after a space only decorate.
    rule(
        "stars",
        r"(?<=(?<![0-9.])[0-9](?:\.[0-9])?)[★⭐]\ufe0f?(?P<noun>(?=\s\p{Ll}))?(?![★⭐☆])",
        _stars,
        "★⭐",
        DIGITS,
    ),
    EMOTICON,
    emoji(),
    rule(
        "number sign",
        r"(?<![\p{L}\p{N}&])(?P<sign>\#)\s?(?=[0-9]|\p{Lu}{1,5}-[0-9])",
        lambda _match, _dialect: [("sign", "number")],
        "#",
    ),
    # my # is 555-0199
    rule(
        "number sign",
        r"(?<=\b(?i:my|ur|your|his|her|their|our|new|phone|ph|cell|tel|the|acct|account|order|ref|what|wats|whats) )\#"
        r"(?=\s\p{Ll}|\s?[:?,.!]|\s*\Z)",
        "number",
        "#",
    ),
    rule("number sign", r"(?<=\p{L}{2})\#(?![\p{L}\p{N}])", "number", "#"),
    rule("section sign", r"§§?\s?", lambda match, _dialect: "sections" if "§§" in match[0] else "section", "§"),
    rule("and", r"(?<![\p{L}\p{N}])\p{Lu}{1,3}&\p{Lu}{1,3}(?![\p{L}\p{N}])", _ampersand, "&"),
    rule("about", r"(?<![\p{L}\p{N}/])[~∼≈](?=\s?[$£€]?[0-9])", "about", "~∼≈"),
    rule("tilde", r"(?<=\p{L})~(?=[0-9])", "tilde", "~", DIGITS),  # HEAD~1
    rule("plus", r"(?<=[0-9\p{L}%])\+(?![\p{L}\p{N}])", "plus", "+"),
    rule(
        "hyphen", r"(?<=[0-9])(?P<a>[-‑])a(?P<b>[-‑])(?=\p{L})", lambda _m, _d: [("a", " "), ("b", " ")], "-‑", DIGITS
    ),
    rule("star", r"(?<=\p{Lu}{2} )\*(?= \p{Lu}{2})|(?<=\()\*(?=\))", "star", "*"),
    rule(
        "hyphen",
        r"(?<=[0-9%°])[-‐‑](?=\p{L})|(?<=\p{L})[-‐‑](?=[0-9])|(?<=[0-9]\s?[AaPp]\.?[Mm]\.?)[-‐‑](?=\p{L})",
        " ",
        "-‐‑",
        DIGITS,
    ),
    rule("dot", r"(?<![\p{L}\p{N}.])\.(?=\p{L})|(?<=\p{Lu}{2})\.(?=\p{Lu}{2})", "dot", INNER_DOT),
    # f/2.8, HTTP/2.
    rule("slash", r"(?<=(?<![\p{L}\p{N}])(?:f|HTTP))/(?=[0-9])", " ", "/", DIGITS),
    rule("point", r"(?<=[0-9])\.(?=x\b)", "point", INNER_DOT),
    rule("bars", r"\|(?:\s*+\|)*+", ",", "|"),
    rule("ornament", r"([*_=~#^<>+\\/|-])\1{2,}+", " ", "*_=~#^<>+\\/|-"),
    rule("bracket", r"[{}⟨⟩]", " ", "{}⟨⟩"),
]
# For text that no rule has read. White space, letters, quotes, brackets and marks of a pause are all that may pass.
LAST = [
    rule("dash", r"(?<=[0-9])[-–—~](?=[0-9])", " ", "-–—~"),
    rule("digits", r"[0-9]++(?:\.[0-9]++)?+", lambda match, dialect: decimal(match[0], dialect), DIGITS),
    rule(
        "digits",
        r"\p{Nd}++",
        lambda match, dialect: decimal(known, dialect) if (known := known_digits(match[0])) else None,
        NOT_ASCII,
    ),
    rule("sign", r"(?V1)[[\p{S}\p{N}\p{Pc}\p{Co}\p{Cn}]&@#%/\\*_§¶†‡•·‣′″‰{}|~№`¿¡※⁂]", _left_over, _NOT_PLAIN),
]
