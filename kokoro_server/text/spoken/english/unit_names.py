"""The units that are read after a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import regex

from kokoro_server.text.spoken.english.words import plural
from kokoro_server.text.spoken.matching import Dialect


@dataclass(frozen=True, slots=True)
class Unit:
    name: str
    many: str = ""  # the plural, where it is not regular
    is_time: bool = False

    def words(self, dialect: Dialect) -> tuple[str, str]:
        """The singular and the plural."""
        one, many = self.name, self.many or plural(self.name)
        return (_british(one), _british(many)) if dialect.british else (one, many)


def _british(name: str) -> str:
    return name.replace("meter", "metre").replace("liter", "litre")


_PREFIXES = {
    "k": "kilo",
    "M": "mega",
    "G": "giga",
    "T": "tera",
    "m": "milli",
    "µ": "micro",
    "μ": "micro",
    "n": "nano",
    "p": "pico",
}
_SMALL = {"c": "centi", "d": "deci"}
# Units with any of the prefixes, and those of them that are common.
_PREFIXED = {
    "m": ("meter", "k m µ μ n p c d"),
    "g": ("gram", "k m µ μ n"),
    "s": ("second", "m µ μ n p"),
    "l": ("liter", "m µ μ c d"),
    "L": ("liter", "m µ μ c d"),
    "W": ("watt", "k M G T m"),
    "Wh": ("watt hour", "k M G T"),
    "V": ("volt", "k M m"),
    "A": ("amp", "m k"),
    "Ah": ("amp hour", "m"),
    "J": ("joule", "k M G"),
    "N": ("newton", "k M"),
    "Pa": ("pascal", "k M G"),
    "Ω": ("ohm", "k M m"),
    "F": ("farad", "µ μ n p"),
    "H": ("henry", "m µ μ"),
    "eV": ("electron volt", "k M G T"),
    "T": ("tesla", "m"),
    "B": ("byte", "k M G T"),
    "b": ("bit", "k M G T"),
    "cal": ("calorie", "k"),
    "mol": ("mole", "m µ μ n"),
    "Sv": ("sievert", "m µ μ"),
    "t": ("ton", "k M"),
    "pc": ("parsec", "k M"),
    "bar": ("bar", "m"),
}
_BARE = frozenset("m g s l L W Wh V A Ah J N Pa Ω T eV cal mol t bar".split())


def _units() -> dict[str, Unit]:
    units = dict[str, Unit]()
    for symbol, (name, prefixes) in _PREFIXED.items():
        if symbol in _BARE:
            units[symbol] = Unit(name, is_time=symbol == "s")
        for prefix in prefixes.split():
            units[prefix + symbol] = Unit((_PREFIXES | _SMALL)[prefix] + name, is_time=symbol == "s")
    for prefix, name in (("", ""), *_PREFIXES.items()):
        units[f"{prefix}Hz"] = Unit(f"{name}hertz", f"{name}hertz")
    for prefix in "kKMGT":
        full = _PREFIXES[prefix.lower() if prefix == "K" else prefix]
        units[f"{prefix}iB"] = Unit({"k": "kibi", "K": "kibi", "M": "mebi", "G": "gibi", "T": "tebi"}[prefix] + "byte")
        units[f"{prefix}bps"] = Unit(f"{full}bit per second", f"{full}bits per second")
        units[f"{prefix}bit"] = Unit(f"{full}bit")
    for symbol, names in _OTHERS.items():
        one, _, many = names.partition("|")
        units[symbol] = Unit(one, many)
    units |= {symbol: Unit(name, is_time=True) for symbol, name in _TIMES.items()}
    return units


_TIMES = {
    "sec": "second", "secs": "second", "min": "minute", "mins": "minute", "h": "hour", "hr": "hour", "hrs": "hour",
    "d": "day", "wk": "week", "wks": "week", "mo": "month", "mos": "month", "yr": "year", "yrs": "year", "y": "year",
}  # fmt: skip
_OTHERS = {
    "KB": "kilobyte", "kb": "kilobit", "Kb": "kilobit", "PB": "petabyte", "mcg": "microgram", "kgs": "kilogram",
    "kms": "kilometer", "cc": "C.C|C.C", "bps": "bit per second|bits per second", "dB": "decibel", "dBA": "decibel",
    "dBm": "D.B.M|D.B.M", "ft": "foot|feet", "in": "inch|inches", "yd": "yard", "yds": "yard", "mi": "mile",
    "lb": "pound", "lbs": "pound", "oz": "ounce", "st": "stone|stone", "fl oz": "fluid ounce",
    "fl. oz": "fluid ounce", "gal": "gallon", "gals": "gallon", "qt": "quart", "qts": "quart", "pt": "pint",
    "pts": "point", "tsp": "teaspoon", "tbsp": "tablespoon", "Tbsp": "tablespoon", "tbs": "tablespoon", "ac": "acre",
    "ha": "hectare", "sq ft": "square foot|square feet", "sq. ft": "square foot|square feet",
    "sqft": "square foot|square feet", "sq mi": "square mile", "sq. mi": "square mile", "sq km": "square kilometer",
    "sq m": "square meter", "sq. km": "square kilometer", "sq. m": "square meter",
    "sq in": "square inch|square inches", "sq yd": "square yard", "cu ft": "cubic foot|cubic feet",
    "cu. ft": "cubic foot|cubic feet", "cu in": "cubic inch|cubic inches", "cu m": "cubic meter",
    "mph": "mile per hour|miles per hour", "kph": "kilometer per hour|kilometers per hour",
    "kmph": "kilometer per hour|kilometers per hour", "kmh": "kilometer per hour|kilometers per hour",
    "mpg": "mile per gallon|miles per gallon", "rpm": "R.P.M|R.P.M", "RPM": "R.P.M|R.P.M",
    "bpm": "beats per minute|beats per minute", "BPM": "beats per minute|beats per minute",
    "fps": "frames per second|frames per second", "FPS": "frames per second|frames per second", "dpi": "D.P.I|D.P.I",
    "DPI": "D.P.I|D.P.I", "ppi": "P.P.I|P.P.I", "psi": "P.S.I|P.S.I", "ppm": "parts per million|parts per million",
    "ppb": "parts per billion|parts per billion", "kn": "knot", "kt": "knot", "kts": "knot", "nmi": "nautical mile",
    "ly": "light year", "AU": "astronomical unit", "hp": "horsepower|horsepower", "HP": "horsepower|horsepower",
    "bhp": "brake horsepower|brake horsepower", "BTU": "B.T.U", "atm": "atmosphere",
    "mmHg": "millimeters of mercury|millimeters of mercury", "hPa": "hectopascal", "dl": "deciliter", "lm": "lumen",
    "lx": "lux|lux", "cd": "candela", "rad": "radian", "Bq": "becquerel", "Gy": "gray", "px": "pixel",
    "IU": "I.U|I.U", "lbf": "pound force|pounds force", "ct": "carat", "deg": "degree", "pp": "percentage point",
    "bp": "basis point", "bps.": "basis point", "K": "kelvin", "ohm": "ohm", "ohms": "ohm", "kcal": "kilocalorie",
    "Cal": "calorie", "kJ": "kilojoule", "doz": "dozen|dozen", "Mt": "megaton", "Gt": "gigaton", "KM": "kilometer",
    "Km": "kilometer", "KG": "kilogram", "Kg": "kilogram", "CM": "centimeter", "ML": "milliliter", "FT": "foot|feet",
    "LBS": "pound", "OZ": "ounce", "MPH": "mile per hour|miles per hour",
    "KPH": "kilometer per hour|kilometers per hour", "GHZ": "gigahertz|gigahertz", "Ghz": "gigahertz|gigahertz",
    "ghz": "gigahertz|gigahertz", "MHZ": "megahertz|megahertz", "Mhz": "megahertz|megahertz",
    "khz": "kilohertz|kilohertz", "hz": "hertz|hertz", "gb": "gigabyte", "mb": "megabyte", "tb": "terabyte",
    "kwh": "kilowatt hour", "KWH": "kilowatt hour", "Kwh": "kilowatt hour", "Hrs": "hour", "Mins": "minute",
    "M": "molar|molar", "mM": "millimolar|millimolar",
    "µM": "micromolar|micromolar", "μM": "micromolar|micromolar", "nM": "nanomolar|nanomolar",
    "M☉": "solar mass|solar masses", "M⊙": "solar mass|solar masses", "M⊕": "Earth mass|Earth masses",
    "QPS": "queries per second|queries per second", "Mpx": "megapixel", "MP": "megapixel", "gm": "gram",
    "gms": "gram", "ltr": "liter", "ltrs": "liter", "mtr": "meter", "mtrs": "meter",
}  # fmt: skip
UNITS = _units()
# Units that are written with a dot. Symbols of the SI are not: a dot after them ends the sentence.
_DOTTED = (
    "in ft yd yds mi lb lbs oz gal gals qt qts pt pts tsp tbsp Tbsp tbs hr hrs min mins sec secs wk wks mo mos yr yrs"
)
DOTTED = frozenset(_DOTTED.split()) | {unit for unit in UNITS if " " in unit}
# Units that are said after a fraction: ½ cup is text as it is.
FOLLOWED = [
    unit
    for unit in UNITS
    if unit not in ("K", "A", "N", "b", "h", "d", "y", "a", "AU", "pt", "ac", "cd", "st", "pp", "M", "T")
]


def _glued(match: Any) -> bool:
    return bool(match["hyphen"]) or match.start("unit") == match.end("amount")


def _after_space(match: Any) -> bool:
    return bool(match.start("unit") > match.end("amount")) and not match["hyphen"]


def _following(match: Any) -> str:
    return str(match.string[match.end("unit") : match.end("unit") + 24])


_SOLUTION = regex.compile(r" (?:[A-Z][A-Za-z0-9]+|solutions?|aqueous|concentration)\b")  # 2 M NaOH
_KITCHEN = regex.compile(r" (?!field|magnet|scanner|and|at|in|of|or)\p{Ll}")  # 2 T butter, T cells
# 1.3m people are millions of them; 100m hurdles are not.
_COUNTED = regex.compile(
    r" (?!(?:hurdles|runners|races|sprints|heats|finals|walls|waves|swims|events|titles|records|times|across|"
    r"towers|ships)\b)(?:\p{Ll}{3,}(?<!s)s|people|children|men|women|staff|more)\b"
)


def _inch(match: Any) -> bool:
    """5 in. of rain, 5in, 5-in; not 5 in the box."""
    after = _following(match)
    return _glued(match) or bool(match["dot"]) or after[:1] in (")", ",", ";") or after.strip() == "."


# Symbols that are also something else, and when they are units.
ALONE: dict[str, Callable[[Any], bool]] = {
    "in": _inch,
    "K": _after_space,
    "T": lambda match: _after_space(match) and not _KITCHEN.match(_following(match)),
    "st": lambda match: not (_glued(match) and match["amount"][-1] == "1") and not _following(match).startswith("."),
    "A": lambda match: _after_space(match) and not _following(match)[:2].strip().isupper(),
    "N": _after_space,
    "t": lambda match: _after_space(match) or len(match["amount"]) > 1,
    "d": lambda match: _glued(match) or "." in match["amount"],
    "y": _glued,
    "MP": _glued,
    "b": lambda _match: False,
    "s": lambda match: (
        match.string[match.start() - 1 : match.start()] != "-"
        and not _following(match).startswith(" of ")
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
    "AU": _after_space,
    "M": lambda match: (
        _after_space(match) and ("." in match["amount"] or _SOLUTION.match(_following(match)) is not None)
    ),
}
