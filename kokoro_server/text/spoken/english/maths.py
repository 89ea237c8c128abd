"""Fractions, powers, operators and Greek letters."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import INTEGER, LEFT, MONTH_NAMES, NUMBER, number_rule
from kokoro_server.text.spoken.english.words import cardinal, decimal, letters, ordinal, plural, value
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import SPACE, any_of, follows

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₙᵢⱼₖₓₜ", "0123456789+-()nijkxt")
_SUPER = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱ"
_SUB = "₀₁₂₃₄₅₆₇₈₉₊₋ₙᵢⱼₖₓₜ"
_VULGAR = "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"
_SUBSCRIPT = re.compile(r"[0-9]+|[^\W\d_]")
_STARS = re.compile(r"\s?(?:⭐|★|stars\b)")
_IS = re.compile(r"(?:\b(?:is|are|was|were|be)\s*|(?:^|[(\[,;:–—])\s*)\Z")
_CRICKET = re.compile(r"\b(?:overs?|wickets?|innings|declared|stumps|tea|lunch|bowled)\b")
_RATED = (
    r"(?:[Rr]ated?|[Rr]ating(?: is| of|:)?|[Ss]core[ds]?(?: is| of|:| a| it)?|[Gg]ave(?: it| this| them)?"
    r"(?: an?)?|[Gg]ot(?: an?)?|[Gg]rade|[Gg]ive(?: it)?(?: an?)?|[Ss]olid|it'?s an?)"
)
GREEK = {
    letter: unicodedata.name(letter).rsplit(" ", 1)[-1].lower().replace("lamda", "lambda")
    for letter in "αβγδεζηθικλμνξοπρστυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ"
} | {"µ": "micro", "ϕ": "phi", "ϵ": "epsilon", "ς": "sigma"}
_OPERATORS = vocabulary.load("english_signs").words("operators")


def power(exponent: str, dialect: Dialect, base_is_number: bool = False) -> str:
    """x squared, ten to the sixth, ten to the minus nine, two to the N."""
    exponent = exponent.strip("{}() ")
    if exponent in ("2", "3") and not base_is_number:
        return "squared" if exponent == "2" else "cubed"
    if exponent.isdecimal():
        if exponent in ("2", "3"):
            return "squared" if exponent == "2" else "cubed"
        return f"to the {ordinal(int(exponent), dialect) if len(exponent) < 4 else decimal(exponent, dialect)}"
    if exponent[:1] in "-−" and exponent[1:].isdecimal():
        return f"to the minus {decimal(exponent[1:], dialect)}"
    said = [
        decimal(each, dialect)
        if each.isdecimal()
        else letters(each, dialect)
        if each.isalpha()
        else {"-": "minus", "+": "plus"}.get(each, "")
        for each in exponent
    ]
    return f"to the {' '.join(filter(None, said))}"


def fraction(top: int, bottom: int, dialect: Dialect) -> str:
    if bottom == 2:
        name = "half" if top == 1 else "halves"
    elif bottom == 4:
        name = "quarter" if top == 1 else "quarters"
    else:
        name = ordinal(bottom, dialect)
        name = name if top == 1 else plural(name)
    return f"{cardinal(top, dialect)} {name}"


def _day_and_month(first: int, second: int, dialect: Dialect) -> str:
    """12/25 is a date, as nobody counts in twenty-fifths."""
    month, day = (second, first) if dialect.british else (first, second)
    if not (1 <= month <= 12 and (13 <= day <= 31 or month == day == 1)) or day in (16, 20):
        return ""
    name, number = MONTH_NAMES[month - 1], ordinal(day, dialect)
    return f"the {number} of {name}" if dialect.british else f"{name} {number}"


def _fraction(match: Any, dialect: Dialect) -> SpokenWords:
    top, bottom = int(value(match["top"])), int(match["bottom"])
    rated = match["rated"] is not None or top == bottom or _STARS.match(match.string, match.end())
    if rated and bottom in (5, 10, 20, 100):
        return f"{cardinal(top, dialect)} out of {cardinal(bottom, dialect)}"
    if match.string.startswith(" time", match.end()) or (top, bottom) in (
        (24, 7),
        (50, 50),
        (20, 20),
        (9, 11),
        (60, 40),
        (80, 20),
        (70, 30),
        (7, 7),
    ):
        return f"{cardinal(top, dialect)} {cardinal(bottom, dialect)}"
    if match["whole"] is None and match["of"] is None and (words := _day_and_month(top, bottom, dialect)):
        return words
    proper = 0 < top < bottom and (bottom <= 20 or bottom in (25, 30, 32, 40, 50, 60, 64, 100, 128, 365, 1000))
    if match["whole"]:
        if not proper:
            return None
        half = (
            "a half"
            if (top, bottom) == (1, 2)
            else "a quarter"
            if (top, bottom) == (1, 4)
            else fraction(top, bottom, dialect)
        )
        return f"{cardinal(int(match['whole']), dialect)} and {half}"
    if proper or (top in (3, 5, 7, 9) and bottom in (2, 4, 8) and match["of"] is not None):
        return fraction(top, bottom, dialect)
    if bottom == 1 and top > 1:
        return f"{cardinal(top, dialect)} to one"
    if top > 19 and bottom < 11 and _CRICKET.search(match.string, match.end(), match.end() + 60):
        return f"{cardinal(top, dialect)} for {cardinal(bottom, dialect)}"
    if match["top"][0] == "0" or bottom == 0:
        return f"{decimal(match['top'], dialect)} slash {decimal(match['bottom'], dialect)}"
    return f"{cardinal(top, dialect)} over {cardinal(bottom, dialect)}"


def _vulgar(match: Any, dialect: Dialect) -> SpokenWords:
    top, bottom = unicodedata.normalize("NFKC", match["vulgar"]).split("⁄")
    if not match["whole"]:
        return fraction(int(top), int(bottom), dialect)
    said = (
        "a half"
        if (top, bottom) == ("1", "2")
        else "a quarter"
        if (top, bottom) == ("1", "4")
        else fraction(int(top), int(bottom), dialect)
    )
    return f"{decimal(match['whole'], dialect)} and {said}"


def _subscript(match: Any, dialect: Dialect) -> SpokenWords:
    text = match[0].translate(_SUBSCRIPTS)
    parts = _SUBSCRIPT.findall(text)
    return " ".join(decimal(part, dialect) if part.isdecimal() else letters(part, dialect) for part in parts)


def _scientific(match: Any, dialect: Dialect) -> SpokenWords:
    sign, exponent = match["sign"] or "", match["exponent"].lstrip("0") or "0"
    said = power(("-" if sign in "-−" and sign else "") + exponent, dialect, base_is_number=True)
    return f"{decimal(match['mantissa'], dialect)} times ten {said}"


def _operator(match: Any, _dialect: Dialect) -> SpokenWords:
    words = _OPERATORS[match[0].strip()]
    before, after = match.string[match.start() - 1 : match.start()], match.string[match.end() : match.end() + 1]
    alone = follows(match, _IS, 6) or (before.isspace() and not after.isspace())  # nothing is compared: (≈5), Python ≥3
    return words.removeprefix("is ") if alone else words


def _function(match: Any, dialect: Dialect) -> SpokenWords:
    """f(x), g'(2): f of x."""
    name = letters(match["name"], dialect) + (" prime" * len(match["prime"] or ""))
    return [((match.start(), match.end("open")), f"{name} of"), ("close", "")]


def _times(_match: Any, _dialect: Dialect) -> SpokenWords:
    return [("sign", "times")]


_NEAR = r"(?:[\p{L}\p{N})\]²³%½¼¾]|\p{Greek})"
_VARIABLE = r"(?<![\p{L}\p{N}'’])[b-zB-HJ-Z](?![\p{L}\p{N}'’.])"
RULES = [
    number_rule(
        "scientific notation",
        rf"{LEFT}(?P<mantissa>{NUMBER})[eE](?P<sign>[-−+])?(?P<exponent>[0-9]{{1,3}})(?![\p{{L}}\p{{N}}]|\.[0-9])",
        _scientific,
        "eE",
    ),
    rule("fraction", rf"(?<![\p{{L}}])(?P<whole>{INTEGER})?{SPACE}?(?P<vulgar>[{_VULGAR}])", _vulgar, _VULGAR),
    number_rule(
        "fraction",
        rf"{LEFT}(?P<rated>(?<=\b{_RATED} ))?(?:(?P<whole>[0-9]{{1,3}})[ -])?"
        rf"(?P<top>[0-9]{{1,4}}|[0-9]{{1,3}}(?:,[0-9]{{3}})(?=/1\b))[/⁄]"
        rf"(?P<bottom>[0-9]{{1,4}})(?P<of>(?= (?:of|inch|cup|mile|hour)))?(?![\p{{L}}\p{{N}}])(?![/.,:][0-9])",
        _fraction,
        "/⁄",
    ),
    number_rule(
        "rating",
        rf"{LEFT}(?P<top>[0-9]{{1,2}}\.[0-9])/(?P<bottom>5|10|20|100)(?![\p{{L}}\p{{N}}])(?![/.,:][0-9])",
        lambda match, dialect: f"{decimal(match['top'], dialect)} out of {decimal(match['bottom'], dialect)}",
        "/",
    ),
    rule(
        "power",
        rf"[{_SUPER}]++(?<=[\p{{L}}\p{{N}})\]{_SUPER}])(?P<power>(?<=(?P<p>[{_SUPER}]+)))",
        lambda match, dialect: power(match[0].translate(_SUPERSCRIPTS), dialect),
        _SUPER,
    ),
    rule(
        "power",
        r"(?<=[\p{L}\p{N})\]])\^(?P<power>[-−]?[0-9]+|[-−]?\p{L}(?!\p{L})|\{[^{}\s]{1,12}\}|\([^()\s]{1,12}\))",
        lambda match, dialect: power(match["power"], dialect),
        "^",
    ),
    rule("subscript", rf"[{_SUB}]++", _subscript, _SUB),
    rule(
        "minus",
        rf"(?<=(?:[0-9)=(\[]|\b\p{{L}}){SPACE}?)(?P<sign>[-−–])(?={SPACE}?[0-9.(]+{SPACE}?[=≈<>])",
        lambda _m, _d: [("sign", "minus")],
        "=≈<>",
    ),
    rule(
        "function",
        r"(?<![\p{L}\p{N}'’.])(?P<name>[fghFGHOP])(?P<prime>['′]{1,3})?(?P<open>\()(?=[\p{L}0-9](?:[^()\p{L}\n]|"
        r"(?<!\p{L})\p{L}(?!\p{L})|log ){0,12}\))(?:[^()\n]{1,16})(?P<close>\))",
        _function,
        "(",
    ),
    rule("minus", rf"(?<=[0-9\p{{L}})]{SPACE}?)−(?={SPACE}?[\p{{L}}\p{{N}}(])", "minus", "−"),
    rule(
        "minus",
        rf"(?<=(?<![\p{{L}}\p{{N}}])[\p{{L}}0-9)²³]{SPACE})-(?={SPACE}[\p{{L}}0-9(](?![\p{{L}}]))",
        "minus",
        "-",
    ),
    rule("minus", r"(?<![\p{L}\p{N})\]%])[-−–](?=[$£€¥₹]?\.?[0-9])", "minus", "-−–"),
    rule("plus", r"(?<![\p{L}\p{N}+])\+(?=[$£€¥₹]?\.?[0-9])", "plus", "+"),
    rule(
        "times",
        rf"(?<=[0-9)π]{SPACE}?)(?P<sign>[*×xX])(?={SPACE}?[0-9(]|{SPACE}\p{{L}}{SPACE})(?<!{SPACE}[xX])(?<!0x)|"
        rf"(?<=[0-9)]{SPACE})(?P<sign>[x×*])(?={SPACE}[0-9(])",
        _times,
        "*×xX",
    ),
    rule(
        "times",
        r"(?<=[0-9])(?P<sign>[x×])(?= (?:faster|slower|more|less|as|the|larger|bigger|smaller|better|higher|lower|"
        r"longer|cheaper|speedup|per|daily|a day|a week)\b)",
        _times,
        "x×",
    ),
    rule(
        "times",
        rf"(?<=(?<![\p{{L}}\p{{N}}])\p{{L}}{SPACE}?)(?P<sign>\*)(?={SPACE}?(?:\p{{L}}(?!\p{{L}})|[0-9]))",
        _times,
        "*",
    ),
    rule("divided by", rf"(?<=[0-9]\)?{SPACE})/(?={SPACE}[0-9(])", "divided by", "/"),
    rule("plus", rf"(?<={_NEAR}{SPACE}?)\+(?={SPACE}?[\p{{L}}\p{{N}}(√])(?<![+])", "plus", "+"),
    rule("factorial", rf"(?<=[0-9)]|\b\p{{L}})!(?={SPACE}?[=+*/×-])", "factorial", "!"),
    rule(
        "absolute value",
        r"(?<![\p{L}\p{N}|])\|(?P<inner>\p{L}(?:[ ]?[-−+][ ]?[\p{L}0-9])?)\|(?!\|)",
        lambda match, _dialect: [
            ((match.start(), match.start() + 1), "the absolute value of"),
            ((match.end() - 1, match.end()), ""),
        ],
        "|",
    ),
    rule(
        "times",
        r"(?<=[0-9])x/(?P<unit>day|week|month|year)\b",
        lambda match, _dialect: f"times per {match['unit']}",
        "x",
    ),
    rule("operator", rf"(?:{any_of(_OPERATORS)})(?![=<>-])", _operator, "".join(set("".join(_OPERATORS)))),
    rule("comparison", rf"<(?={SPACE}?[\p{{L}}\p{{N}}$£€(.-])", "less than", "<"),
    rule("comparison", rf">(?={SPACE}?[\p{{L}}\p{{N}}$£€(.-])", "greater than", ">"),
    rule(
        "Greek letter",
        r"(?<!\p{Greek})\p{Greek}(?!\p{Greek})|µ",
        lambda match, _dialect: GREEK.get(match[0]),
        "".join(GREEK),
    ),
    rule(
        "variable",
        rf"{_VARIABLE}(?=\s?[=+^²³≤≥<>≠≈∈×*]|/[0-9(]|\s-\s|\()|(?<=[=+≤≥<>≠≈∈×*]\s?|\s-\s|(?<!\p{{L}})\p{{L}}\()"
        rf"(?:{_VARIABLE})",
        lambda match, dialect: letters(match[0], dialect),
        "=+^²³≤≥<>≠≈∈×*(",
    ),
]
