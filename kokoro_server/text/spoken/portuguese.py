"""Brazilian Portuguese."""

from __future__ import annotations

import regex

from kokoro_server.text.spoken.shared import ruleset
from kokoro_server.text.spoken.shared.table import Dates, LanguageTable, Numbers, Roman, Words, feminine

_ONES = (
    "zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezesseis dezessete "
    "dezoito dezenove"
).split()
_TENS = "_ _ vinte trinta quarenta cinquenta sessenta setenta oitenta noventa".split()
_HUNDREDS = "_ cento duzentos trezentos quatrocentos quinhentos seiscentos setecentos oitocentos novecentos".split()
_ORDINALS = "_ primeiro segundo terceiro quarto quinto sexto sétimo oitavo nono décimo".split()
_ORDINAL_TENS = (
    "_ décimo vigésimo trigésimo quadragésimo quinquagésimo sexagésimo septuagésimo octogésimo nonagésimo".split()
)
_FRACTIONS = "_ _ meio terço quarto quinto sexto sétimo oitavo nono décimo".split()


_is_feminine = feminine("portuguese")


def count(number: int, noun: str = "") -> str:
    words = _cardinal(number)
    counts = number == 1 or noun == "mil" or noun.partition(" ")[0].endswith("s")
    if not counts or not _is_feminine(noun):
        return words
    before, million, after = words.rpartition("milhões" if "milhões" in words else "milhão")
    after = regex.sub(r"\bum\b", "uma", regex.sub(r"\bdois\b", "duas", after))
    return f"{before}{million}{regex.sub(r'(?<=zent|cent|nhent)os', 'as', after)}"


def _cardinal(number: int) -> str:
    if number < 20:
        return _ONES[number]
    if number < 100:
        ten, one = divmod(number, 10)
        return f"{_TENS[ten]} e {_ONES[one]}" if one else _TENS[ten]
    if number < 1000:
        hundred, rest = divmod(number, 100)
        return "cem" if number == 100 else f"{_HUNDREDS[hundred]} e {_cardinal(rest)}" if rest else _HUNDREDS[hundred]
    if number < 10**6:
        thousands, rest = divmod(number, 1000)
        return _with_rest("mil" if thousands == 1 else f"{_cardinal(thousands)} mil", rest)
    names = ((12, "trilhão", "trilhões"), (9, "bilhão", "bilhões"), (6, "milhão", "milhões"))
    for power, single, several in names:
        high, rest = divmod(number, 10**power)
        if high:
            return _with_rest(f"um {single}" if high == 1 else f"{_cardinal(high)} {several}", rest)
    raise AssertionError(number)


def _with_rest(before: str, rest: int) -> str:
    if not rest:
        return before
    return f"{before} {'e ' if rest < 100 or (rest < 1000 and rest % 100 == 0) else ''}{_cardinal(rest)}"


def _ordinal_words(number: int) -> str:
    if number <= 10:
        return _ORDINALS[number]
    if number < 100:
        ten, one = divmod(number, 10)
        return f"{_ORDINAL_TENS[ten]} {_ORDINALS[one]}" if one else _ORDINAL_TENS[ten]
    if number < 200:
        return f"centésimo {_ordinal_words(number - 100)}" if number > 100 else "centésimo"
    return "milésimo" if number == 1000 else _cardinal(number)


def ordinal(number: int, ending: str, noun: str = "") -> str:
    if number == 0:
        return "zero"
    if (number, noun) == (3, "feira"):
        return "terça"
    words = _ordinal_words(number)
    return words.replace("o ", "a ").removesuffix("o") + "a" if ending.strip(".") in ("ª", "a", "as", "ªs") else words


def _fraction(upper: int, lower: int, noun: str) -> str | None:
    if not 0 < upper < 100 or not 1 < lower <= 10:
        return None
    if lower == 2 and upper == 1:
        return ("meia" if _is_feminine(noun) else "meio") if noun else "um meio"
    return f"{count(upper)} {_FRACTIONS[lower]}{'s' if upper > 1 else ''}{' de' if noun else ''}"


def _mixed(whole: int, upper: int, lower: int, noun: str) -> str | None:
    if (upper, lower) == (1, 2):
        return f"{count(whole, noun)} e {'meia' if _is_feminine(noun) else 'meio'}"
    part = _fraction(upper, lower, "")
    return part and f"{count(whole)} e {part}"


def _clock(hour: int, minute: int, marked: bool) -> str:
    hours = count(hour, "horas")
    if not minute:
        return f"{hours} hora{'s' if hour != 1 else ''}"
    return f"{hours} {'horas e ' if marked and hour != 1 else 'hora e ' if marked else 'e '}{count(minute)}"


def _half_day(hour: int, after_noon: bool) -> str:
    if not after_noon:
        return "{} da manhã" if hour < 12 else "{} da noite"
    return "{} da tarde" if hour < 6 or hour == 12 else "{} da noite"


def _ruler(number: int, name: str) -> str:
    feminine = name.endswith("a") or name in ("Elizabeth", "Isabel", "Beatriz")
    return ordinal(number, "ª" if feminine else "") if number <= 10 else count(number)


def _plural(word: str) -> str:
    return word + ("" if word.endswith("s") else "es" if word[-1] in "rz" else "s")


_WORDS = Words.load("portuguese", _plural)
TABLE = LanguageTable(
    words=_WORDS,
    numbers=Numbers(
        count=count,
        ordinal=ordinal,
        ordinal_endings=r"\.?(?:[ºª]s?|o|a)",
        of=lambda noun: f"de {noun}",
        fraction=_fraction,
        mixed=_mixed,
    ),
    dates=Dates(
        year=count,
        before_dates=(
            r"em|no dia|dia|desde|até|data:|segunda|terça|quarta|quinta|sexta|(?:segunda|terça|quarta|quinta|"
            r"sexta)-feira,?|sábado|domingo"
        ),
        clock=_clock,
        before_times=r"às|das|as",
        hours_mark=r"horas|hs|h",
        half_day=_half_day,
    ),
    roman=Roman(
        ruler=_ruler,
        century=lambda number: ordinal(number, "") if number <= 10 else count(number),
        centuries=r"[Ss]éculos?|[Ss]éc\.",
        nth=lambda number, noun: ordinal(number, "ª" if _is_feminine(noun) else "º"),
    ),
    per=lambda unit: f"por {unit}",
    phones=(
        r"(?!(?:19|20)D{2}-(?:19|20)D{2})9?D{4}-D{4}|D{2}\.D{3}\.D{3}/D{4}-D{2}|9[ ]?D{4}-D{4}|0800[ -]?D{3}[ -]?D{4}|"
        r"D{2}[ ]9?D{4}-D{4}|D{3}\.D{3}\.D{3}-D{2}|D{5}-D{3}"
    ),
    before_phones=r"[Tt]el\.?|[Tt]elefone|[Cc]elular|[Cc]el\.?|[Ll]igue(?: para)?|[Ff]ax|[Ww]hats[Aa]pp|CPF|CEP",
)
RULESET = ruleset(TABLE)
