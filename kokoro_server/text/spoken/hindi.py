"""Hindi. Digits are Arabic or Devanagari."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kokoro_server.text.spoken.shared import ruleset
from kokoro_server.text.spoken.shared.table import Dates, LanguageTable, Numbers, Roman, Words

_T = TypeVar("_T")
_ONES = (
    "शून्य एक दो तीन चार पाँच छह सात आठ नौ दस ग्यारह बारह तेरह चौदह पंद्रह सोलह सत्रह अठारह उन्नीस बीस इक्कीस बाईस "
    "तेईस चौबीस पच्चीस छब्बीस सत्ताईस अट्ठाईस उनतीस तीस इकतीस बत्तीस तैंतीस चौंतीस पैंतीस छत्तीस सैंतीस अड़तीस "
    "उनतालीस चालीस इकतालीस बयालीस तैंतालीस चौवालीस पैंतालीस छियालीस सैंतालीस अड़तालीस उनचास पचास इक्यावन बावन तिरपन "
    "चौवन पचपन छप्पन सत्तावन अट्ठावन उनसठ साठ इकसठ बासठ तिरसठ चौंसठ पैंसठ छियासठ सड़सठ अड़सठ उनहत्तर सत्तर इकहत्तर "
    "बहत्तर तिहत्तर चौहत्तर पचहत्तर छिहत्तर सतहत्तर अठहत्तर उनासी अस्सी इक्यासी बयासी तिरासी चौरासी पचासी छियासी "
    "सत्तासी अट्ठासी नवासी नब्बे इक्यानवे बानवे तिरानवे चौरानवे पचानवे छियानवे सत्तानवे अट्ठानवे निन्यानवे"
).split()
_SCALES = ((10**11, "खरब"), (10**9, "अरब"), (10**7, "करोड़"), (10**5, "लाख"), (10**3, "हज़ार"), (10**2, "सौ"))
_ORDINALS = {1: "पहला", 2: "दूसरा", 3: "तीसरा", 4: "चौथा", 6: "छठा"}
_FRACTIONS = {2: "आधा", 3: "तिहाई", 4: "चौथाई", 5: "पाँचवाँ हिस्सा", 8: "आठवाँ हिस्सा", 10: "दसवाँ हिस्सा"}
_RULERS = "_ प्रथम द्वितीय तृतीय चतुर्थ पंचम षष्ठ सप्तम अष्टम नवम दशम".split()


def count(number: int, _noun: str = "") -> str:
    if number == 100:
        return "सौ"
    words = list[str]()
    for scale, name in _SCALES:
        high, number = divmod(number, scale)
        if high:
            words.append(f"{count(high)} {name}")
    if number or not words:
        words.append(_ONES[number])
    return " ".join(words)


def _year(number: int, _noun: str) -> str:
    high, low = divmod(number, 100)
    if not 11 <= high <= 19:
        return count(number)
    return f"{_ONES[high]} सौ {_ONES[low]}" if low else f"{_ONES[high]} सौ"


def ordinal(number: int, ending: str, _noun: str = "") -> str:
    """The vowel of the ending says gender and case: 21वीं, 5वें, 1ला, 2री."""
    vowel = "ी" if "ी" in ending else "े" if "े" in ending else "ा"
    if number in _ORDINALS:
        return _ORDINALS[number][:-1] + vowel
    return count(number) + {"ी": "वीं", "े": "वें", "ा": "वाँ"}[vowel]


def _fraction(upper: int, lower: int, _noun: str) -> str | None:
    if lower not in _FRACTIONS or not 0 < upper < 100:
        return None
    return _FRACTIONS[2] if (upper, lower) == (1, 2) else f"{count(upper)} {_FRACTIONS[lower]}"


def _mixed(whole: int, upper: int, lower: int, _noun: str) -> str | None:
    if (upper, lower) == (1, 2):
        return _half(whole)
    if (upper, lower) == (1, 4):
        return "सवा" if whole == 1 else f"सवा {count(whole)}"
    if (upper, lower) == (3, 4):
        return f"पौने {count(whole + 1)}"
    part = _fraction(upper, lower, "")
    return part and f"{count(whole)} सही {part}"


def _half(whole: int) -> str:
    return {0: "आधा", 1: "डेढ़", 2: "ढाई"}.get(whole, f"साढ़े {count(whole)}")


def _clock(hour: int, minute: int, marked: bool) -> str:
    if not minute:
        return f"{count(hour)} बजे"
    words = _half(hour) if minute == 30 and 0 < hour < 13 else f"{count(hour)} {count(minute)}"
    return f"{words} बजे" if marked else words


def _half_day(hour: int, after_noon: bool) -> str:
    if not after_noon:
        return "सुबह {}" if 3 < hour < 12 else "रात {}"
    return "दोपहर {}" if hour in (12, 1, 2, 3) else "शाम {}" if hour < 8 else "रात {}"


def _both_spellings(entries: Mapping[str, _T]) -> dict[str, _T]:
    """Also with the letters that have their dot in one character."""
    return {key: each for name, each in entries.items() for key in (name, _one_character(name))}


def _one_character(text: str) -> str:
    for two, one in (("ड़", "\u095c"), ("ज़", "\u095b"), ("फ़", "\u095e")):
        text = text.replace(two, one)
    return text


def _same(word: str) -> str:
    return word


_WORDS = Words.load("hindi", _same, _both_spellings)
TABLE = LanguageTable(
    words=_WORDS,
    numbers=Numbers(
        count=count,
        ordinal=ordinal,
        ordinal_endings=r"[-]?(?:व[ाीे][ँं]|ल[ाीे]|र[ाीे]|थ[ाीे]|ठ[ाीे]|ठव[ाीे][ँं])",
        comma_is_decimal=False,
        decimals_as_number=0,
        of=_same,
        after_scores=r" से(?![\p{L}\p{M}])",
        fraction=_fraction,
        mixed=_mixed,
    ),
    dates=Dates(
        year=_year,
        before_dates=r"तारीख|दिनांक|दिनांक:|तिथि|सोमवार|मंगलवार|बुधवार|गुरुवार|शुक्रवार|शनिवार|रविवार",
        clock=_clock,
        hours_mark=r"बजे",
        half_day=_half_day,
    ),
    roman=Roman(
        ruler=lambda number, _name: _RULERS[number] if number <= 10 else ordinal(number, "ा"),
        century=lambda number: ordinal(number, "ी"),
        centuries=r"(?!)",
        nth=lambda _number, _noun: None,
        endings=r"व[ाीे][ँं]",
    ),
    degree_is_ordinal=False,
    per=lambda unit: f"प्रति {unit}",
    phones=r"0?[6-9६-९]D{4}[ -]?D{5}|1800[ -]?D{2,3}[ -]?D{3,4}|0D{2,4}[ -]D{6,8}|D{3}-D{3}-D{4}",
    before_phones=r"फ़ोन|फोन|मोबाइल|दूरभाष|हेल्पलाइन|कॉल करें|संपर्क|नंबर|व्हाट्सऐप|पिन कोड|पिन|OTP|ओटीपी",
)
RULESET = ruleset(TABLE)
