"""Streets, roads and points of the compass."""

from __future__ import annotations

import re
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import AnyWord, number_rule
from kokoro_server.text.spoken.english.words import digits, in_pairs, letters
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, Where, rule
from kokoro_server.text.spoken.patterns import DIGITS, any_of, follows

_FILE = vocabulary.load("english")
_COMPASS = _FILE.words("directions")
_STREETS = {street.lower(): words for street, words in _FILE.words("streets").items()}
_STREET_NAMES = frozenset(words.lower() for words in _STREETS.values())
_WAY = any_of(_COMPASS)
_CAPITAL_WAY = any_of(way for way in _COMPASS if way.isupper())
_ANY_WAY = AnyWord(way for way in _COMPASS if way != "s")  # which is in it's, too
_AT_WAY = re.compile(r"[NSEWnsew](?<![^\W_].)(?:\.?[EWew])?(?![^\W_])")
_ORDINAL = r"[0-9]{1,3}(?i:st|nd|rd|th)"
_NAME = rf"(?:\p{{L}}[\p{{L}}'’.-]{{1,20}}|{_ORDINAL})"
_STREET = rf"(?i:{any_of({*_STREETS, *_STREET_NAMES})})(?![\p{{L}}\p{{N}}'’-])"
# What may stand after a street. A dot before a capital may end the sentence, and stays.
_AFTER_STREET = (
    r"(?:\.(?!\s*+\Z|\s*+\n|\s++[\"“‘'(]?(?![NS][EW]\b)[A-Z]))?+(?=\s*\Z|\s*\n|[.,;:!?)]|\s(?:[0-9#&]|(?i:apt|ste|suite|unit|floor|fl|"
    rf"room|rm|bldg|{_WAY})\b|(?:in|and|near|at|by|on|off|is|was|from|to|until|for|before|after|with|then|are|has|right|"
    r"between|tomorrow|today|tonight|last|next|around|if|or|but|station|stop|please|pls|"
    r"now|here|so|because|when|where|while|till|this|that|we|i|you|he|she|they)\b))"
)
_NO_NAMES = frozenset(vocabulary.load("english_grammar").list("small_words")) | frozenset(
    "days weeks months years hours minutes mins hrs times people more new old good".split()
)
# Before the point of the compass in S. Main St.: no name, whose initial it would be.
_BEFORE_WAY = regex.compile(r"(?:\A|\n|[0-9(,:;&/]|\b\p{Ll}+|[.!?]|\b(?:The|On|At|In|From|To|Take|Near))\s*\Z")
_SMALL_STREET = re.compile(r"\s(?:rd|ave|RD|AVE|ST|LN|DR)\b")
_SHOUTED = regex.compile(r"\b(?=\p{Lu}*[AEIOUY])\p{Lu}{3,}\b")
_NAME_AFTER = regex.compile(r"\.\s\p{Lu}")  # Dr. Smith, St. Louis
_ROADS = rf"(?:I|US|U\.S\.|SR|CR|FM|{any_of(_FILE.words('states'))})"
_ROAD_WORDS = r"(?:Hwy|HWY|hwy|Highway|highway|Route|route|Rte|Rt|Interstate|Fwy|Freeway|Tpke)"


def _street_address(match: Any, dialect: Dialect) -> SpokenWords:
    """30 W 4th St, 12 oak rd, 500 S MAIN ST: the number, the points of the compass, and the street."""
    names, street, way = match["name"].split(), match["street"], match["way"]
    full = street.lower() in _STREET_NAMES
    if any(not _is_name(name, street) for name in names) or (full and not way):
        return None
    if street in ("Dr", "St") and _NAME_AFTER.match(match.string, match.end()):
        return None
    claims: list[tuple[Where, str]] = [("number", in_pairs(match["number"], dialect))]
    if match["part"]:
        claims.append(("part", f" {letters(match['part'], dialect)}"))
    if way:
        claims.append(("before", _COMPASS[way]))
    claims += _in_small_letters(match, "name")
    if not full:
        claims.append(("all", _STREETS[street.lower()]))
    elif street.isupper():
        claims.append(("street", street.lower()))
    return claims


def _is_name(name: str, street: str) -> bool:
    """Whether a word can be the name of a street that is written in the same letters: oak rd, Oak Rd, OAK RD."""
    if name[0].isdecimal():
        return True
    if name.lower() in _NO_NAMES:
        return False
    return name.islower() if street.islower() else name.isupper() if street.isupper() else name[0].isupper()


def _in_small_letters(match: Any, group: str) -> list[tuple[Where, str]]:
    """Words in capitals that can be said, such as MAIN."""
    return [
        ((match.start(group) + word.start(), match.start(group) + word.end()), word[0].capitalize())
        for word in _SHOUTED.finditer(match[group])
    ]


def _small_street(match: Any, _dialect: Dialect) -> SpokenWords:
    """oak rd, 5th st."""
    street = match["street"]
    if street.lower() in _STREET_NAMES or not _is_name(match["name"], street):
        return None
    return [("all", _STREETS[street.lower()])] if street.lower() != "cir" else None  # the 9th Cir. is a court


def _way(match: Any, _dialect: Dialect) -> SpokenWords:
    return [("all", _COMPASS[match["way"]])] if follows(match, _BEFORE_WAY) else None


def _lettered_street(match: Any, dialect: Dialect) -> SpokenWords:
    claims: list[tuple[Where, str]] = [
        ("number", in_pairs(match["number"], dialect)),
        ("name", letters(match["name"], dialect)),
        ("all", _STREETS[match["street"].lower()]),
    ]
    return [*claims, ("way", _COMPASS[match["way"]])] if match["way"] else claims


def _compass(match: Any, _dialect: Dialect) -> SpokenWords:
    return [("all", _COMPASS[match["way"]])]


def _road_way(match: Any, _dialect: Dialect) -> SpokenWords:
    way = match["way"]
    return f"{_COMPASS[way[0]]}bound" if way[-1] == "B" else _COMPASS[way]


RULES = [
    number_rule(
        "street",
        rf"(?<![\p{{L}}\p{{N}}.,:/$£€#-])(?P<number>[0-9]{{1,5}})(?P<part>[A-Da-d])?\s(?:(?P<before>(?P<way>{_WAY})\.?)\s)?(?P<name>{_NAME}"
        rf"(?:\s{_NAME}){{0,2}}?)\s(?P<all>(?P<street>{_STREET}){_AFTER_STREET})",
        _street_address,
    ),
    rule(
        "street",
        rf"(?<=(?<![\p{{L}}\p{{N}}.'’-])(?P<name>\p{{Ll}}{{3,20}}|\p{{Lu}}{{3,20}})\s)(?P<all>(?P<street>rd|ave|RD|AVE|ST|LN|DR)"
        rf"(?![\p{{L}}\p{{N}}'’-]){_AFTER_STREET})",
        _small_street,
        _SMALL_STREET,
    ),
    rule(
        "street",
        rf"(?<=(?P<name>\b{_ORDINAL})\s)(?P<all>(?P<street>{_STREET}){_AFTER_STREET})",
        _small_street,
        DIGITS,
    ),
    # S. Main St., E 14th St; not George W. Bush Ave.
    rule(
        "compass",
        rf"(?<![\p{{L}}\p{{N}}.'’&-])(?P<all>(?P<way>{_WAY})\.?)(?=\s(?:\p{{Lu}}[\p{{L}}'’-]+\s|{_ORDINAL}\s){{1,2}}"
        rf"{_STREET})",
        _way,
        _ANY_WAY,
        at=_AT_WAY,
    ),
    rule(
        "compass",
        rf"(?<=(?:\p{{Lu}}\p{{L}}+|{_ORDINAL})\s{_STREET}\.?,?\s)(?P<way>{_CAPITAL_WAY})(?!(?<=\.\s[NSEW])\.\s\p{{Lu}})"
        rf"(?![\p{{L}}\p{{N}}'’-])(?:\.(?!\s*+\Z|\s*+\n|\s++[\"“‘'(]?[A-Z]))?",
        lambda match, _dialect: _COMPASS[match["way"]],
        _ANY_WAY,
        at=_AT_WAY,
    ),
    # 901 E St NW, 20 F St.
    number_rule(
        "street",
        rf"(?<![\p{{L}}\p{{N}}.,:/$£€#-])(?P<number>[0-9]{{1,5}})\s(?P<name>[A-Z])\s(?P<all>(?P<street>St|Ave)\b)(?:\.?,?\s"
        rf"(?P<way>{_CAPITAL_WAY})(?![\p{{L}}\p{{N}}'’])|(?=[.,]|\s*\Z))",
        _lettered_street,
        "SA",
    ),
    # Turn R onto Oak Dr., then L on Pine Ct.
    rule(
        "turn",
        r"(?<=\b(?i:turn|then|bear|keep|go|make a|take a|a quick) )(?P<side>[RL])(?= (?:on|onto|at|in|into|"
        r"after|and|to|past)\b|[.,;])",
        lambda match, _dialect: "right" if match["side"] == "R" else "left",
        "RL",
    ),
    # 123-45 67th Rd. in Queens.
    number_rule(
        "street",
        rf"(?<![\p{{L}}\p{{N}}.,:/$£€#-])(?P<block>[0-9]{{2,3}})-(?P<house>[0-9]{{2}})(?=\s(?:{_ORDINAL}|\p{{Lu}}\p{{Ll}}+)\s"
        rf"(?:St|Ave|Rd|Dr|Pl|Blvd|Street|Avenue|Road|Drive|Place|Boulevard)\b)",
        lambda match, dialect: f"{in_pairs(match['block'], dialect)} {in_pairs(match['house'], dialect)}",
        "-",
    ),
    # Meet at E 86th & Lex.
    rule(
        "compass",
        rf"(?<=\b(?i:at|on|near|to|from|and|between)\s)(?P<all>(?P<way>[NSEW])\.?)(?=\s{_ORDINAL}\b(?!\s(?:grade|place|"
        r"century|inning|period|day|year|time)))",
        _compass,
        "NSEW",
        DIGITS,
    ),
    # 3 mi. N of town, 40 km SW.
    rule(
        "compass",
        rf"(?<=[0-9]\s?(?:mi|km|miles?|kms?|blocks?|yards?|ft)\.?\s)(?P<all>(?P<way>{_CAPITAL_WAY}))(?=\s\p{{Ll}}|[.,;)]|\s*\Z)",
        _compass,
        _ANY_WAY,
        DIGITS,
    ),
    # 75004 Paris: the code of a town.
    number_rule(
        "postal code",
        r"(?<=[\p{L}0-9]\.?,\s|\n|\bF-|\bD-)(?P<code>[0-9]{5})(?=\s\p{Lu}\p{Ll}{2,20}(?:\s*\Z|[,.;)\n]))",
        lambda match, _dialect: digits(match["code"]),
    ),
    # US-101 N, I-95 S, Hwy 1 S.
    rule(
        "compass",
        rf"(?<=\b(?:{_ROADS}[- ]|{_ROAD_WORDS}\.?\s(?:{_ROADS}[- ])?)[0-9]{{1,4}}\s?)(?P<way>{_CAPITAL_WAY}|[NSEW]B)"
        rf"(?![\p{{L}}\p{{N}}'’/-])",
        _road_way,
        "NSEW",
        DIGITS,
    ),
    # At 410 W. Broadway, on a line or after a word that a place can follow.
    number_rule(
        "street",
        r"(?<=\A|\n|[,:] |\b(?:[Aa]t|[Tt]o|[Ff]rom|[Nn]ear|[Oo]n|[Vv]isit) )(?P<number>[1-9][0-9]{0,4})\s(?P<all>"
        rf"(?P<way>{_CAPITAL_WAY})\.?)(?=\s(?!(?:The|This|That|Then|It|He|She|We|They|You|I|In|On|At|If|But|And|When|Next)\b)"
        r"\p{Lu}\p{Ll}+)",
        lambda match, dialect: [("number", in_pairs(match["number"], dialect)), ("all", _COMPASS[match["way"]])],
        "NSEW",
    ),
]
