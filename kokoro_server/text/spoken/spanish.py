"""Spanish."""

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
_FEMININE = regex.compile(
    r"(?i)(?!(?:día|problema|programa|sistema|mapa|tema|idioma|clima|planeta|poema|cometa|drama|gramo|kilograma|"
    r"centígrama|esquema|síntoma|diploma|fantasma|atleta|guardia|policía|artista|turista|periodista|futbolista|"
    r"colega|poeta|piloto|yoga|sofá|papá|burka|pijama|panda|koala|gorila|vodka|tranvía|guía)s?\Z)(?:.*(?:as?|ción|"
    r"ciones|sión|siones|dad|dades|tud|tudes|umbres?|triz|trices)|veces|vez|mujer|mujeres|noches?|partes?|calles?|"
    r"clases?|llaves?|imagen|imágenes|flor|flores|ley|leyes|tardes?|naves?|red|redes|mano|manos|fotos?|motos?|"
    r"radios?|series?|bases?|carnes?|fases?|frases?|gentes?|muertes?|suertes?|torres?|fuentes?|voces|voz|razón|"
    r"razones|región|regiones|opinión|opiniones|reunión|reuniones|canción|habitación|actrices|raíces|luces|cruces|"
    r"paredes|señales|cárceles|sales|pieles|hambre|sangre|leche|nieve|nubes?|llamadas?|sedes?|crisis|tesis|dosis)"
)


def _is_feminine(noun: str) -> bool:
    return _FEMININE.fullmatch(noun.partition(" ")[0]) is not None


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
    first, _, rest = word.partition("_")
    first += "" if first.endswith("s") else "s" if first[-1] in "aeiouét" else "es"
    return f"{first}_{rest}" if rest else first


_BIG = {
    "mil": Big(Noun("mil", "mil"), of=False),
    "k": Big(Noun("mil", "mil"), of=False),
    "K": Big(Noun("mil", "mil"), of=False),
    **dict.fromkeys(("millón", "millones", "M", "mill.", "MM"), Big(Noun("millón", "millones"))),
    **dict.fromkeys(("mil millones", "mil M"), Big(Noun("mil millones", "mil millones"))),
    **dict.fromkeys(("billón", "billones"), Big(Noun("billón", "billones"))),
}
_MONTHS = "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split()
_SHORT_MONTHS = {name[:3]: index for index, name in enumerate(_MONTHS, 1)} | {"sept": 9, "set": 9}

TABLE = LanguageTable(
    numbers=Numbers(
        count=count,
        ordinal=ordinal,
        ordinal_endings=r"\.?(?:[ºª]|er|o|a)(?:s)?|\.?(?:ro|ra|do|da|to|ta|mo|ma|vo|va|no|na)",
        takes_one=lambda whole, decimals: whole == "1" and not decimals,
        comma_is_decimal=True,
        comma="coma",
        point="punto",
        decimals_as_number=3,
        bigs=_BIG,
        of=lambda noun: f"de {noun}",
        small_words=frozenset(
            "de del y o u e en a al con por para es son fue era que se sin sobre como más menos el la los las un una "
            "lo le no si ni ya pero entre hasta desde hay ha han está están según cuando donde porque cada contra "
            "hoy ayer mañana aquí ahora anoche".split()
        ),
        to="a",
        by="por",
        ratio="a",
        over="sobre",
        after_scores=r"(?!)",
        score="",
        fraction=_fraction,
        mixed=_mixed,
    ),
    dates=Dates(
        months=tuple(_MONTHS),
        short_months=_SHORT_MONTHS,
        joint=" de",
        first="uno",
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
        counted=(
            r"[Cc]apítulos?|[Cc]ap\.|[Tt]omos?|[Vv]olumen|[Vv]ol\.|[Aa]ctos?|[Ee]scenas?|[Ff]ases?|[Tt]ítulos?|"
            r"[Aa]rtículos?|[Aa]rt\.|[Pp]artes?|[Tt]ipos?|[Nn]iveles|[Nn]ivel|[Ll]ibros?|[Aa]nexos?|[Gg]rupos?|"
            r"[Ss]ección|[Tt]abla|[Ff]igura|[Cc]lase|[Gg]rado|[Pp]áginas?|[Nn]úmeros?|[Dd]ía|[Vv]ersión|[Tt]ema|"
            r"[Ff]órmula|[Pp]aso|[Ee]tapa|[Zz]ona|[Cc]anal|[Ll]ínea|[Vv]uelo|[Ss]ala|[Pp]iso|[Aa]ño|[Cc]alle|"
            r"[Ll]ección|[Uu]nidad|[Ee]jercicio|[Rr]onda|[Jj]ornada|[Cc]uarto|[Pp]uerta|[Aa]utopista|[Cc]anto|[Pp]lan"
        ),
        nth=lambda number, noun: ordinal(number, "ª" if _is_feminine(noun) else "º", noun),
        endings=r"(?!)",
    ),
    currencies=currencies(
        "€,EUR euro / céntimo; $,US$,U$S,USD dólar / centavo; £,GBP libra / penique; ¥,￥,JPY yen; R$,BRL real reales "
        "/ centavo; ₹,INR rupia / paisa; CHF franco_suizo francos_suizos / céntimo; MX$,MXN,Mex$ peso_mexicano "
        "pesos_mexicanos / centavo; ARS peso_argentino pesos_argentinos / centavo; COP peso_colombiano "
        "pesos_colombianos / centavo; CLP peso_chileno pesos_chilenos; S/,S/.,PEN sol / céntimo; Bs,Bs. bolívar / "
        "céntimo; CNY,RMB yuan; ₽,RUB rublo; ₩,KRW won; ₺,TRY lira_turca liras_turcas; ₿,BTC bitcóin bitcoines; "
        "C$,CA$,CAD dólar_canadiense dólares_canadienses / centavo; A$,AU$,AUD dólar_australiano "
        "dólares_australianos / centavo; ₱ peso / centavo; ₡,CRC colón colones / céntimo; ₲,PYG guaraní guaraníes; ¢ "
        "centavo; SEK corona_sueca coronas_suecas; euros euro euros / céntimo; dólares dólar dólares / centavo; "
        "pesos peso / centavo; libras libra / penique; PLN esloti; ₴,UAH grivna; ₪,ILS séquel; ฿,THB baht; ₫,VND "
        "dong; ₦,NGN naira",
        _plural,
    ),
    cents=" con ",
    name_cents=True,
    units=nouns(
        "km,Km,KM kilómetro; m metro; cm centímetro; mm milímetro; dm decímetro; nm nanómetro; µm,μm micrómetro; "
        "kg,Kg,KG kilo; g,gr,grs gramo; mg miligramo; µg,μg microgramo; t tonelada; l,L,lt litro; ml,mL mililitro; "
        "cl,cL centilitro; dl,dL decilitro; hl hectolitro; h,hs hora; min minuto; s,seg segundo; ms milisegundo; ha "
        "hectárea; W vatio; kW kilovatio; MW megavatio; GW gigavatio; kWh kilovatio_hora kilovatios_hora; MWh "
        "megavatio_hora megavatios_hora; GWh gigavatio_hora gigavatios_hora; V voltio; kV kilovoltio; mA "
        "miliamperio; mAh miliamperio_hora miliamperios_hora; Hz hercio; kHz kilohercio; MHz megahercio; GHz "
        "gigahercio; B byte; kB,KB kilobyte; MB megabyte; GB gigabyte; TB terabyte; Mb megabit; Gb gigabit; Mbps "
        "megabit_por_segundo; Gbps gigabit_por_segundo; kbps,Kbps kilobit_por_segundo; kcal kilocaloría; cal "
        "caloría; kJ kilojulio; J julio; Pa pascal; hPa hectopascal; kPa kilopascal; bar bar; dB decibelio; CV,cv "
        "caballo; hp caballo; mi milla; ft pie; in pulgada; yd yarda; lb,lbs libra; oz onza; mph milla_por_hora; px "
        "píxel; rpm revolución_por_minuto revoluciones_por_minuto; fps fotograma_por_segundo; lm lumen lúmenes; N "
        "newton newtons; Nm newton_metro newtons_metro; kt nudo; pt punto; pp punto_porcentual puntos_porcentuales; "
        "Ω ohmio; kΩ kiloohmio; mol mol; ppm parte_por_millón partes_por_millón; u,ud,uds unidad; cda cucharada; "
        "cdas cucharada; cdta,cdita cucharadita; cdtas cucharadita",
        _plural,
    ),
    square="{} cuadrado|{} cuadrados",
    cubic="{} cúbico|{} cúbicos",
    degrees=Noun("grado", "grados"),
    scales={"C": "Celsius", "F": "Fahrenheit", "K": "Kelvin"},
    degree_is_ordinal=True,
    per=lambda unit: f"por {unit}",
    periods=pairs(
        "mes = mes; año = año; día = día; semana = semana; hora = hora; noche = noche; persona = persona; pers. = "
        "persona; kilo = kilo; litro = litro; unidad = unidad; hab. = habitante; h = hora; docena = docena"
    ),
    titles=pairs(
        "Sr. = señor; Sra. = señora; Srta. = señorita; Sres. = señores; Dr. = doctor; Dra. = doctora; D. = don; Dña. "
        "= doña; D.ª = doña; Prof. = profesor; Profa. = profesora; Ing. = ingeniero; Lic. = licenciado; Lcda. = "
        "licenciada; Arq. = arquitecto; Gral. = general; Cnel. = coronel; Cap. = capitán; Tte. = teniente; Sto. = "
        "santo; Sta. = santa; S. = san; Fr. = fray; Mons. = monseñor; Pdte. = presidente; Av. = avenida; Avda. = "
        "avenida; Bvar. = bulevar; Pza. = plaza; Pl. = plaza; Ctra. = carretera; C/ = calle; Ud. = usted; Vd. = "
        "usted; Rte. = remitente"
    ),
    before_numbers=pairs(
        "km = kilómetro; n.º = número; n° = número; nº = número; núm. = número; No. = número; nro. = número; n.os = "
        "números; pág. = página; págs. = páginas; p. = página; pp. = páginas; cap. = capítulo; vol. = volumen; fig. "
        "= figura; art. = artículo; arts. = artículos; tel. = teléfono; tfno. = teléfono; tlf. = teléfono; aprox. = "
        "aproximadamente; apdo. = apartado; ed. = edición; ref. = referencia; máx. = máximo; mín. = mínimo; ca. = "
        "circa; c. = circa; vers. = versión; km. = kilómetro; int. = interior; dpto. = departamento; s. = siglo; "
        "C.P. = código postal; CP = código postal"
    ),
    abbreviations=pairs(
        "etc. = etcétera; lun. = lunes; mié. = miércoles; jue. = jueves; vie. = viernes; sáb. = sábado; dom. = "
        "domingo; incl. = incluido; p. ej. = por ejemplo; p. e. = por ejemplo; EE. UU. = Estados Unidos; EEUU = "
        "Estados Unidos; EE.UU. = Estados Unidos; JJ. OO. = Juegos Olímpicos; a. C. = antes de Cristo; d. C. = "
        "después de Cristo; a. de C. = antes de Cristo; d. de C. = después de Cristo; Ud. = usted; Uds. = ustedes; "
        "Vd. = usted; Vds. = ustedes; Cía. = compañía; S. A. = ese a; S.A. = ese a; S. L. = ese ele; S.L. = ese ele; "
        "S. R. L. = ese erre ele; vs. = versus; vs = versus; aprox. = aproximadamente; tel. = teléfono; tfno. = "
        "teléfono; máx. = máximo; mín. = mínimo; izq. = izquierda; izda. = izquierda; dcha. = derecha; dpto. = "
        "departamento; depto. = departamento; admón. = administración; gob. = gobierno; q.e.p.d. = que en paz "
        "descanse; P. D. = posdata; P.D. = posdata; s. f. = sin fecha; RR. HH. = recursos humanos; FF. AA. = Fuerzas "
        "Armadas; CC. OO. = Comisiones Obreras; atte. = atentamente; avda. = avenida; sra. = señora; sr. = señor; "
        "dr. = doctor; dra. = doctora; cf. = confróntese; cfr. = confróntese; ibid. = ibídem; íd. = ídem; i. e. = es "
        "decir; e. g. = por ejemplo; N. del T. = nota del traductor; Hnos. = hermanos; pza. = plaza; ej. = ejemplo; "
        "s/n = sin número; c/u = cada uno; Dto. = descuento; a.m. = de la mañana; p.m. = de la tarde"
    ),
    spelled=frozenset("IA UE ADN ARN FMI BCE CEO EPS SUV API OEA IP".split()),
    letters={"y": "i griega", "á": "a", "é": "e", "í": "i", "ó": "o", "ú": "u"},
    signs=signs(
        "& y; @ arroba; # almohadilla; % por ciento; ‰ por mil; + más; - menos; − menos; = igual a; ≠ distinto de; ≈ "
        "aproximadamente; ~ aproximadamente; < menor que; > mayor que; ≤ menor o igual que; ≥ mayor o igual que; × "
        "por; · por; ÷ dividido por; ± más menos; √ raíz de; ∞ infinito; ∑ suma de; ∫ integral de; π pi; ° grados; § "
        "sección; ¶ párrafo; © copyright; № número; ^ elevado a; / barra; \\ barra invertida; $ dólar; € euro; £ "
        "libra; ¥ yen; ₹ rupia; ¢ centavo; → a; ← de; ⇒ implica; ↑ arriba; ↓ abajo; ² al cuadrado; ³ al cubo; ✓ sí; "
        "✔ sí; ✗ no; ✘ no; ′ minutos; ″ segundos; ∈ pertenece a; ∩ intersección; ∪ unión"
    ),
    marks=signs(
        ". punto; / barra; : dos puntos; @ arroba; ? interrogación; = igual; & y; # almohadilla; % por ciento; + "
        "más; ~ virgulilla; - guion; _ guion bajo"
    ),
    hashtag="hashtag",
    slashed={"y/o": "y o", "Y/o": "y o", "c/u": "cada uno"},
    phones=(
        r"[6789]D{2}[ .-]D{3}[ .-]D{3}|[6789]D{2}(?:[ .-]D{2}){3}|9D[ .-]D{3}[ .-]D{2}[ .-]D{2}|"
        r"\(D{2,3}\)[ ]?D{3,4}[ -]D{4}|D{2}[ -]D{4}[ -]D{4}|90[0-2][ ]D{3}[ ]D{3}|[2-9]D{2}-D{4}"
    ),
    before_phones=r"[Tt]el\.?|[Tt]eléfono|[Tt]fno\.?|[Mm]óvil|[Cc]elular|[Ll]lam[ae](?:r|me|nos)? al?|[Ff]ax",
    phone_pairs=False,
    code_block="bloque de código.",
)
RULESET = ruleset(TABLE)
