"""French."""

from __future__ import annotations

import regex

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

_ONES = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
    "dix-neuf"
).split()
_TENS = "_ _ vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt".split()
_FEMININE = regex.compile(
    r"(?i)(?!(?:lycée|musée|trophée|comité|côté|été|degré|marché|député|traité|arrêté|procédé|employé|invité|silence|"
    r"incendie|génie|parapluie|cimetière|bastion|million|avion|camion|champion|espion|lion|pion|stade|grade|"
    r"squelette|mètre|chiffre|titre|litre|membre|centre|ministre|arbre|nombre|beurre|verre|livre|problème|système|"
    r"programme|kilogramme|gramme|homme|siècle|groupe|modèle|article|véhicule|siège|téléphone|film|exemple|double|"
    r"jeune|autre|dollar|point|type|site|peuple|oncle|prince|élève|pilote|juge|collège|garage|étage|village|voyage|"
    r"message|mariage)s?\Z)(?:.*(?:tions?|sions?|xions?|ées?|ettes?|ances?|ences?|ures?|illes?|esses?|euses?|trices?|"
    r"ies?|ades?|tudes?|ises?|ités?|elles?|ennes?|onnes?|ines?|iques?|aines?|ières?)|fois|femmes?|heures?|années?|"
    r"semaines?|pages?|tasses?|voitures?|maisons?|villes?|places?|tonnes?|secondes?|minutes?|chambres?|mains?|nuits?|"
    r"mers?|sœurs?|soeurs?|mères?|cuillères?|tables?|portes?|langues?|équipes?|lignes?|lettres?|images?|plages?|"
    r"parts?|chances?|raisons?|saisons?|photos?|vidéos?|vies?|morts?|tranches?|gousses?|pièces?|étapes?|étoiles?|"
    r"rues?|dents?|fleurs?|couleurs?|erreurs?|voix|croix|noix|forêts?|fêtes?|bêtes?|têtes?|côtes?|routes?|classes?|"
    r"écoles?|entreprises?|usines?|banques?|onces?|jambes?|roupies?|couronnes?|demi-heures?|personnes?|victimes?|"
    r"règles?|soupes?)"
)


def _is_feminine(noun: str) -> bool:
    return noun in ("livre sterling", "livres sterling") or _FEMININE.fullmatch(noun.partition(" ")[0]) is not None


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
    first, _, rest = word.partition("_")
    first += "" if first.endswith(("s", "x")) else "s"
    return f"{first}_{rest}" if rest else first


_MILLION = Big(Noun("million", "millions"))
_BILLION = Big(Noun("milliard", "milliards"))
_THOUSAND = Big(Noun("mille", "mille"), of=False)
_MONTHS = "janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split()
_SHORT_MONTHS = {
    "janv": 1, "jan": 1, "févr": 2, "fév": 2, "avr": 4, "juil": 7, "sept": 9, "oct": 10, "nov": 11, "déc": 12,
    "dec": 12,
}  # fmt: skip

TABLE = LanguageTable(
    numbers=Numbers(
        count=count,
        ordinal=ordinal,
        ordinal_endings=r"(?:ers?|ères?|res?|nde?s?|de?s?|ièmes?|èmes?|emes?|es?|ᵉʳ|ʳᵉ|ᵉˢ|ᵉ)",
        takes_one=lambda whole, _decimals: whole in ("0", "1"),
        comma_is_decimal=True,
        comma="virgule",
        point="point",
        decimals_as_number=3,
        bigs={
            **dict.fromkeys(("mille", "k", "K"), _THOUSAND),
            **dict.fromkeys(("million", "millions", "M", "mio"), _MILLION),
            **dict.fromkeys(("milliard", "milliards", "Md", "Mds", "mds", "Mrd"), _BILLION),
            **dict.fromkeys(("billion", "billions"), Big(Noun("billion", "billions"))),
        },
        of=lambda noun: f"d'{noun}" if noun[0].lower() in "aeiouyéèêhœ" else f"de {noun}",
        small_words=frozenset(
            "de des du et ou à au aux en dans avec par pour est sont fut était que qui se sans sur plus moins le la "
            "les un une ne pas si ni mais entre puis dont car chez vers sous ce ces cette ici hier demain degrés "
            "seulement contre ont avait sera".split()
        ),
        to="à",
        by="sur",
        ratio="contre",
        over="sur",
        after_scores=r"(?!)",
        score="",
        fraction=_fraction,
        mixed=_mixed,
    ),
    dates=Dates(
        months=tuple(_MONTHS),
        short_months=_SHORT_MONTHS,
        joint="",
        first="premier",
        year=count,
        before_dates=r"le|du|au|depuis|jusqu['’]au|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|date ?:",
        clock=_clock,
        before_times=r"(?!)",
        hours_mark=r"heures|h",
        half_day=lambda hour, after_noon: (
            "{} du matin" if not after_noon else "{} de l'après-midi" if hour < 6 or hour == 12 else "{} du soir"
        ),
    ),
    roman=Roman(
        ruler=_ruler,
        century=lambda number: count(number),
        centuries=r"[Ss]iècles?",
        counted=(
            r"[Cc]hapitres?|[Cc]hap\.|[Tt]omes?|[Vv]olumes?|[Vv]ol\.|[Aa]ctes?|[Ss]cènes?|[Pp]hases?|[Tt]itres?|"
            r"[Aa]rticles?|[Aa]rt\.|[Pp]arties?|[Tt]ypes?|[Nn]iveaux?|[Ll]ivres?|[Aa]nnexes?|[Gg]roupes?|"
            r"[Ss]ections?|[Tt]ableau|[Ff]igures?|[Cc]lasse|[Pp]ages?|[Nn]uméros?|[Vv]ersion|[Ff]ormule|[ÉéEe]tapes?|"
            r"[Zz]one|[Cc]anal|[Ll]igne|[Vv]ol|[Ss]alle|[Cc]hambre|[Pp]aris|[Ll]eçon|[Ee]xercice|[Qq]uestion|[Jj]our|"
            r"[Rr]ègle|[Pp]orte|[Vv]oie|[Qq]uai|[Aa]nnée|[Pp]oint"
        ),
        nth=lambda number, noun: ordinal(number, "re" if _is_feminine(noun) else "er"),
        endings=r"(?:ers?|ères?|res?|nde?|ièmes?|èmes?|emes?|es?|ᵉʳ|ʳᵉ|ᵉ)",
    ),
    currencies=currencies(
        "€,EUR,Euros euro / centime; $,US$,USD,$US dollar / cent; £,GBP livre_sterling livres_sterling / penny "
        "pence; ¥,￥,JPY yen; R$,BRL real réaux / centavo; ₹,INR roupie / paisa; CHF franc_suisse francs_suisses / "
        "centime; FF franc / centime; $CA,CAD,C$ dollar_canadien dollars_canadiens / cent; $C dollar_canadien "
        "dollars_canadiens / cent; A$,AUD dollar_australien dollars_australiens / cent; FCFA,F_CFA franc_CFA "
        "francs_CFA; XOF franc_CFA francs_CFA; MAD,DH,DHS dirham / centime; DZD,DA dinar; TND dinar; CNY,RMB yuan; "
        "₽,RUB rouble; ₩,KRW won won; ₺,TRY livre_turque livres_turques; ₿,BTC bitcoin; ₱ peso; ¢ centime; SEK "
        "couronne_suédoise couronnes_suédoises; PLN zloty; ₴,UAH hryvnia; ₪,ILS shekel; ฿,THB baht; ₫,VND dong; "
        "₦,NGN naira; euros euro / centime; dollars dollar / cent; francs franc / centime",
        _plural,
    ),
    cents=" ",
    name_cents=False,
    units=nouns(
        "km,Km,KM kilomètre; m mètre; cm centimètre; mm millimètre; dm décimètre; nm nanomètre; µm,μm micromètre; "
        "kg,Kg,KG kilo; g,gr gramme; mg milligramme; µg,μg microgramme; t tonne; l,L litre; ml,mL millilitre; cl,cL "
        "centilitre; dl,dL décilitre; hl hectolitre; h heure; min,mn minute; s,sec seconde; ms milliseconde; ha "
        "hectare; W watt; kW kilowatt; MW mégawatt; GW gigawatt; kWh kilowatt-heure kilowatts-heure; MWh "
        "mégawatt-heure mégawatts-heure; GWh gigawatt-heure gigawatts-heure; V volt; kV kilovolt; mA milliampère; "
        "mAh milliampère-heure milliampères-heure; Hz hertz; kHz kilohertz; MHz mégahertz; GHz gigahertz; o octet; "
        "ko,Ko kilooctet; Mo mégaoctet; Go gigaoctet; To téraoctet; KB,kB kilobyte; MB mégabyte; GB gigabyte; TB "
        "térabyte; Mb mégabit; Gb gigabit; Mbps,Mbit/s mégabit_par_seconde; Gbps,Gbit/s gigabit_par_seconde; kbps "
        "kilobit_par_seconde; kcal kilocalorie; cal calorie; kJ kilojoule; J joule; Pa pascal; hPa hectopascal; kPa "
        "kilopascal; bar bar; bars bar; dB décibel; ch cheval chevaux; CV cheval chevaux; mi mile; ft pied; in "
        "pouce; lb,lbs livre; oz once; mph mile_à_l'heure; km/h,km/heure,kmh kilomètre_heure kilomètres_heure; px "
        "pixel; rpm tour_par_minute; tr/min tour_par_minute; fps image_par_seconde; lm lumen; N newton; Nm "
        "newton-mètre newtons-mètre; pt point; pts point; ans an; hab habitant; Ω ohm; kΩ kiloohm; mol mole; ppm "
        "partie_par_million; cs cuillère_à_soupe cuillères_à_soupe; càs cuillère_à_soupe; càc cuillère_à_café; cc "
        "cuillère_à_café",
        _plural,
    ),
    square="{} carré|{} carrés",
    cubic="{} cube|{} cubes",
    degrees=Noun("degré", "degrés"),
    scales={"C": "Celsius", "F": "Fahrenheit", "K": "Kelvin"},
    degree_is_ordinal=True,
    per=lambda unit: f"par {unit}",
    periods=pairs(
        "mois = mois; an = an; jour = jour; semaine = semaine; heure = heure; nuit = nuit; personne = personne; "
        "pers. = personne; pers = personne; kilo = kilo; litre = litre; unité = unité; hab. = habitant; h = heure; j "
        "= jour; pièce = pièce; sem. = semaine"
    ),
    titles=pairs(
        "bât. = bâtiment; M. = monsieur; MM. = messieurs; Mme = madame; Mmes = mesdames; Mlle = mademoiselle; Mlles "
        "= mesdemoiselles; Dr = docteur; Dr. = docteur; Drs = docteurs; Pr = professeur; Pr. = professeur; Prof. = "
        "professeur; Me = maître; Mgr = monseigneur; St = saint; Ste = sainte; Gal = général; Cdt = commandant; Lt = "
        "lieutenant; Cap. = capitaine; bd = boulevard; bd. = boulevard; Bd = boulevard; boul. = boulevard; av. = "
        "avenue; Av. = avenue; pl. = place; r. = rue; fg = faubourg; ch. = chemin; rte = route; imp. = impasse; Cie "
        "= compagnie"
    ),
    before_numbers=pairs(
        "mer. = mercredi; jeu. = jeudi; "
        "km = kilomètre; n° = numéro; nº = numéro; no = numéro; n°s = numéros; nos = numéros; num. = numéro; p. = "
        "page; pp. = pages; pg. = page; chap. = chapitre; ch. = chapitre; vol. = volume; t. = tome; fig. = figure; "
        "art. = article; al. = alinéa; tél. = téléphone; tel. = téléphone; env. = environ; éd. = édition; réf. = "
        "référence; max. = maximum; min. = minimum; ca = circa; v. = vers; bât. = bâtiment; apt. = appartement; "
        "appt. = appartement; ét. = étage; BP = boîte postale; cf. = confer; ex. = exemple; ann. = annexe; tab. = "
        "tableau"
    ),
    abbreviations=pairs(
        "etc. = et cetera; lun. = lundi; ven. = vendredi; sam. = samedi; dim. = "
        "dimanche; av. = avenue; pers. = personnes; th. = thermostat; incl. = inclus; p. ex. = par exemple; ex. = "
        "exemple; c.-à-d. = c'est-à-dire; càd = c'est-à-dire; cad = c'est-à-dire; av. J.-C. = avant Jésus-Christ; "
        "apr. J.-C. = après Jésus-Christ; ap. J.-C. = après Jésus-Christ; J.-C. = Jésus-Christ; cf. = confer; env. = "
        "environ; tél. = téléphone; tel. = téléphone; vs = contre; vs. = contre; Cie = compagnie; Cie. = compagnie; "
        "éd. = édition; dir. = directeur; N.B. = nota bene; NB = nota bene; P.-S. = post-scriptum; PS = P S; S.A. = "
        "S A; S.A.R.L. = S A R L; max. = maximum; min. = minimum; approx. = approximativement; dép. = département; "
        "gouv. = gouvernement; qqn = quelqu'un; qqch = quelque chose; svp = s'il vous plaît; s.v.p. = s'il vous "
        "plaît; SVP = s'il vous plaît; rdv = rendez-vous; RDV = rendez-vous; stp = s'il te plaît; bcp = beaucoup; "
        "Mme = madame; Mmes = mesdames; Mlle = mademoiselle; Sté = société; resp. = respectivement; suiv. = suivant; "
        "ibid. = ibidem; i.e. = c'est-à-dire; e.g. = par exemple; c. à s. = cuillère à soupe; c. à c. = cuillère à "
        "café; ndlr = note de la rédaction; R.-U. = Royaume-Uni; É.-U. = États-Unis; E.-U. = États-Unis; jr. = junior"
    ),
    spelled=frozenset(
        "PIB USA UE IA TVA RER SUV IRM ADN ARN PME CGT EDF UMP BCE FMI CIA FBI API UV DRH PDG IVG RTT ONG OGM".split()
    ),
    letters={"y": "i grec", "é": "e", "è": "e", "à": "a", "ç": "c"},
    signs=signs(
        "& et; @ arobase; # dièse; % pour cent; ‰ pour mille; + plus; - moins; − moins; = égale; ≠ différent de; ≈ "
        "environ; ~ environ; < inférieur à; > supérieur à; ≤ inférieur ou égal à; ≥ supérieur ou égal à; × fois; · "
        "fois; ÷ divisé par; ± plus ou moins; √ racine de; ∞ infini; ∑ somme de; ∫ intégrale de; π pi; ° degrés; § "
        "paragraphe; ¶ paragraphe; © copyright; № numéro; ^ puissance; / slash; \\ antislash; $ dollar; € euro; £ "
        "livre; ¥ yen; ₹ roupie; ¢ centime; → vers; ← de; ⇒ implique; ↑ haut; ↓ bas; ² au carré; ³ au cube; ✓ oui; ✔ "
        "oui; ✗ non; ✘ non; ′ minutes; ″ secondes; ∈ appartient à; ∩ inter; ∪ union"
    ),
    marks=signs(
        ". point; / slash; : deux-points; @ arobase; ? point d'interrogation; = égal; & et; # dièse; % pour cent; + "
        "plus; ~ tilde; - tiret; _ tiret bas"
    ),
    hashtag="hashtag",
    slashed={"et/ou": "et ou", "Et/ou": "et ou"},
    phones=r"0D(?:[ .\-\xa0]D{2}){4}|0D{9}|D{4}[ ]D{2}[ ]D{2}[ ]D{2}",
    before_phones=r"[Tt][ée]l\.?|[Tt]éléphone|[Pp]ortable|[Mm]obile|[Ff]ax|[Aa]ppelez le|[Aa]ppeler le",
    phone_pairs=True,
    code_block="bloc de code.",
)
RULESET = ruleset(TABLE)
