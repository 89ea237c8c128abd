"""Italian."""

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
    "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici "
    "diciassette diciotto diciannove"
).split()
_TENS = "_ _ venti trenta quaranta cinquanta sessanta settanta ottanta novanta".split()
_ORDINALS = "_ primo secondo terzo quarto quinto sesto settimo ottavo nono decimo".split()
_FEMININE = regex.compile(
    r"(?i)(?!(?:problema|programma|sistema|tema|clima|dramma|poema|schema|diploma|panorama|pianeta|poeta|papa|"
    r"artista|turista|giornalista|atleta|collega|cinema|grammo|chilogramma|gorilla|boia|delta|coma|sofà|caffè|"
    r"papà)\Z)(?:.*(?:a|zione|sione|gione|tà|tù|trice|udine|ice)|notte|parte|classe|chiave|immagine|legge|rete|nave|"
    r"mano|moto|foto|radio|serie|base|carne|fase|frase|gente|morte|torre|fonte|voce|croce|luce|pace|estate|moglie|"
    r"madre|arte|febbre|neve|pelle|valle|stazione|crisi|tesi|analisi|auto|e-mail|mail)"
)
# Before these a masculine noun has `uno`: uno studente, uno zaino.
_HARD = regex.compile(r"(?i)(?:s[bcdfglmnpqrtv]|z|gn|ps|pn|x|y)")


def _is_feminine(noun: str) -> bool:
    return _FEMININE.fullmatch(noun.partition(" ")[0]) is not None


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
    first, _, rest = word.partition("_")
    first = first[:-1] + {"o": "i", "a": "e", "e": "i"}[first[-1]] if first[-1] in "oae" else first
    return f"{first}_{rest}" if rest else first


_MILLION = Big(Noun("milione", "milioni"))
_BILLION = Big(Noun("miliardo", "miliardi"))
_THOUSAND = Big(Noun("mila", "mila"), of=False)
_MONTHS = "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre".split()
_SHORT_MONTHS = {name[:3]: index for index, name in enumerate(_MONTHS, 1)} | {"sett": 9}

TABLE = LanguageTable(
    numbers=Numbers(
        count=count,
        ordinal=ordinal,
        ordinal_endings=r"\.?[ºª]",
        takes_one=lambda whole, decimals: whole == "1" and not decimals,
        comma_is_decimal=True,
        comma="virgola",
        point="punto",
        decimals_as_number=3,
        bigs={
            **dict.fromkeys(("mila", "k", "K"), _THOUSAND),
            **dict.fromkeys(("milione", "milioni", "mln", "mln.", "M", "mil."), _MILLION),
            **dict.fromkeys(("miliardo", "miliardi", "mld", "mld.", "mrd"), _BILLION),
        },
        of=lambda noun: f"di {noun}",
        small_words=frozenset(
            "di del della dei delle degli e o ed in a al alla allo all con per è sono fu era che si senza su sul "
            "sulla come più meno il lo la i gli le un una non né ma tra fra ha hanno secondo quando dove perché ogni "
            "contro oggi ieri domani qui circa da dal dalla nel nella sotto sopra ai alle".split()
        ),
        to="a",
        by="per",
        ratio="a",
        over="su",
        after_scores=r"(?!)",
        score="",
        fraction=_fraction,
        mixed=_mixed,
    ),
    dates=Dates(
        months=tuple(_MONTHS),
        short_months=_SHORT_MONTHS,
        joint="",
        first="primo",
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
        counted=(
            r"[Cc]apitol[oi]|[Cc]ap\.|[Tt]om[oi]|[Vv]olum[ei]|[Vv]ol\.|[Aa]tt[oi]|[Ss]cen[ae]|[Ff]as[ei]|"
            r"[Tt]itol[oi]|[Aa]rticol[oi]|[Aa]rt\.|[Pp]art[ei]|[Tt]ip[oi]|[Ll]ivell[oi]|[Ll]ibr[oi]|[Aa]llegat[oi]|"
            r"[Gg]rupp[oi]|[Ss]ezion[ei]|[Tt]abell[ae]|[Ff]igur[ae]|[Cc]lass[ei]|[Pp]agin[ae]|[Nn]umer[oi]|"
            r"[Vv]ersion[ei]|[Tt]ema|[Ff]ormula|[Pp]ass[oi]|[Tt]appa|[Zz]ona|[Cc]anale|[Ll]inea|[Vv]olo|[Ss]ala|"
            r"[Pp]iano|[Aa]nno|[Vv]ia|[Ll]ezione|[Uu]nità|[Ee]sercizio|[Cc]ant[oi]|[Gg]iorno|[Bb]inario|[Ll]egge|"
            r"[Ss]tanza|[Cc]amera|[Uu]scita"
        ),
        nth=lambda number, noun: ordinal(number, "ª" if _is_feminine(noun) else "º"),
        endings=r"(?:[°º]|(?!))",
    ),
    currencies=currencies(
        "€,EUR,Euro euro euro / centesimo; $,US$,USD dollaro / centesimo; £,GBP sterlina / penny pence; ¥,￥,JPY yen; "
        "R$,BRL real real / centavo centavos; ₹,INR rupia / paisa paisa; CHF franco_svizzero franchi_svizzeri / "
        "centesimo; C$,CAD dollaro_canadese dollari_canadesi / centesimo; A$,AUD dollaro_australiano "
        "dollari_australiani / centesimo; CNY,RMB yuan; ₽,RUB rublo; ₩,KRW won; ₺,TRY lira_turca lire_turche; ₿,BTC "
        "bitcoin; ₱ peso pesos; ¢ centesimo; SEK corona_svedese corone_svedesi; PLN zloty; ₴,UAH grivnia; ₪,ILS "
        "shekel; ฿,THB baht; ₫,VND dong; ₦,NGN naira naira; euro euro euro / centesimo; dollari dollaro / centesimo; "
        "sterline sterlina / penny pence; Lit.,₤ lira",
        _plural,
    ),
    cents=" e ",
    name_cents=True,
    units=nouns(
        "km,Km,KM chilometro; m,mt metro; cm centimetro; mm millimetro; dm decimetro; nm nanometro; µm,μm "
        "micrometro; kg,Kg,KG chilo; g,gr grammo; mg milligrammo; µg,μg microgrammo; t tonnellata; q quintale; hg "
        "etto; l,L,lt litro; ml,mL millilitro; cl,cL centilitro; dl,dL decilitro; hl ettolitro; h ora; min minuto; "
        "s,sec secondo; ms millisecondo; ha ettaro; W watt; kW chilowatt; MW megawatt; GW gigawatt; kWh chilowattora "
        "chilowattora; MWh megawattora megawattora; GWh gigawattora gigawattora; V volt; kV chilovolt; mA "
        "milliampere milliampere; mAh milliamperora milliamperora; Hz hertz; kHz chilohertz; MHz megahertz; GHz "
        "gigahertz; B byte byte; kB,KB kilobyte kilobyte; MB megabyte megabyte; GB gigabyte gigabyte; TB terabyte "
        "terabyte; Mb megabit; Gb gigabit; Mbps,Mbit/s megabit_al_secondo; Gbps gigabit_al_secondo; kbps "
        "kilobit_al_secondo; kcal chilocaloria; cal caloria; kJ chilojoule chilojoule; J joule joule; Pa pascal; hPa "
        "ettopascal; kPa chilopascal; bar bar; dB decibel; CV,cv cavallo; mi miglio miglia; ft piede; in pollice; "
        "lb,lbs libbra; oz oncia once; mph miglio_all'ora miglia_all'ora; km/h,kmh chilometro_orario "
        "chilometri_orari; px pixel; rpm giro_al_minuto; giri/min giro_al_minuto; fps fotogramma_al_secondo "
        "fotogrammi_al_secondo; lm lumen; N newton; Nm newton_metro; pt punto; mq metro_quadrato metri_quadrati; kmq "
        "chilometro_quadrato chilometri_quadrati; mc metro_cubo metri_cubi; Ω ohm; kΩ chiloohm; mol mole; ppm "
        "parte_per_milione; cc centimetro_cubo centimetri_cubi",
        _plural,
    ),
    square="{} quadrato|{} quadrati",
    cubic="{} cubo|{} cubi",
    degrees=Noun("grado", "gradi"),
    scales={"C": "Celsius", "F": "Fahrenheit", "K": "Kelvin"},
    degree_is_ordinal=True,
    per=_per,
    periods=pairs(
        "mese = mese; anno = anno; giorno = giorno; settimana = settimana; ora = ora; notte = notte; chilo = chilo; "
        "litro = litro; h = ora; gg = giorno; pz = pezzo; minuto = minuto; secondo = secondo"
    ),
    titles=pairs(
        "Sig. = signor; Sig.ra = signora; Sigg. = signori; Sig.na = signorina; Dott. = dottor; Dr. = dottor; "
        "Dott.ssa = dottoressa; Dr.ssa = dottoressa; Prof. = professor; Prof.ssa = professoressa; Ing. = ingegner; "
        "Avv. = avvocato; Arch. = architetto; Geom. = geometra; Rag. = ragioniere; On. = onorevole; Sen. = senatore; "
        "Gen. = generale; Col. = colonnello; Cap. = capitano; Ten. = tenente; Mons. = monsignor; Card. = cardinale; "
        "S. = san; Ss. = santi; Spett. = spettabile; Egr. = egregio; Gent. = gentile; P.zza = piazza; P.za = piazza; "
        "V. = via; V.le = viale; C.so = corso; L.go = largo; Cav. = cavaliere; Pres. = presidente; Min. = ministro; "
        "D. = don"
    ),
    before_numbers=pairs(
        "km = chilometro; n. = numero; n° = numero; nº = numero; nn. = numeri; nr. = numero; num. = numero; pag. = "
        "pagina; pagg. = pagine; p. = pagina; pp. = pagine; cap. = capitolo; vol. = volume; fig. = figura; tab. = "
        "tabella; art. = articolo; artt. = articoli; tel. = telefono; cell. = cellulare; ca. = circa; ed. = "
        "edizione; rif. = riferimento; max. = massimo; min. = minimo; int. = interno; sec. = secolo; vers. = "
        "versione; comma = comma; c. = comma; all. = allegato; lett. = lettera; prot. = protocollo; D.L. = decreto "
        "legge; D.Lgs. = decreto legislativo; L. = legge; C.A.P. = cap"
    ),
    abbreviations=pairs(
        "ecc. = eccetera; sec. = secolo; lun. = lunedì; mer. = mercoledì; gio. = giovedì; ven. = "
        "venerdì; sab. = sabato; dom. = domenica; etc. = eccetera; es. = esempio; p. es. = per esempio; a.C. = "
        "avanti Cristo; d.C. = dopo Cristo; S.p.A. = esse pi a; SpA = esse pi a; S.r.l. = esse erre elle; Srl = esse "
        "erre elle; S.n.c. = esse enne ci; S.a.s. = sas; tel. = telefono; cell. = cellulare; ca. = circa; cfr. = "
        "confronta; vs. = contro; vs = contro; max. = massimo; min. = minimo; dott. = dottor; dott.ssa = dottoressa; "
        "prof. = professor; prof.ssa = professoressa; sig. = signor; sig.ra = signora; sigg. = signori; avv. = "
        "avvocato; ing. = ingegner; arch. = architetto; on. = onorevole; P.S. = post scriptum; N.B. = nota bene; "
        "s.l.m. = sul livello del mare; u.s. = ultimo scorso; c.m. = corrente mese; p.v. = prossimo venturo; pag. = "
        "pagina; gg. = giorni; c/o = presso; C.so = corso; P.zza = piazza; V.le = viale; ibid. = ibidem; i.e. = "
        "cioè; e.g. = per esempio; N.d.R. = nota della redazione; N.d.T. = nota del traduttore; jr. = junior; F.lli "
        "= fratelli; Ltd. = limited; cm. = centimetri; q.b. = quanto basta; cc.dd. = cosiddetti; c.d. = cosiddetto; "
        "Spett.le = spettabile; Gent.mo = gentilissimo; Gent.ma = gentilissima; Ill.mo = "
        "illustrissimo"
    ),
    spelled=frozenset("UE IA DNA RNA BCE FMI CEO SUV API IBM CIA FBI".split()),
    letters={"j": "i lunga", "à": "a", "è": "e", "é": "e", "ì": "i", "ò": "o", "ù": "u"},
    signs=signs(
        "& e; @ chiocciola; # cancelletto; % per cento; ‰ per mille; + più; - meno; − meno; = uguale a; ≠ diverso "
        "da; ≈ circa; ~ circa; < minore di; > maggiore di; ≤ minore o uguale a; ≥ maggiore o uguale a; × per; · per; "
        "÷ diviso; ± più o meno; √ radice di; ∞ infinito; ∑ somma di; ∫ integrale di; π pi greco; ° gradi; § "
        "paragrafo; ¶ paragrafo; © copyright; № numero; ^ elevato a; / barra; \\ barra inversa; $ dollaro; € euro; £ "
        "sterlina; ¥ yen; ₹ rupia; ¢ centesimo; → a; ← da; ⇒ implica; ↑ su; ↓ giù; ² al quadrato; ³ al cubo; ✓ sì; ✔ "
        "sì; ✗ no; ✘ no; ′ primi; ″ secondi; ∈ appartiene a; ∩ intersezione; ∪ unione"
    ),
    marks=signs(
        ". punto; / barra; : due punti; @ chiocciola; ? punto interrogativo; = uguale; & e; # cancelletto; % per "
        "cento; + più; ~ tilde; - trattino; _ trattino basso"
    ),
    hashtag="hashtag",
    slashed={"e/o": "e o", "E/o": "e o", "c/o": "presso"},
    phones=(
        r"0D{1,3}[ /.\-]D{5,8}|0D{1,3}[ /.\-]D{3,4}[ ]D{3,4}|3D{2}[ /.\-]D{6,7}|3D{2}[ .\-]D{3}[ .\-]D{3,4}|"
        r"800[ .\-]D{3}[ .\-]?D{3}"
    ),
    before_phones=r"[Tt]el\.?|[Tt]elefono|[Cc]ell\.?|[Cc]ellulare|[Ff]ax|[Cc]hiama(?:re|te)?(?: il| lo)?",
    phone_pairs=False,
    code_block="blocco di codice.",
)
RULESET = ruleset(TABLE)
