"""Powers, operators, formulas and Greek letters."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import LEFT, NUMBER, number_rule
from kokoro_server.text.spoken.english.words import decimal, in_pairs, letters, ordinal
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import FORMULA, FORMULA_SIGNS, SPACE, any_of, follows, formula_parts

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱˣʸᵏᵐᵗᵀ", "0123456789+-()nixykmtT")
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", "0123456789+-()aehijklmnoprstuvx")
SUPER = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱˣʸᵏᵐᵗᵀ"
SUPER_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
SUB = "₀₁₂₃₄₅₆₇₈₉₊₋ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ"
_SUBSCRIPT = re.compile(r"[0-9]+|[^\W\d_]|[+-]")
_BASE = re.compile(r"[^\W_]|[)\]}|'′’]")
_ENDS = tuple('.,;:!?"”»')
_CHARGE = re.compile(r"(?P<number>[0-9]*)(?P<sign>[+-])")
_IS = re.compile(r"(?:\b(?:is|are|was|were|be)\s*|(?:^|[(\[,;:–—])\s*)\Z")
GREEK = {
    letter: unicodedata.name(letter).rsplit(" ", 1)[-1].lower().replace("lamda", "lambda")
    for letter in "αβγδεζηθικλμνξοπρστυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ"
} | {"µ": "micro", "ϕ": "phi", "ϵ": "epsilon", "ς": "sigma"}
_AT_FUNCTION = re.compile(r"[sct](?:in|os|an)(?![a-wyz])")
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


def _superscript(match: Any, dialect: Dialect) -> SpokenWords:
    """A power or a charge (e⁻). After a mark it is the number of a note, and silent as citations are."""
    text = match[0].translate(SUPERSCRIPTS)
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
    parts = _SUBSCRIPT.findall(text.translate(SUBSCRIPTS))
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


_PER = vocabulary.load("english_units").words("rates")
_NEAR = r"(?:[\p{L}\p{N})\]²³%½¼¾]|\p{Greek})"
_VARIABLE = r"(?<![\p{L}\p{N}'’])[b-zB-HJ-Z](?![\p{L}\p{N}'’.])"


RULES = [
    number_rule(
        "scientific notation",
        rf"{LEFT}(?P<mantissa>{NUMBER})[eE](?P<sign>[-−+])?(?P<exponent>[0-9]{{1,3}})(?![\p{{L}}\p{{N}}]|\.[0-9])",
        _scientific,
        "eE",
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
    rule("power", rf"[{SUPER}]++", _superscript, SUPER),
    rule(
        "power",
        r"(?<=[\p{L}\p{N})\]])\^(?P<power>[-−]?[0-9]+|[-−]?\p{L}(?!\p{L})|\{[^{}\s]{1,12}\}|\([^()\s]{1,12}\))",
        lambda match, dialect: power(match["power"], dialect),
        "^",
    ),
    rule(
        "subscript",
        rf"(?P<log>(?<=\b(?:log|Log)))?(?P<sub>[{SUB}]++)(?P<of>(?= ?[\p{{L}}\p{{N}}(]))?",
        _subscript,
        SUB,
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
    rule("range", rf"(?<=[0-9][{SUPER_DIGITS}])[-–](?=[0-9])", "to", "-–", SUPER_DIGITS),
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
        r"(?<!\p{L})\p{L}(?!\p{L})|log ){0,12}\)|(?:log|sqrt) \p{L}\))(?:[^()\n]{1,16})(?P<close>\))",
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
        r"(?<=[0-9])x/(?P<unit>day|d|week|wk|month|mo|year|yr)\b",
        lambda match, _dialect: f"times per {_PER.get(match['unit'], match['unit'])}",
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
