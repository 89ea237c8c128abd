"""Fractions, powers, operators and Greek letters."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import INTEGER, LEFT, MONTH_NAMES, NUMBER, number_rule
from kokoro_server.text.spoken.english.words import cardinal, decimal, in_pairs, letters, ordinal, plural, value
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import FORMULA, FORMULA_SIGNS, SPACE, any_of, follows, formula_parts

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱˣʸᵏᵐᵗᵀ", "0123456789+-()nixykmtT")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", "0123456789+-()aehijklmnoprstuvx")
_SUPER = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱˣʸᵏᵐᵗᵀ"
_SUPER_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_SUB = "₀₁₂₃₄₅₆₇₈₉₊₋ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ"
_VULGAR = "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"
_SUBSCRIPT = re.compile(r"[0-9]+|[^\W\d_]|[+-]")
_BASE = re.compile(r"[^\W_]|[)\]}|'′’]")
_ENDS = tuple('.,;:!?"”»')
_CHARGE = re.compile(r"(?P<number>[0-9]*)(?P<sign>[+-])")
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
_AT_FUNCTION = re.compile(r"[sct](?:in|os|an)(?![a-wyz])")
_HALF_OF = re.compile(
    r"\s(?P<article>(?:an?|the|my|his|her|our|your|their)\b)|\s?(?P<noun>[Tt]b(?:sp|s)s?|TBSP|tablespoon|mile|hour|dozen|"
    r"million|pound|pint|day|year|century)\b(?![ -](?:old|long|run|walk|drive|ride|race|price|mark)\b)"
)
_DETERMINER = re.compile(r"(?i)\b(?:an?|another|the|this|that|each|every|one|his|her|its|our|my|your|their|per)\s\Z")
_OPERATORS = vocabulary.load("english_signs").words("operators")


def power(exponent: str, dialect: Dialect, base_is_number: bool = False) -> str:
    """x squared, ten to the sixth, ten to the minus nine, two to the N."""
    exponent = exponent.strip("{}() ")
    if exponent == "T":
        return "transpose"
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
        else GREEK.get(each) or letters(each, dialect)
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


def _half(match: Any) -> str:
    """½ before some nouns: half a tablespoon, half an hour, half the price."""
    noun = _HALF_OF.match(match.string, match.end())
    if noun is None or follows(match, _DETERMINER):
        return ""
    return "half" if noun["article"] else "half an" if noun["noun"] == "hour" else "half a"


def _fraction(match: Any, dialect: Dialect) -> SpokenWords:
    top, bottom = int(value(match["top"])), int(match["bottom"])
    if match["th"] and not match["whole"]:
        return fraction(top, bottom, dialect) if top and bottom > 1 else None
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
    if (top, bottom, match["whole"]) == (1, 2, None) and (half := _half(match)):
        return half
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


def _directive(match: Any, dialect: Dialect) -> SpokenWords:
    """Directive 95/46/EC, Regulation (EU) 2016/679."""
    parts = [in_pairs(match["first"], dialect), in_pairs(match["second"], dialect)]
    if match["body"]:
        parts.append(letters(match["body"], dialect))
    return " slash ".join(parts)


def _vulgar(match: Any, dialect: Dialect) -> SpokenWords:
    top, bottom = unicodedata.normalize("NFKC", match["vulgar"]).split("⁄")
    if not match["whole"]:
        half = _half(match) if (top, bottom) == ("1", "2") else ""
        return half or fraction(int(top), int(bottom), dialect)
    said = (
        "a half"
        if (top, bottom) == ("1", "2")
        else "a quarter"
        if (top, bottom) == ("1", "4")
        else fraction(int(top), int(bottom), dialect)
    )
    return f"{decimal(match['whole'], dialect)} and {said}"


def _superscript(match: Any, dialect: Dialect) -> SpokenWords:
    """A power or a charge (e⁻). After a mark it is the number of a note, and silent as citations are."""
    text = match[0].translate(_SUPERSCRIPTS)
    if charge := _CHARGE.fullmatch(text):
        return _charge(charge, dialect)
    before = match.string[match.start() - 1 : match.start()]
    if text.isdecimal() and before in _ENDS:
        return ""
    if text.isdecimal() and (before == "Δ" or not _BASE.match(before)):
        return decimal(text, dialect)
    return power(text, dialect)


def _charge(charge: Any, dialect: Dialect) -> str:
    sign = "plus" if charge["sign"] == "+" else "minus"
    return f"{decimal(charge['number'], dialect)} {sign}" if charge["number"] else sign


def _subscript(match: Any, dialect: Dialect) -> SpokenWords:
    said = _indices(match[0], dialect)
    if match["log"] is None:
        return [("sub", said)]
    return [("sub", f"base {said} of" if match["of"] is not None else f"base {said}")]


def _indices(text: str, dialect: Dialect) -> str:
    signs = {"+": "plus", "-": "minus"}
    parts = _SUBSCRIPT.findall(text.translate(_SUBSCRIPTS))
    return " ".join(
        decimal(part, dialect) if part.isdecimal() else signs.get(part) or letters(part, dialect) for part in parts
    )


def _formula(match: Any, dialect: Dialect) -> SpokenWords:
    """Letters by their names. A mass is read as a name: ²³⁵U."""
    marks = {".": "point", "+": "plus", "−": "minus"}
    read = in_pairs if match["mass"] else decimal
    parts = formula_parts(match)
    said = (marks.get(part) or (letters if part.isalpha() else read)(part, dialect) for part in parts)
    return " ".join(said) or None


def _script_fraction(match: Any, dialect: Dialect) -> SpokenWords:
    """³⁄₄, and the half of a half-life: T₁/₂."""
    top, bottom = match["top"].translate(_SUPERSCRIPTS), match["bottom"]
    top, bottom = int(top.translate(_SUBSCRIPTS)), int(bottom.translate(_SUBSCRIPTS))
    return fraction(top, bottom, dialect) if 0 < top < 100 and 1 < bottom < 1000 else None


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
    number_rule(
        "law",
        r"(?<=\b(?:Regulations?|Directives?|Decisions?|Reg\.|Dir\.)\s(?:\(\p{Lu}{2,7}\)\s)?(?:No\.?\s)?)(?P<first>[0-9]{2,4})"
        r"/(?P<second>[0-9]{1,4})(?:/(?P<body>EU|EC|EEC|JHA))?(?![\p{L}\p{N}/])",
        _directive,
        "/",
    ),
    rule("fraction", rf"(?<![\p{{L}}])(?P<whole>{INTEGER})?{SPACE}?(?P<vulgar>[{_VULGAR}])", _vulgar, _VULGAR),
    number_rule(
        "fraction",
        rf"{LEFT}(?P<rated>(?<=\b{_RATED} ))?(?:(?P<whole>[0-9]{{1,3}})[ -])?"
        rf"(?P<top>[0-9]{{1,4}}|[0-9]{{1,3}}(?:,[0-9]{{3}})(?=/1\b))[/⁄]"
        rf"(?P<bottom>[0-9]{{1,4}})(?:(?P<th>(?:st|nd|rd|th)s?)(?!\p{{L}}))?"
        rf"(?P<of>(?= (?:of|inch|cup|mile|hour)))?(?![\p{{L}}\p{{N}}])(?![/.,:][0-9])",
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
        "fraction",
        rf"(?P<top>[{_SUPER_DIGITS}]{{1,3}})[/⁄](?P<bottom>[₀-₉]{{1,3}})|"
        rf"(?P<top>[₀-₉]{{1,3}})[/⁄](?P<bottom>[₀-₉]{{1,3}})",
        _script_fraction,
        "/⁄",
        _SUPER + _SUB,
    ),
    rule(
        "ordinal",
        r"(?<![\p{L}\p{N}.,])(?P<number>[0-9]{1,4})(?:ˢᵗ|ⁿᵈ|ʳᵈ|ᵗʰ)(?!\p{L})",
        lambda match, dialect: ordinal(int(match["number"]), dialect),
        "ˢⁿʳᵗ",
    ),
    rule(
        "formula",
        FORMULA,
        _formula,
        FORMULA_SIGNS,
    ),
    rule("dot", r"(?<=[₀-₉])·(?=[0-9]*\p{Lu})", "dot", "·"),
    rule("power", rf"[{_SUPER}]++", _superscript, _SUPER),
    rule(
        "power",
        r"(?<=[\p{L}\p{N})\]])\^(?P<power>[-−]?[0-9]+|[-−]?\p{L}(?!\p{L})|\{[^{}\s]{1,12}\}|\([^()\s]{1,12}\))",
        lambda match, dialect: power(match["power"], dialect),
        "^",
    ),
    rule(
        "subscript",
        rf"(?P<log>(?<=\b(?:log|Log)))?(?P<sub>[{_SUB}]++)(?P<of>(?= ?[\p{{L}}\p{{N}}(]))?",
        _subscript,
        _SUB,
    ),
    rule(
        "derivative",
        r"(?<![\p{L}\p{N}])(?P<top>d\p{Ll}?)(?P<over>/)(?P<bottom>d[xyztrs])(?![\p{L}\p{N}])",
        lambda match, dialect: [
            ("top", letters(match["top"], dialect)),
            ("over", "over"),
            ("bottom", letters(match["bottom"], dialect)),
        ],
        "/",
    ),
    rule("derivative", r"(?<=[\p{L}\p{N}∂²³])/(?=∂)", "over", "∂"),
    rule("over", r"(?<=(?<!\p{L})\p{Greek}[₀-₉²³]?)/(?=\p{Greek}(?!\p{Greek})|[0-9])", "over", "/", "".join(GREEK)),
    rule("range", rf"(?<=[0-9][{_SUPER_DIGITS}])[-–](?=[0-9])", "to", "-–", _SUPER_DIGITS),
    rule("dot", r"(?<=∇)[·⋅]", "dot", "∇"),
    rule(
        "function",
        r"(?<!\p{L})(?P<name>sin|cos|tan)(?=[²³]|\((?!s\))| ?(?:[θφαβωπ]|x(?!\p{L}))| y(?!\p{L})|[0-9])",
        lambda match, _dialect: {"sin": "sine", "cos": "cosine", "tan": "tangent"}[match["name"]],
        "(²³θφαβωπxy0123456789",
        at=_AT_FUNCTION,
    ),
    rule("differential", r"(?<=[\p{L}\p{N})²³] )d[xyztrθ](?![\p{L}\p{N}])", lambda m, d: letters(m[0], d), "∫"),
    # Not between spaces and numbers: there it parts what a page lists, `Nov 5 · 12 replies`.
    rule(
        "times",
        r"(?<=[0-9)])[·⋅∙](?=[0-9(\p{L}])|(?<=(?<![\p{L}\p{N}])[\p{L})] ?)[·⋅∙](?= ?[\p{L}(](?!\p{L}))|"
        r"(?<=[0-9)²³] )[·⋅∙](?= \p{L}(?!\p{L}))|(?<=[0-9)] )[·⋅∙](?= [0-9(][^=·\n]{0,20}=)",
        "times",
        "·⋅∙",
    ),
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
    rule("minus", r"(?<=[0-9][xyz][²³]? )[-–](?= [0-9(])", "minus", "-–"),
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
        r"(?<![\p{L}\p{N}'’])a(?=[²³₀-₉ₙᵢⱼ^]| ?[≤≥≠≈≡∈⊂⊆∪∩·⋅×→∝]| [=<>] )|"
        r"(?<=[≤≥≠≈∈∪∩·⋅×√→∝=] ?|[ \p{N}]\+ )a(?=\s*+\Z|[.,;)²³]|"
        r" [=+≤≥≠≈·×∪∩])(?!\.\p{L})",
        lambda match, dialect: letters(match[0], dialect),
        "=+^²³≤≥<>≠≈≡∈×⊂⊆∪∩·⋅→∝√₀₁₂₃₄₅₆₇₈₉ₙᵢⱼ",
    ),
    # A product: mx, mc².
    rule(
        "variable",
        r"(?<=[=+≤≥<>≈−-] )(?P<pair>[b-df-hj-np-tv-z]{2}|(?<=F = )ma)(?=[²³]| [=+−-] |[.,;)]?\s*+\Z)",
        lambda match, dialect: [("pair", letters(match["pair"], dialect))],
        "=+≤≥<>≈",
    ),
    rule(
        "variable",
        rf"{_VARIABLE}(?=\s?[=+^²³≤≥<>≠≈∈×*]|/[0-9(]|\s-\s|\()|(?<=[=+≤≥<>≠≈∈×*]\s?|\s-\s|(?<!\p{{L}})\p{{L}}\()"
        rf"(?:{_VARIABLE})",
        lambda match, dialect: letters(match[0], dialect),
        "=+^²³≤≥<>≠≈∈×*(",
    ),
]
