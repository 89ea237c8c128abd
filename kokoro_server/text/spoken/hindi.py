"""Hindi. Digits are Arabic or Devanagari."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kokoro_server.text.spoken.shared import ruleset
from kokoro_server.text.spoken.shared.table import (
    Big,
    Dates,
    LanguageTable,
    Noun,
    Numbers,
    Roman,
    currencies,
    nouns,
    pairs,
    signs,
)

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


def _big(word: str) -> Big:
    return Big(Noun(word, word), of=False)


_BIGS = {
    **{word: _big(word) for word in "हज़ार लाख करोड़ अरब खरब मिलियन बिलियन ट्रिलियन".split()},
    **dict.fromkeys(("हजार", "k", "K"), _big("हज़ार")),
    **dict.fromkeys(("lakh", "lakhs", "L"), _big("लाख")),
    **dict.fromkeys(("crore", "crores", "Cr", "cr"), _big("करोड़")),
    **dict.fromkeys(("million", "M", "mn"), _big("मिलियन")),
    **dict.fromkeys(("billion", "B", "bn"), _big("बिलियन")),
}
_MONTHS = "जनवरी फ़रवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर".split()
_SHORT_MONTHS = {
    "जन": 1, "फ़र": 2, "फर": 2, "अप्रै": 4, "अग": 8, "सित": 9, "अक्टू": 10, "अक्तू": 10, "नव": 11, "दिस": 12,
    "फरवरी": 2, "फ़रवरी": 2, "सितम्बर": 9, "अक्तूबर": 10, "नवम्बर": 11, "दिसम्बर": 12,
}  # fmt: skip

TABLE = LanguageTable(
    numbers=Numbers(
        count=count,
        ordinal=ordinal,
        ordinal_endings=r"[-]?(?:व[ाीे][ँं]|ल[ाीे]|र[ाीे]|थ[ाीे]|ठ[ाीे]|ठव[ाीे][ँं])",
        takes_one=lambda whole, decimals: whole == "1" and not decimals,
        comma_is_decimal=False,
        comma="दशमलव",
        point="दशमलव",
        decimals_as_number=0,
        bigs=_both_spellings(_BIGS),
        of=_same,
        small_words=frozenset(),
        to="से",
        by="गुणा",
        ratio="अनुपात",
        over="बटा",
        after_scores=r" से(?![\p{L}\p{M}])",
        score="",
        fraction=_fraction,
        mixed=_mixed,
    ),
    dates=Dates(
        months=tuple(_MONTHS),
        short_months=_both_spellings(_SHORT_MONTHS),
        joint="",
        first="एक",
        year=_year,
        before_dates=r"तारीख|दिनांक|दिनांक:|तिथि|सोमवार|मंगलवार|बुधवार|गुरुवार|शुक्रवार|शनिवार|रविवार",
        clock=_clock,
        before_times=r"(?!)",
        hours_mark=r"बजे",
        half_day=_half_day,
    ),
    roman=Roman(
        ruler=lambda number, _name: _RULERS[number] if number <= 10 else ordinal(number, "ा"),
        century=lambda number: ordinal(number, "ी"),
        centuries=r"(?!)",
        counted=(r"अध्याय|भाग|खंड|खण्ड|चरण|प्रकार|स्तर|अनुच्छेद|कक्षा|श्रेणी|अनुसूची|पृष्ठ|संख्या|नंबर|टाइप|फेज|फ़ेज़|वर्ग|युद्ध|अंक|दृश्य"),
        nth=lambda _number, _noun: None,
        endings=r"व[ाीे][ँं]",
    ),
    currencies=currencies(
        "₹,INR,Rs,Rs.,रु.,रु,रू.,रू,₨ रुपये / पैसे; $,US$,USD डॉलर / सेंट; €,EUR यूरो / सेंट; £,GBP पाउंड / पेंस; "
        "¥,￥,JPY येन; R$,BRL रियल / सेंटावो; CNY,RMB युआन; ₽,RUB रूबल; ₩,KRW वॉन; ₺,TRY लीरा; ₿,BTC बिटकॉइन; CHF "
        "स्विस_फ़्रैंक; CAD,C$ कनाडाई_डॉलर / सेंट; AUD,A$ ऑस्ट्रेलियाई_डॉलर / सेंट; NPR नेपाली_रुपये / पैसे; PKR "
        "पाकिस्तानी_रुपये / पैसे; AED दिरहम; SAR रियाल; ৳,BDT टका; ₱ पेसो; ¢ सेंट; ₴,UAH रिव्निया; ₪,ILS शेकेल; "
        "฿,THB बाट; ₫,VND डोंग; ₦,NGN नाइरा",
        _same,
    ),
    cents=" ",
    name_cents=True,
    units=nouns(
        "km,Km,KM,किमी,कि.मी.,कि.मी,कि॰मी॰ किलोमीटर; m,मी,मी. मीटर; cm,सेमी,से.मी.,से.मी सेंटीमीटर; "
        "mm,मिमी,मि.मी.,मि.मी मिलीमीटर; kg,Kg,KG,किग्रा,कि.ग्रा.,कि.ग्रा किलोग्राम; g,gm,ग्रा,ग्रा. ग्राम; "
        "mg,मिग्रा,मि.ग्रा. मिलीग्राम; µg,μg माइक्रोग्राम; t टन; l,ltr,LTR,Ltr,लीटर लीटर; ml,mL,मिली,मि.ली.,मि.ली "
        "मिलीलीटर; h,hr,hrs,घंटा घंटा घंटे; min,मि. मिनट; s,sec सेकंड; ms मिलीसेकंड; ha,हे. हेक्टेयर; W वाट; kW "
        "किलोवाट; MW मेगावाट; GW गीगावाट; kWh किलोवाट_घंटा; V वोल्ट; kV किलोवोल्ट; mA मिलीएम्पियर; mAh "
        "मिलीएम्पियर_घंटा; Hz हर्ट्ज़; kHz किलोहर्ट्ज़; MHz मेगाहर्ट्ज़; GHz गीगाहर्ट्ज़; KB,kB किलोबाइट; MB "
        "मेगाबाइट; GB,जीबी गीगाबाइट; TB टेराबाइट; Mb मेगाबिट; Gb गीगाबिट; Mbps,एमबीपीएस मेगाबिट_प्रति_सेकंड; Gbps "
        "गीगाबिट_प्रति_सेकंड; kbps किलोबिट_प्रति_सेकंड; kcal किलोकैलोरी; cal कैलोरी; kJ किलोजूल; J जूल; Pa पास्कल; "
        "kPa किलोपास्कल; hPa हेक्टोपास्कल; bar बार; dB डेसिबल; hp हॉर्सपावर; mi मील; ft फ़ुट; in इंच; lb,lbs पाउंड; "
        "oz आउंस; mph मील_प्रति_घंटा; px पिक्सेल; rpm चक्कर_प्रति_मिनट; fps फ़्रेम_प्रति_सेकंड; nm नैनोमीटर; µm,μm "
        "माइक्रोमीटर; N न्यूटन; Ω ओम; ppm भाग_प्रति_मिलियन; सेकंड सेकंड; मिनट मिनट; किलोमीटर किलोमीटर; मीटर मीटर",
        _same,
    ),
    square="वर्ग {}",
    cubic="घन {}",
    degrees=Noun("डिग्री", "डिग्री"),
    scales={"C": "सेल्सियस", "F": "फ़ारेनहाइट", "K": "केल्विन"},
    degree_is_ordinal=False,
    per=lambda unit: f"प्रति {unit}",
    periods=pairs(
        "माह = माह; महीना = महीना; वर्ष = वर्ष; साल = साल; दिन = दिन; सप्ताह = सप्ताह; घंटा = घंटा; घंटे = घंटा; "
        "किलो = किलो; लीटर = लीटर; व्यक्ति = व्यक्ति; h = घंटा"
    ),
    titles=pairs(
        "डॉ. = डॉक्टर; डा. = डॉक्टर; डॉ॰ = डॉक्टर; प्रो. = प्रोफ़ेसर; श्री. = श्री; कु. = कुमारी; पं. = पंडित; इंजी. "
        "= इंजीनियर; मो. = मोहम्मद; स्व. = स्वर्गीय; ले. = लेफ्टिनेंट; कै. = कैप्टन; सं. = संपादक; Dr. = डॉक्टर; Mr. "
        "= मिस्टर; Mrs. = मिसेज़; Prof. = प्रोफ़ेसर; एड. = एडवोकेट; सुश्री. = सुश्री; न्या. = न्यायमूर्ति; जस्टि. = "
        "जस्टिस"
    ),
    before_numbers=pairs(
        "सं. = संख्या; नं. = नंबर; क्र. = क्रमांक; क्र.सं. = क्रम संख्या; पृ. = पृष्ठ; पृ.सं. = पृष्ठ संख्या; फ़ो. = "
        "फ़ोन; मो. = मोबाइल; अनु. = अनुच्छेद; No. = नंबर; no. = नंबर; वि.सं. = विक्रम संवत; टेली. = टेलीफ़ोन; Tel. = "
        "टेलीफ़ोन; लग. = लगभग; ख. = खंड"
    ),
    abbreviations=pairs(
        "ई.पू. = ईसा पूर्व; ई. पू. = ईसा पूर्व; ई. = ईस्वी; आदि. = आदि; उदा. = उदाहरण; यू.पी. = यू पी; एम.ए. = एम ए; "
        "बी.ए. = बी ए; पी.एम. = पी एम; डॉ. = डॉक्टर; प्रो. = प्रोफ़ेसर; etc. = इत्यादि; वि.वि. = विश्वविद्यालय; "
        "उ.प्र. = उत्तर प्रदेश; म.प्र. = मध्य प्रदेश; vs. = बनाम; vs = बनाम; लि. = लिमिटेड; प्रा. लि. = प्राइवेट "
        "लिमिटेड; कं. = कंपनी; a.m. = ए एम; p.m. = पी एम; सा. = साहब"
    ),
    spelled=frozenset(),
    letters={"a": "ए", "A": "ए", "i": "आई", "y": "वाई"},
    signs=signs(
        "& और; @ एट; # हैश; % प्रतिशत; ‰ प्रति हज़ार; + प्लस; - माइनस; − माइनस; = बराबर; ≠ बराबर नहीं; ≈ लगभग; ~ "
        "लगभग; < छोटा है; > बड़ा है; ≤ छोटा या बराबर; ≥ बड़ा या बराबर; × गुणा; · गुणा; ÷ भाग; ± प्लस माइनस; √ "
        "वर्गमूल; ∞ अनंत; ∑ योग; ∫ समाकलन; π पाई; ° डिग्री; § धारा; ¶ पैराग्राफ़; © कॉपीराइट; № नंबर; ^ की घात; / "
        "स्लैश; \\ बैकस्लैश; $ डॉलर; € यूरो; £ पाउंड; ¥ येन; ₹ रुपये; ¢ सेंट; → से; ← की ओर; ⇒ अर्थात; ↑ ऊपर; ↓ "
        "नीचे; ² का वर्ग; ³ का घन; ✓ सही; ✔ सही; ✗ गलत; ✘ गलत; ′ मिनट; ″ सेकंड; ∈ का सदस्य; ∩ सर्वनिष्ठ; ∪ संघ"
    ),
    marks=signs(
        ". डॉट; / स्लैश; : कोलन; @ एट; ? प्रश्न चिह्न; = बराबर; & एंड; # हैश; % प्रतिशत; + प्लस; ~ टिल्ड; - डैश; _ अंडरस्कोर"
    ),
    hashtag="हैशटैग",
    slashed={"और/या": "और या", "व/या": "व या"},
    phones=r"0?[6-9६-९]D{4}[ -]?D{5}|1800[ -]?D{2,3}[ -]?D{3,4}|0D{2,4}[ -]D{6,8}|D{3}-D{3}-D{4}",
    before_phones=r"फ़ोन|फोन|मोबाइल|दूरभाष|हेल्पलाइन|कॉल करें|संपर्क|नंबर|व्हाट्सऐप|पिन कोड|पिन|OTP|ओटीपी",
    phone_pairs=False,
    code_block="कोड ब्लॉक।",
)
RULESET = ruleset(TABLE)
