"""French."""

from __future__ import annotations

from kokoro_server.text.spoken.shared import ruleset
from kokoro_server.text.spoken.shared.table import Dates, LanguageTable, Numbers, Roman, Words, feminine

_ONES = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
    "dix-neuf"
).split()
_TENS = "_ _ vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt".split()


_has_feminine_ending = feminine("french")


def _is_feminine(noun: str) -> bool:
    return noun in ("livre sterling", "livres sterling") or _has_feminine_ending(noun)


def count(number: int, noun: str = "") -> str:
    words = _cardinal(number)
    if noun in ("mille", "mil"):
        return words.removesuffix("s") if words.endswith(("vingts", "cents")) else words
    counts = number == 1 or noun.partition(" ")[0].endswith(("s", "x"))
    return f"{words}e" if words.endswith("un") and counts and _is_feminine(noun) else words


def _cardinal(number: int) -> str:
    if number < 20:
        return _ONES[number]
    if number < 100:
        return _below_hundred(number)
    if number < 1000:
        hundred, rest = divmod(number, 100)
        before = "cent" if hundred == 1 else f"{_ONES[hundred]} cent"
        return f"{before} {_cardinal(rest)}" if rest else f"{before}s" if hundred > 1 else before
    if number < 10**6:
        thousands, rest = divmod(number, 1000)
        before = "mille" if thousands == 1 else f"{count(thousands, 'mille')} mille"
        return f"{before} {_cardinal(rest)}" if rest else before
    for power, name in ((12, "billion"), (9, "milliard"), (6, "million")):
        high, rest = divmod(number, 10**power)
        if high:
            before = f"{_cardinal(high)} {name}{'s' if high > 1 else ''}"
            return f"{before} {_cardinal(rest)}" if rest else before
    raise AssertionError(number)


def _below_hundred(number: int) -> str:
    ten, one = divmod(number, 10)
    if ten in (7, 9):
        one += 10
    if number == 80:
        return "quatre-vingts"
    if not one:
        return _TENS[ten]
    return f"{_TENS[ten]} et {_ONES[one]}" if one in (1, 11) and ten < 8 else f"{_TENS[ten]}-{_ONES[one]}"


def ordinal(number: int, ending: str, _noun: str = "") -> str:
    many = "s" if ending.endswith(("s", "ˢ")) else ""
    if number == 1:
        return ("première" if ending.startswith(("r", "èr", "ʳᵉ")) else "premier") + many
    if ending.startswith(("nd", "d")):
        return ("seconde" if ending.startswith(("nde", "de")) else "second") + many
    words = _cardinal(number)
    if words.endswith(("vingts", "cents")):
        words = words[:-1]
    words = words[:-1] if words.endswith("e") else f"{words}u" if words.endswith("cinq") else words
    words = f"{words[:-1]}v" if words.endswith("neuf") else words
    return f"{words}ième{many}"


def _fraction(upper: int, lower: int, noun: str) -> str | None:
    if not 0 < upper < 100 or not 1 < lower <= 10:
        return None
    many = "s" if upper > 1 else ""
    if lower == 2:
        return "une demi" if upper == 1 and _is_feminine(noun) else f"{count(upper)} demi{many}"
    name = {3: "tiers", 4: f"quart{many}"}.get(lower, f"{ordinal(lower, 'e')}{many}")
    return f"{count(upper)} {name}{' de' if noun else ''}"


def _mixed(whole: int, upper: int, lower: int, noun: str) -> str | None:
    if (upper, lower) == (1, 2):
        return f"{count(whole, noun)} et {'demie' if _is_feminine(noun) else 'demi'}"
    part = _fraction(upper, lower, "")
    return part and f"{count(whole)} et {part}"


def _clock(hour: int, minute: int, _marked: bool) -> str:
    hours = f"{count(hour, 'heures')} heure{'s' if hour > 1 else ''}"
    return f"{hours} {count(minute)}" if minute else hours


def _ruler(number: int, name: str) -> str:
    feminine = name in ("Élisabeth", "Elisabeth", "Catherine", "Marie", "Anne", "Victoria", "Isabelle")
    return ordinal(1, "re" if feminine else "er") if number == 1 else count(number)


def _plural(word: str) -> str:
    return word if word.endswith(("s", "x")) else f"{word}s"


_WORDS = Words.load("french", _plural)
TABLE = LanguageTable(
    words=_WORDS,
    numbers=Numbers(
        count=count,
        ordinal=ordinal,
        ordinal_endings=r"(?:ers?|ères?|res?|nde?s?|de?s?|ièmes?|èmes?|emes?|es?|ᵉʳ|ʳᵉ|ᵉˢ|ᵉ)",
        takes_one=lambda whole, _decimals: whole in ("0", "1"),
        of=lambda noun: f"d'{noun}" if noun[0].lower() in "aeiouyéèêhœ" else f"de {noun}",
        fraction=_fraction,
        mixed=_mixed,
    ),
    dates=Dates(
        year=count,
        before_dates=r"le|du|au|depuis|jusqu['’]au|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|date ?:",
        clock=_clock,
        hours_mark=r"heures|h",
        half_day=lambda hour, after_noon: (
            "{} du matin" if not after_noon else "{} de l'après-midi" if hour < 6 or hour == 12 else "{} du soir"
        ),
    ),
    roman=Roman(
        ruler=_ruler,
        century=lambda number: count(number),
        centuries=r"[Ss]iècles?",
        nth=lambda number, noun: ordinal(number, "re" if _is_feminine(noun) else "er"),
        endings=r"(?:ers?|ères?|res?|nde?|ièmes?|èmes?|emes?|es?|ᵉʳ|ʳᵉ|ᵉ)",
    ),
    name_cents=False,
    per=lambda unit: f"par {unit}",
    phones=r"0D(?:[ .\-\xa0]D{2}){4}|0D{9}|D{4}[ ]D{2}[ ]D{2}[ ]D{2}",
    before_phones=r"[Tt][ée]l\.?|[Tt]éléphone|[Pp]ortable|[Mm]obile|[Ff]ax|[Aa]ppelez le|[Aa]ppeler le",
    phone_pairs=True,
)
RULESET = ruleset(TABLE)
