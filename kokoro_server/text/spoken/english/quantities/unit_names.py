"""The units that are read after a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.words import plural
from kokoro_server.text.spoken.matching import Dialect
from kokoro_server.text.spoken.patterns import any_of, follows
from kokoro_server.text.spoken.vocabulary import Noun

_FILE = vocabulary.load("english_units")
UNITS = _FILE.nouns("units", plural)
TIMES = frozenset(_FILE.having("units", "time"))
# Units that are written with a dot. Symbols of the SI are not: a dot after them ends the sentence.
DOTTED = frozenset(_FILE.having("units", "dotted")) | {unit for unit in UNITS if " " in unit}
# Units that are said after a fraction: ½ cup needs no rule.
_WHOLE = frozenset(_FILE.having("units", "whole"))
FOLLOWED = [unit for unit in UNITS if unit not in _WHOLE]


def unit_words(symbol: str, dialect: Dialect) -> Noun:
    noun = UNITS[symbol]
    return Noun(_british(noun.one), _british(noun.many)) if dialect.british else noun


def _british(name: str) -> str:
    return name.replace("meter", "metre").replace("liter", "litre")


def _glued(match: Any) -> bool:
    return bool(match["hyphen"]) or match.start("unit") == match.end("amount")


def _after_space(match: Any) -> bool:
    return bool(match.start("unit") > match.end("amount")) and not match["hyphen"]


def _following(match: Any) -> str:
    return str(match.string[match.end("unit") : match.end("unit") + 24])


def _after(pattern: str) -> Callable[[Any], bool]:
    """Whether the text before an amount ends with `pattern`."""
    compiled = regex.compile(rf"(?:{pattern})\Z")
    return lambda match: follows(match, compiled)


VERBS = any_of(vocabulary.load("english_grammar").list("not_after_units"))
_WORD = regex.compile(rf" (?!(?:{VERBS})\b)\p{{L}}")
_INGREDIENT = regex.compile(rf" (?:{any_of(_FILE.list('ingredients'))})\b")
_GOES_ON = regex.compile(r"\. [\p{Ll}+&]|\.\)")
_NAILS = regex.compile(r" (?:(?:common|finish|finishing|galvanized|box|framing) )?(?:nails?|sinkers?)\b")
_SOLUTION = regex.compile(r" (?:[A-Z][A-Za-z0-9]+|solutions?|aqueous|concentration)\b")  # 2 M NaOH
_MAGNET = regex.compile(rf" (?:field|magnet|scanner|MRI|(?:{VERBS})\b)|(?! \p{{L}})")  # not 10 T cells
_ELECTRIC = regex.compile(
    r" (?:\p{Lu}{2,4} )?(?:fuses?|plugs?|sockets?|breakers?|circuits?|chargers?|currents?|supply|supplies|adapters?|"
    r"outlets?|max|load|peak|rated|service|relays?|switch|switches|cables?|wires?|motors?|battery|batteries|draw|output|"
    r"input|USB|DC|AC|(?:at|@) [0-9.]+ ?[mk]?V)\b"
)
_current = _after(
    r"\b(?:draws?|drew|drawing|(?:current|fuse|breaker|load) (?:of|is|was)|rated (?:at|for)|carr(?:y|ies)|"
    r"suppl(?:y|ies)|pulls?|outputs?|delivers?)\s(?:(?:up to|about|over|only|around)\s)?|"
    r"[0-9]\s?V(?:\s|,\s|\s?/\s?|\s?@\s?|\sat\s)"
)
_force = _after(r"\b(?:force|weight|load|pull|push|thrust|tension)\s(?:\p{Ll}+\s){0,3}|\bexerts?\s")
_PRODUCT = regex.compile(r" (?:Plus|Pro|Max|Mini|Ultra)\b")
_product = _after(r"\b(?:iPhone|iPad|iPod|Galaxy|Nexus|Pixel|Redmi|Note|Moto|Xperia|OnePlus)\s")
_POINTS = regex.compile(r" (?:font|type|text|lead|deficit|win|loss|margin|swing|Arial|Times|Helvetica|Calibri)\b")
_scored = _after(
    r"\b(?:scor\p{Ll}+|leads?|led|won|win|lost|by|up|down|worth|earn\p{Ll}*|gain\p{Ll}*|rose|fell|drop\p{Ll}*|had|has|"
    r"size)\s(?:just\s|only\s|by\s)?"
)
_data = _after(
    r"(?i)\b(?:modems?|baud|bits?|data|serial|network|bandwidth|transmi\p{L}+|link|speeds?|stream\p{L}*)\b.*"
)
_dose = _after(r"(?i)\b(?:takes?|taking|took|give|gave|dispense|disp|sig|chew|swallow)\b:?\s(?:\p{L}+\s)?")
_DOSED = regex.compile(r"\.? (?:PO|p\.?o|q\.?[0-9]|q[dh]|[btq]\.?i\.?d|BID|TID|daily|prn|every|by mouth|twice)\b")
_lasts = _after(
    r"(?i)\b(?:prep|cook|bake|eta|wait|timeout|timer|snooze|duration|uptime|(?:total|rest|active|prep|cook|cooking|baking|run|wait|waiting|"
    r"travel|play|elapsed|remaining|estimated) time):?(?: (?:for|of|is))? "
)
_insulin = _after(r"(?i)\b(?:insulin|heparin|lispro|glargine|penicillin|botox)\b.{0,20}")
_cited = _after(r"\p{L}\.|\bSupp\. |\bEd\. |\b[qQ][0-9]{1,2}[-–]")  # 410 F.3d, q.4h, q4-6h
_CITED = regex.compile(r" (?:ed|Cir|Cong|Sess|Dist|Dep|Series)\b")  # 2d ed.
labelled = _after(rf"(?i)\b(?:{any_of(_FILE.list('labels'))})s?\.?\s\#?|\p{{L}}[-‑]")  # Row 5 A, Il-14 T
# 1.3m people are millions of them; 100m hurdles are not.
_COUNTED = regex.compile(
    r" (?!(?:hurdles|runners|races|sprints|heats|finals|walls|waves|swims|events|titles|records|times|across|"
    r"towers|ships)\b)(?:\p{Ll}{3,}(?<!s)s|people|children|men|women|staff|more)\b"
)


# After these, 45yo is an adjective.
AGED = regex.compile(
    r" (?:[MF]\b|(?:\p{Ll}+ )?(?:(?:fe)?male|(?:wo)?man|boy|girl|child|son|daughter|patient|pt|lady|guy|dog|cat)\b)"
)
# Before these, a quantity is an adjective: a 40W bulb, 12V 7Ah battery.
DEVICES = regex.compile(
    r"(?: [0-9.]+ ?\p{L}{1,3})?(?: (?:LED|USB|USB-C|lithium|power|wall|car|light|cordless|AC|DC|solar|gas|electric|"
    r"smart))? (?:bulbs?|batter(?:y|ies)|chargers?|outlets?|drills?|motors?|adapters?|lamps?|speakers?|panels?|"
    r"heaters?|"
    r"lights?|fuses?|plugs?|supply|supplies|amplifiers?|engines?|generators?|microwaves?|inverters?)\b"
)


def _inch(match: Any) -> bool:
    """5 in. of rain, 5in, 5-in; not 5 in the box."""
    after = _following(match)
    return _glued(match) or bool(match["dot"]) or after[:1] in (")", ",", ";") or after.strip() == "."


def _amp(match: Any) -> bool:
    """5 A, a 5A fuse, 2A at 12V; not 5 A grades, Seat 5A."""
    after = _following(match)
    if _glued(match):
        return _ELECTRIC.match(after) is not None or _current(match)
    return not after[:2].strip().isupper() and (_ELECTRIC.match(after) is not None or not _WORD.match(after))


def _spoonful(match: Any) -> bool:
    """2 c sugar, 1 T. oil."""
    after = _following(match)
    return _INGREDIENT.match(after) is not None or bool(match["dot"] and _GOES_ON.match(after))


def _dosed(match: Any) -> bool:
    """Take 2 tabs; not two tabs of a browser."""
    return _dose(match) or _DOSED.match(_following(match)) is not None


def _point(match: Any) -> bool:
    """She scored 1 pt, a 12 pt font, 3-pt. shooting; not 1 pt cream."""
    return bool(match["hyphen"]) or _scored(match) or _POINTS.match(_following(match)) is not None


# Symbols that stand for another where a condition holds.
_INSTEAD: dict[str, tuple[Callable[[Any], bool], str]] = {
    "T": (_spoonful, "tbsp"),
    "t": (lambda match: len(match["amount"]) == 1 and _spoonful(match), "tsp"),
    "m": (lambda match: _lasts(match) or _following(match).startswith(" ago"), "min"),
    "pt": (_point, "pts"),
    "d": (lambda match: _NAILS.match(_following(match)) is not None, "penny"),
    "bps": (lambda match: not _data(match) and len(match["amount"]) < 4, "bp"),
}


def meant(match: Any) -> str:
    """The symbol that is meant: points are written as pints are."""
    symbol = str(match["unit"])
    condition, other = _INSTEAD.get(symbol, (None, ""))
    return other if condition and condition(match) else symbol


# Symbols that are also something else, and when they are units.
ALONE: dict[str, Callable[[Any], bool]] = {
    "in": _inch,
    "K": lambda match: _after_space(match) and not _COUNTED.match(_following(match)),
    "T": lambda match: _after_space(match) and _MAGNET.match(_following(match)) is not None,
    "st": lambda match: not (_glued(match) and match["amount"][-1] == "1") and not _following(match).startswith("."),
    "A": _amp,
    "N": lambda match: _after_space(match) or _force(match),
    "t": lambda match: _after_space(match) or len(match["amount"]) > 1,
    "d": lambda match: (
        (_glued(match) and not _cited(match) and not _CITED.match(_following(match))) or "." in match["amount"]
    ),
    "h": lambda match: not _cited(match),
    "y": _glued,
    "MP": _glued,
    "b": lambda _match: False,
    "s": lambda match: (
        match.string[match.start() - 1 : match.start()] != "-"
        and not _following(match).startswith(" of ")
        and not _product(match)
        and not _PRODUCT.match(_following(match))
        and match.string[match.start() - 1 : match.start()] not in ("x", "×")
        and match["amount"] not in ("707", "717", "727", "737", "747", "757", "767", "777", "787")
    ),
    "m": lambda match: not (_glued(match) and _COUNTED.match(_following(match))),
    "pt": _after_space,
    "cc": lambda match: match["amount"][-1:] == "0" or _after_space(match),
    "pp": lambda match: not _following(match).startswith("."),
    "ac": _after_space,
    "ct": _after_space,
    "cd": _after_space,
    "kn": _after_space,
    "HP": lambda _match: True,
    "bps": lambda match: len(match["amount"]) > 3,  # below a thousand they are basis points
    "AU": _after_space,
    "Ga": lambda match: _after_space(match) and "." in match["amount"],
    "c": _spoonful,
    "C": lambda match: _INGREDIENT.match(_following(match)) is not None,
    "U": lambda match: _after_space(match) and _insulin(match),
    "tab": _dosed,
    "tabs": _dosed,
    "cap": _dosed,
    "caps": _dosed,
    "env": lambda match: bool(match["dot"]) or _following(match).startswith((" yeast", " gelatin")),
    "ga": lambda match: _glued(match) or _following(match).startswith((" wire", " shotgun", " steel", " needle")),
    "pk": lambda match: bool(match["hyphen"] or match["dot"]),
    "sf": lambda match: len(match["amount"]) > 2,
    "M": lambda match: (
        _after_space(match) and ("." in match["amount"] or _SOLUTION.match(_following(match)) is not None)
    ),
}
