"""Italian."""

from __future__ import annotations

import regex

from kokoro_server.text.spoken.shared import ruleset
from kokoro_server.text.spoken.shared.table import Dates, LanguageTable, Numbers, Roman, Words, feminine

_ONES = (
    "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici "
    "diciassette diciotto diciannove"
).split()
_TENS = "_ _ venti trenta quaranta cinquanta sessanta settanta ottanta novanta".split()
_ORDINALS = "_ primo secondo terzo quarto quinto sesto settimo ottavo nono decimo".split()
# Before these a masculine noun has `uno`: uno studente, uno zaino.
_HARD = regex.compile(r"(?i)(?:s[bcdfglmnpqrtv]|z|gn|ps|pn|x|y)")


_is_feminine = feminine("italian")


def count(number: int, noun: str = "") -> str:
    if number == 1 and noun:
        return "una" if _is_feminine(noun) else "uno" if _HARD.match(noun) else "un"
    return _cardinal(number)


def _cardinal(number: int) -> str:
    if number < 20:
        return _ONES[number]
    if number < 100:
        ten, one = divmod(number, 10)
        before = _TENS[ten][:-1] if one in (1, 8) else _TENS[ten]
        return before if one == 0 else f"{before}tré" if one == 3 else before + _ONES[one]
    if number < 1000:
        hundred, rest = divmod(number, 100)
        before = "cento" if hundred == 1 else f"{_ONES[hundred]}cento"
        before = before[:-1] if rest // 10 == 8 or rest == 8 else before
        return _accented(before + _cardinal(rest), rest) if rest else before
    if number < 10**6:
        thousands, rest = divmod(number, 1000)
        before = "mille" if thousands == 1 else f"{_cardinal(thousands).replace('tré', 'tre')}mila"
        # A word of all the digits is too long to be said well.
        joint = " " if thousands > 20 and rest > 99 else ""
        return _accented(f"{before}{joint}{_cardinal(rest)}", rest) if rest else before
    for power, single, several in ((12, "bilione", "bilioni"), (9, "miliardo", "miliardi"), (6, "milione", "milioni")):
        high, rest = divmod(number, 10**power)
        if high:
            before = f"un {single}" if high == 1 else f"{_cardinal(high)} {several}"
            return f"{before} {_cardinal(rest)}" if rest else before
    raise AssertionError(number)


def _accented(words: str, rest: int) -> str:
    return f"{words[:-3]}tré" if rest == 3 else words


def ordinal(number: int, ending: str, noun: str = "") -> str:
    if number == 0:
        return "zero"
    if number <= 10:
        words = _ORDINALS[number]
    else:
        stem = _cardinal(number).replace("tré", "tre")
        keeps = number % 10 in (3, 6) and number % 100 not in (13, 16)
        stem = f"{stem[:-4]}mill" if stem.endswith("mila") else stem if keeps else stem[:-1]
        words = f"{stem}esimo"
    feminine = ending.strip(".") in ("ª", "a") or (ending == "º" and noun and _is_feminine(noun) and noun.endswith("a"))
    return f"{words[:-1]}a" if feminine else words


def _fraction(upper: int, lower: int, noun: str) -> str | None:
    if not 0 < upper < 100 or not 1 < lower <= 100:
        return None
    if lower == 2:
        if upper == 1 and noun:
            return "mezza" if _is_feminine(noun) else "mezzo"
        return "un mezzo" if upper == 1 else f"{count(upper)} mezzi"
    name = ordinal(lower, "")
    name = name if upper == 1 else f"{name[:-1]}i"
    return f"{'un' if upper == 1 else count(upper)} {name}{' di' if noun else ''}"


def _mixed(whole: int, upper: int, lower: int, noun: str) -> str | None:
    if (upper, lower) == (1, 2):
        return f"{count(whole)} e {'mezza' if noun.endswith(('a', 'e')) else 'mezzo'}"
    part = _fraction(upper, lower, "")
    return part and f"{count(whole)} e {part}"


def _clock(hour: int, minute: int, _marked: bool) -> str:
    hours = "zero" if hour == 0 else count(hour, "ora") if hour == 1 else count(hour)
    return f"{hours} e {count(minute)}" if minute else "mezzanotte" if hour == 0 else hours


def _half_day(hour: int, after_noon: bool) -> str:
    if not after_noon:
        return "{} di mattina" if hour < 12 else "{} di notte"
    return "{} del pomeriggio" if hour < 6 or hour == 12 else "{} di sera"


def _ruler(number: int, name: str) -> str:
    feminine = name.endswith("a") and name not in ("Luca", "Andrea", "Nicola", "Enea")
    return ordinal(number, "ª" if feminine else "")


def _per(unit: str) -> str:
    if unit[0] in "aeiou":
        return f"all'{unit}"
    return f"alla {unit}" if _is_feminine(unit) else f"al {unit}"


def _plural(word: str) -> str:
    return word[:-1] + {"o": "i", "a": "e", "e": "i"}.get(word[-1], word[-1])


_WORDS = Words.load("italian", _plural)
TABLE = LanguageTable(
    words=_WORDS,
    numbers=Numbers(
        count=count,
        ordinal=ordinal,
        ordinal_endings=r"\.?[ºª]",
        of=lambda noun: f"di {noun}",
        fraction=_fraction,
        mixed=_mixed,
    ),
    dates=Dates(
        year=count,
        before_dates=r"il|dal|al|del|dall|entro il|lunedì|martedì|mercoledì|giovedì|venerdì|sabato|domenica|data:",
        clock=_clock,
        before_times=r"alle|dalle|[Oo]re|delle|le ore|verso le|[Aa]lle ore|h",
        hours_mark=r"ore|h",
        half_day=_half_day,
    ),
    roman=Roman(
        ruler=_ruler,
        century=lambda number: ordinal(number, ""),
        centuries=r"[Ss]ecol[oi]|[Ss]ec\.",
        nth=lambda number, noun: ordinal(number, "ª" if _is_feminine(noun) else "º"),
        endings=r"(?:[°º]|(?!))",
    ),
    per=_per,
    phones=(
        r"0D{1,3}[ /.\-]D{5,8}|0D{1,3}[ /.\-]D{3,4}[ ]D{3,4}|3D{2}[ /.\-]D{6,7}|3D{2}[ .\-]D{3}[ .\-]D{3,4}|"
        r"800[ .\-]D{3}[ .\-]?D{3}"
    ),
    before_phones=r"[Tt]el\.?|[Tt]elefono|[Cc]ell\.?|[Cc]ellulare|[Ff]ax|[Cc]hiama(?:re|te)?(?: il| lo)?",
)
RULESET = ruleset(TABLE)
