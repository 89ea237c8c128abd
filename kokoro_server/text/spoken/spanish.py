"""Spanish."""

from __future__ import annotations

from kokoro_server.text.spoken.shared import ruleset
from kokoro_server.text.spoken.shared.table import Dates, LanguageTable, Numbers, Roman, Words, feminine

_ONES = (
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete "
    "dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete "
    "veintiocho veintinueve"
).split()
_TENS = "_ _ _ treinta cuarenta cincuenta sesenta setenta ochenta noventa".split()
_HUNDREDS = (
    "_ ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos".split()
)
_ORDINALS = (
    "_ primero segundo tercero cuarto quinto sexto séptimo octavo noveno décimo undécimo duodécimo decimotercero "
    "decimocuarto decimoquinto decimosexto decimoséptimo decimoctavo decimonoveno vigésimo"
).split()
_ORDINAL_TENS = (
    "_ _ vigésimo trigésimo cuadragésimo quincuagésimo sexagésimo septuagésimo octogésimo nonagésimo".split()
)
_FRACTIONS = "_ _ medio tercio cuarto quinto sexto séptimo octavo noveno décimo".split()


_is_feminine = feminine("spanish")


def count(number: int, noun: str = "") -> str:
    counts = number == 1 or noun == "mil" or noun.partition(" ")[0].endswith("s")
    return _agree(_cardinal(number), noun if counts else "")


def _cardinal(number: int) -> str:
    if number < 30:
        return _ONES[number]
    if number < 100:
        ten, one = divmod(number, 10)
        return f"{_TENS[ten]} y {_ONES[one]}" if one else _TENS[ten]
    if number < 1000:
        hundred, rest = divmod(number, 100)
        return "cien" if number == 100 else f"{_HUNDREDS[hundred]} {_cardinal(rest) if rest else ''}".strip()
    if number < 10**6:
        thousands, rest = divmod(number, 1000)
        before = f"{_short(_cardinal(thousands))} mil" if thousands > 1 else "mil"
        return f"{before} {_cardinal(rest)}" if rest else before
    power = 12 if number >= 10**12 else 6
    high, rest = divmod(number, 10**power)
    name = {6: ("millón", "millones"), 12: ("billón", "billones")}[power]
    before = f"un {name[0]}" if high == 1 else f"{_short(_cardinal(high))} {name[1]}"
    return f"{before} {_cardinal(rest)}" if rest else before


def _short(words: str) -> str:
    """As before a masculine noun."""
    if words.endswith("veintiuno"):
        return f"{words[:-9]}veintiún"
    return words[:-1] if words.endswith("uno") else words


def _agree(words: str, noun: str) -> str:
    if not noun:
        return words
    if not _is_feminine(noun):
        return _short(words)
    before, million, after = words.rpartition("millones" if "millones" in words else "millón")
    after = after.replace("cientos", "cientas").replace("quinientos", "quinientas")
    after = f"{after[:-1]}a" if after.endswith("uno") else after
    return f"{before}{million}{after}"


def _ordinal_words(number: int) -> str:
    if number <= 20:
        return _ORDINALS[number]
    if number < 100:
        ten, one = divmod(number, 10)
        return f"{_ORDINAL_TENS[ten]} {_ORDINALS[one]}" if one else _ORDINAL_TENS[ten]
    return "centésimo" if number == 100 else "milésimo" if number == 1000 else _cardinal(number)


def ordinal(number: int, ending: str, noun: str = "") -> str:
    if not 0 < number <= 100 and number != 1000:
        return count(number, "")
    words = _ordinal_words(number)
    if ending.strip(".") in ("ª", "a", "ra", "da", "ta", "va", "na", "ma", "as"):
        return words.replace("o ", "a ").removesuffix("o") + "a"
    short = "r" in ending or (ending.strip(".") in ("º", "o", "°") and noun)
    return words[:-1] if short and words.endswith(("primero", "tercero")) else words


def _fraction(upper: int, lower: int, noun: str) -> str | None:
    if not 0 < upper < 100 or not 1 < lower <= 10:
        return None
    if lower == 2 and upper == 1:
        return ("media" if _is_feminine(noun) else "medio") if noun else "un medio"
    return f"{_short(_cardinal(upper))} {_FRACTIONS[lower]}{'s' if upper > 1 else ''}{' de' if noun else ''}"


def _mixed(whole: int, upper: int, lower: int, noun: str) -> str | None:
    if (upper, lower) == (1, 2):
        return f"{count(whole, noun if _is_feminine(noun) else '')} y {'media' if _is_feminine(noun) else 'medio'}"
    part = _fraction(upper, lower, "")
    return part and f"{count(whole)} y {part}"


def _clock(hour: int, minute: int, marked: bool) -> str:
    hours = count(hour, "horas")
    if not minute:
        return f"{hours} hora{'s' if hour != 1 else ''}" if marked or hour > 12 or hour == 0 else hours
    return f"{hours} {'y ' if minute < 10 or hour == 1 else ''}{count(minute)}{' horas' if marked else ''}"


def _half_day(hour: int, after_noon: bool) -> str:
    if not after_noon:
        return "{} de la mañana" if hour < 12 else "{} de la noche"
    return "{} del mediodía" if hour == 12 else "{} de la tarde" if hour < 8 else "{} de la noche"


def _ruler(number: int, name: str) -> str:
    feminine = name.endswith("a") or name in ("Isabel", "Beatriz", "Carmen")
    return ordinal(number, "ª" if feminine else "") if number <= 10 else count(number)


def _plural(word: str) -> str:
    return word + ("" if word.endswith("s") else "s" if word[-1] in "aeiouét" else "es")


_WORDS = Words.load("spanish", _plural)
TABLE = LanguageTable(
    words=_WORDS,
    numbers=Numbers(
        count=count,
        ordinal=ordinal,
        ordinal_endings=r"\.?(?:[ºª]|er|o|a)(?:s)?|\.?(?:ro|ra|do|da|to|ta|mo|ma|vo|va|no|na)",
        of=lambda noun: f"de {noun}",
        fraction=_fraction,
        mixed=_mixed,
    ),
    dates=Dates(
        year=count,
        before_dates=r"el|día|del|al|desde|hasta|fecha:?|lunes|martes|miércoles|jueves|viernes|sábado|domingo|hoy,?",
        clock=_clock,
        before_times=r"a las|las|hora:|horas:",
        hours_mark=r"horas|hrs?\.?|hs\.?|h\.?",
        half_day=_half_day,
    ),
    roman=Roman(
        ruler=_ruler,
        century=lambda number: ordinal(number, "") if number <= 10 else count(number),
        centuries=r"[Ss]iglos?|[Ss]\.|ss\.",
        nth=lambda number, noun: ordinal(number, "ª" if _is_feminine(noun) else "º", noun),
    ),
    per=lambda unit: f"por {unit}",
    phones=(
        r"[6789]D{2}[ .-]D{3}[ .-]D{3}|[6789]D{2}(?:[ .-]D{2}){3}|9D[ .-]D{3}[ .-]D{2}[ .-]D{2}|"
        r"\(D{2,3}\)[ ]?D{3,4}[ -]D{4}|D{2}[ -]D{4}[ -]D{4}|90[0-2][ ]D{3}[ ]D{3}|[2-9]D{2}-D{4}"
    ),
    before_phones=r"[Tt]el\.?|[Tt]eléfono|[Tt]fno\.?|[Mm]óvil|[Cc]elular|[Ll]lam[ae](?:r|me|nos)? al?|[Ff]ax",
)
RULESET = ruleset(TABLE)
