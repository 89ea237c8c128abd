"""Names made of letters and digits: models, formulas, codes, names in program text."""

from __future__ import annotations

import re
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import AT_CODE, number_rule
from kokoro_server.text.spoken.english.words import (
    cardinal,
    digits,
    in_pairs,
    letters,
    ordinal,
    plural,
    word_or_letters,
)
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import DIGITS, LONE_LETTER

_RUN = regex.compile(r"[0-9]+|\p{L}+|\.")
_FILE = vocabulary.load("english")
_FORMULA = rf"(?:{'|'.join(_FILE.list('elements'))})"
_SMALL_FORMULA = re.compile(r"[HNOF]2|O3|pH")
_SALT = re.compile(r"Cl|OH|HBr|CaO|NaF")
_LANGUAGES = _FILE.words("program_languages")
_SAID = _FILE.words("name_parts")


def _identifier(match: Any, dialect: Dialect) -> SpokenWords:
    words = read_identifier(match["id"], dialect)
    if match["many"]:
        return plural(words) if match["id"][-1].isdecimal() else f"{words}'s"
    return f"{words}'s" if match["own"] else words


def read_identifier(text: str, dialect: Dialect) -> str:
    """F-16, B2B, MP3, A320, iPhone15, sha256, i7-9700K."""
    said = list[str]()
    for run in _RUN.findall(text):
        if run == ".":
            said.append("point")
        elif run.isdecimal():
            said.append(_digits(run, dialect))
        else:
            said.append(_letters(run, dialect))
    return " ".join(said)


def _digits(run: str, dialect: Dialect) -> str:
    if run[0] == "0" and len(run) > 1:
        return digits(run)
    return cardinal(int(run), dialect) if len(run) < 3 else in_pairs(run, dialect)


def _letters(run: str, dialect: Dialect) -> str:
    if run in _SAID:
        return _SAID[run]
    if run.isupper():
        return letters(run, dialect) if len(run) < 4 else run
    if len(run) < 3 or (run[0].islower() and run[1:].isupper()):
        return letters(run, dialect) if len(run) < 3 else word_or_letters(run, dialect)
    return word_or_letters(run, dialect)


def _formula(match: Any, dialect: Dialect) -> SpokenWords:
    """H2O, CO2, C6H12O6: each letter and each number by itself."""
    parts = regex.findall(r"[A-Za-z]+|[0-9]+|[()]", match[0])
    said = (
        letters(part, dialect) if part.isalpha() else cardinal(int(part), dialect) for part in parts if part.isalnum()
    )
    return " ".join(said)


def _hex(match: Any, dialect: Dialect) -> SpokenWords:
    parts = regex.findall(r"[A-Fa-f]+|[0-9]+", match["hex"])
    said = " ".join(letters(part, dialect) if part.isalpha() else digits(part) for part in parts)
    return f"zero {letters(match['x'], dialect)} {said}"


def _hourly(match: Any, dialect: Dialect) -> SpokenWords:
    """q6h, q4-6h."""
    hours = [cardinal(int(each), dialect) for each in (match["from"], match["to"]) if each]
    return f"every {' to '.join(hours)} {'hour' if hours == ['one'] else 'hours'}"


def _reporter(match: Any, dialect: Dialect) -> SpokenWords:
    """410 F.3d 921: the series of a law reporter."""
    return [("series", f" {ordinal(int(match['number']), dialect)}")]


def _regulation(match: Any, dialect: Dialect) -> SpokenWords:
    """29 C.F.R. § 1910.1200."""
    return f"{in_pairs(match['part'], dialect)} point {in_pairs(match['section'], dialect)}"


def _episode(match: Any, dialect: Dialect) -> SpokenWords:
    """S02E05."""
    season, episode = (cardinal(int(match[part]), dialect) for part in ("season", "episode"))
    return f"season {season}, episode {episode}"


def _ion(match: Any, dialect: Dialect) -> SpokenWords:
    """Na+, Ca2+."""
    charge = f" {cardinal(int(match['charge']), dialect)}" if match["charge"] else ""
    return f"{letters(match['element'], dialect)}{charge} {'plus' if match['sign'] == '+' else 'minus'}"


def _public_law(match: Any, dialect: Dialect) -> SpokenWords:
    """Pub. L. No. 111-148."""
    return f"{in_pairs(match['congress'], dialect)} dash {in_pairs(match['law'], dialect)}"


def _section(match: Any, dialect: Dialect) -> SpokenWords:
    """§ 2-207: the number of one section, not a range of them."""
    return f"{in_pairs(match['title'], dialect)} dash {in_pairs(match['section'], dialect)}"


def _index(_match: Any, _dialect: Dialect) -> SpokenWords:
    """items[0]: the brackets keep the two apart."""
    return [("open", " "), ("close", " ")]


def _letter(match: Any, dialect: Dialect) -> SpokenWords:
    """A letter that is all of a text is not the article."""
    return [("letter", letters(match["letter"], dialect))]


def _flag(match: Any, dialect: Dialect) -> SpokenWords:
    """--dry-run, -v."""
    dashes = "dash dash" if len(match["dashes"]) == 2 else "dash"
    name = " ".join(word_or_letters(part, dialect) for part in match["name"].split("-"))
    return f"{dashes} {name}"


def _last_digits(match: Any, dialect: Dialect) -> SpokenWords:
    """The card ending in 4417."""
    return in_pairs(match[0], dialect) if match[0][0] != "0" else digits(match[0])


RULES = [
    number_rule(
        "number",
        r"(?<=\b(?:[Ee]nding|[Ee]nds)\s(?:in|with)\s[#*x]{0,4}|[*•]{4}[ -]?|\blast (?:four|"
        r"4)(?: digits)?:?\s)[0-9]{4}(?![\p{L}\p{N}])",
        _last_digits,
    ),
    rule("letter", LONE_LETTER.pattern, _letter, LONE_LETTER),
    rule(
        "name",
        r"(?<![\p{L}\p{N}])(?:[CFJ]\#|[CcGg]\+\+)(?![\p{L}\p{N}])",
        lambda match, _dialect: _LANGUAGES[match[0]],
        "#+",
    ),
    rule(
        "option",
        r"(?<![\p{L}\p{N}-])(?P<dashes>--)(?P<name>\p{L}[\p{L}\p{N}-]*)|(?<=(?:^|[\s`(\[])(?:\p{Ll}[\p{Ll}0-9]*|`) ?)"
        r"(?<![\p{L}\p{N}-])(?P<dashes>-)(?P<name>\p{L}{1,2})(?![\p{L}\p{N}-])(?<=[ `]-\p{L}+)",
        _flag,
        "-",
    ),
    rule(
        "name",
        r"(?<![\p{L}\p{N}])[Ss](?P<season>[0-9]{1,2})[Ee](?P<episode>[0-9]{1,3})(?![\p{L}\p{N}])",
        _episode,
        "Ss",
    ),
    rule(
        "name",
        r"(?<![\p{L}\p{N}])WW ?(?P<number>II|I|[12])(?![\p{L}\p{N}])",
        lambda match, _dialect: f"World War {'two' if match['number'] in ('2', 'II') else 'one'}",
        "W",
    ),
    rule(
        "name",
        r"(?<![\p{L}\p{N}.,$])7[0-8]7(?=-[0-9]{1,3}\b|\s(?:MAX|Max|Dreamliner|jets?|planes?|aircraft|airliners?|pilots?)\b)",
        lambda match, dialect: in_pairs(match[0], dialect),
        "7",
    ),
    rule(
        "name",
        r"(?<![\p{L}\p{N}.,])(?P<number>7[0-8]7)s(?![\p{L}\p{N}])",
        lambda match, dialect: f"{in_pairs(match['number'], dialect)}s",
        "7",
    ),
    rule(
        "name",
        r"(?<![\p{L}\p{N}.])802\.(?P<number>[0-9]{1,2})(?P<letters>[a-z]{0,2})(?![\p{L}\p{N}])",
        lambda match, dialect: (
            f"eight oh two dot {cardinal(int(match['number']), dialect)} {letters(match['letters'], dialect)}".strip()
        ),
        "8",
    ),
    rule(
        "grade",
        r"(?<![\p{L}\p{N}])(?P<letter>[A-F])\+(?![\p{L}\p{N}+])",
        lambda match, dialect: f"{letters(match['letter'], dialect)} plus",
        "+",
    ),
    rule(
        "grade",
        r"(?<![\p{L}\p{N}])(?P<letter>[A-F])[-−](?=[.,;:!?)]|\s(?:in|on|for|average|student)\b)(?<=\b(?:an?|got|"
        r"gets|his|her)\s[A-F][-−])",
        lambda match, dialect: f"{letters(match['letter'], dialect)} minus",
        "-−",
    ),
    rule(
        "every",
        r"(?<![\p{L}\p{N}])[qQ]\.?\s?(?P<from>[0-9]{1,2})(?:[-–](?P<to>[0-9]{1,2}))?\s?(?:hrs?|h)\b(?:\.(?=\s\p{Ll}))?",
        _hourly,
        "qQ",
        DIGITS,
    ),
    number_rule(
        "law",
        r"(?P<series>(?P<number>[2-5])(?:d|th))(?=\s[0-9]|[.,;)])(?<=\b(?:F|F\. ?Supp|L\. ?Ed|So|P|A|[NS]\.[EW]|Cal|"
        r"N\.Y\.S|S\.W)\. ?\S{2,3})|(?<![\p{L}\p{N}.])(?P<series>(?P<number>[23])d)(?=\s(?:ed|Cir|Cong|Sess|Dist|Dep|"
        r"Series)\b)",
        _reporter,
        ".",
    ),
    number_rule(
        "law",
        r"(?<=\bPub\. ?L\. (?:Nos?\. )?)(?P<congress>[0-9]{2,3})[-–](?P<law>[0-9]{1,3})(?![\p{L}\p{N}])",
        _public_law,
        "L",
    ),
    number_rule(
        "law",
        r"(?<=§\s?|\bC\.?F\.?R\.?\s|\b[Ss]ection\s)(?P<part>[0-9]{3,4})\.(?P<section>[0-9]{3,4})(?![\p{L}\p{N}])(?!\.[0-9])",
        _regulation,
        ".",
    ),
    # No. 19-1392, § 2-207; but Nos. 4-6.
    number_rule(
        "law",
        r"(?<=(?:\b[Nn]o\.|(?<!§)§)\s?|\b[Ss]ection\s)(?P<title>[0-9]{1,3})[-–](?P<section>[0-9]{3,5})(?![\p{L}\p{N}-])",
        _section,
        "-–",
    ),
    rule("number", r"(?<![\p{L}\p{N}])0(?P<x>[xX])(?P<hex>[0-9A-Fa-f]+)(?![\p{L}\p{N}])", _hex, "xX"),
    rule(
        "formula",
        rf"(?<![\p{{L}}\p{{N}}(])(?=[A-Za-z()]*[0-9])(?:{_FORMULA}[0-9]{{0,3}}|\("
        rf"(?:{_FORMULA}[0-9]{{0,3}}){{1,6}}\)[0-9]{{1,2}}){{2,12}}(?![\p{{L}}\p{{N}}-])(?<!\b[A-Z][0-9]+)",
        _formula,
        DIGITS,
        at=AT_CODE,
    ),
    rule(
        "formula",
        r"(?<![\p{L}\p{N}])(?:[HNOF]2|O3|pH)(?![\p{L}\p{N}-])",
        lambda match, dialect: _formula(match, dialect),
        _SMALL_FORMULA,
    ),
    rule(
        "name",
        r"(?<![\p{L}\p{N}])(?<![0-9][.,])(?P<id>(?=[\p{L}\p{N}.-]{0,40}[0-9])(?:\p{L}{1,20}[0-9]{1,12}|"
        r"\p{Lu}\p{L}{0,20}[-‑][0-9]{1,12}|\p{L}[-‑][0-9]{1,12}|[0-9]{1,6}\p{L}{1,3}(?:[-‑]?[0-9]{1,6})?)"
        r"(?:[-‑.]?[0-9]{1,6}|[-‑]?\p{Lu}{1,6}|(?!s(?!\p{L}))\p{L}{1,12}){0,6}+)(?P<own>['’]s)?(?P<many>s)?"
        r"(?![\p{L}\p{N}])(?!\.[0-9])",
        _identifier,
        DIGITS,
        at=AT_CODE,
    ),
    rule(
        "formula",
        r"(?<![\p{L}\p{N}])(?P<element>Na|K|Ca|Mg|Li|H|Cl|Fe|Cu|Zn|Ag|Al|Mn|Pb)(?P<charge>[1-4])?(?P<sign>[+−⁺⁻])"
        r"(?![\p{L}\p{N}+])(?=/|-?\s(?:ions?|pumps?|channels?|gradients?|levels?|concentrations?|transport\p{L}*|influx|"
        r"efflux|and [A-Z])|[,;.)])",
        _ion,
        "+−⁺⁻",
    ),
    rule(
        "formula", r"(?<![\p{L}\p{N}])(?:NaCl|HCl|NaOH|KOH|KCl|LiCl|AgCl|HBr|CaO|NaF)(?![\p{L}\p{N}])", _formula, _SALT
    ),
    rule("index", r"(?<=[\p{L}\p{N}_\])])(?P<open>\[)[^\[\]\s]{1,40}(?P<close>\])", _index, "["),
    rule("call", r"(?<=[\p{L}\p{N}_])\(\)", "", "("),
    rule("underscore", r"(?<=[\p{L}\p{N}])_+(?=[\p{L}\p{N}])", " ", "_"),
]
