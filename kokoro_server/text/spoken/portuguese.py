"""Brazilian Portuguese."""

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
_FEMININE = regex.compile(
    r"(?i)(?!(?:dia|problema|programa|sistema|mapa|tema|idioma|clima|planeta|poema|cometa|drama|grama|quilograma|"
    r"miligrama|esquema|sintoma|diploma|fantasma|atleta|guarda|artista|turista|jornalista|colega|poeta|sofá|papa|"
    r"pijama|panda|telefonema|quilowatt-hora|hectare|fotograma)s?\Z)(?:.*(?:as?|ção|ções|são|sões|dade|dades|gem|"
    r"gens|tude|tudes|triz|trizes|ãs?)|vezes|vez|mulher|mulheres|noites?|partes?|classes?|chaves?|flor|flores|leis?|"
    r"tardes?|naves?|redes?|mãos?|fotos?|motos?|séries?|bases?|carnes?|fases?|frases?|mortes?|torres?|fontes?|vozes|"
    r"voz|luzes|luz|cruzes|paredes?|mães?|cidades?|nuvens|nuvem|opções|opção|cor|cores|dor|dores|colher|colheres|"
    r"sedes?|crises?|gentes?|pontes?|saúdes?|árvores?|mentes?|ordens|ordem|razão|razões)"
)


def _is_feminine(noun: str) -> bool:
    return _FEMININE.fullmatch(noun.partition(" ")[0]) is not None


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
    first, _, rest = word.partition("_")
    first += "" if first.endswith("s") else "es" if first[-1] in "rz" else "s"
    return f"{first}_{rest}" if rest else first


_MILLION = Big(Noun("milhão", "milhões"))
_BILLION = Big(Noun("bilhão", "bilhões"))
_TRILLION = Big(Noun("trilhão", "trilhões"))
_THOUSAND = Big(Noun("mil", "mil"), of=False)
_MONTHS = "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro".split()
_SHORT_MONTHS = {name[:3]: index for index, name in enumerate(_MONTHS, 1)}

TABLE = LanguageTable(
    numbers=Numbers(
        count=count,
        ordinal=ordinal,
        ordinal_endings=r"\.?(?:[ºª]s?|o|a)",
        takes_one=lambda whole, decimals: whole == "1" and not decimals,
        comma_is_decimal=True,
        comma="vírgula",
        point="ponto",
        decimals_as_number=3,
        bigs={
            **dict.fromkeys(("mil", "k", "K"), _THOUSAND),
            **dict.fromkeys(("milhão", "milhões", "mi", "M"), _MILLION),
            **dict.fromkeys(("bilhão", "bilhões", "bi"), _BILLION),
            **dict.fromkeys(("trilhão", "trilhões", "tri"), _TRILLION),
        },
        of=lambda noun: f"de {noun}",
        small_words=frozenset(
            "de do da dos das e ou em no na nos nas a ao à aos às com por para é são foi era que se sem sobre como "
            "mais menos o os as um uma não nem mas entre até desde há tem têm segundo quando onde porque cada contra "
            "hoje ontem amanhã aqui agora pelo pela".split()
        ),
        to="a",
        by="por",
        ratio="para",
        over="de",
        after_scores=r"(?!)",
        score="a",
        fraction=_fraction,
        mixed=_mixed,
    ),
    dates=Dates(
        months=tuple(_MONTHS),
        short_months=_SHORT_MONTHS,
        joint=" de",
        first="primeiro",
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
        counted=(
            r"[Cc]apítulos?|[Cc]ap\.|[Tt]omos?|[Vv]olumes?|[Vv]ol\.|[Aa]tos?|[Cc]enas?|[Ff]ases?|[Tt]ítulos?|"
            r"[Aa]rtigos?|[Aa]rt\.|[Pp]artes?|[Tt]ipos?|[Nn]íve(?:l|is)|[Ll]ivros?|[Aa]nexos?|[Gg]rupos?|[Ss]eção|"
            r"[Tt]abela|[Ff]igura|[Cc]lasse|[Gg]rau|[Pp]áginas?|[Nn]úmeros?|[Dd]ia|[Vv]ersão|[Tt]ema|[Ff]órmula|"
            r"[Pp]asso|[Ee]tapa|[Zz]ona|[Cc]anal|[Ll]inha|[Vv]oo|[Ss]ala|[Aa]ndar|[Aa]no|[Rr]ua|[Ll]ição|[Aa]ula|"
            r"[Uu]nidade|[Ee]xercício|[Rr]odada|[Qq]uarto|[Pp]orta|[Pp]arágrafo|[Ii]nciso|[Ll]ote|[Qq]uadra|"
            r"[Aa]pto\.?"
        ),
        nth=lambda number, noun: ordinal(number, "ª" if _is_feminine(noun) else "º"),
        endings=r"(?!)",
    ),
    currencies=currencies(
        "R$,BRL real reais / centavo; €,EUR euro / centavo; $,US$,U$,USD dólar / centavo; £,GBP libra / penny pence; "
        "¥,￥,JPY iene; ₹,INR rupia / paisa; CHF franco_suíço francos_suíços / centavo; MXN peso_mexicano "
        "pesos_mexicanos / centavo; ARS peso_argentino pesos_argentinos / centavo; CNY,RMB yuan; ₽,RUB rublo; ₩,KRW "
        "won won; ₺,TRY lira_turca liras_turcas; ₿,BTC bitcoin; C$,CAD dólar_canadense dólares_canadenses / centavo; "
        "A$,AUD dólar_australiano dólares_australianos / centavo; ₱ peso / centavo; ¢ centavo; SEK coroa_sueca "
        "coroas_suecas; PLN zloty; ₴,UAH hryvnia; ₪,ILS shekel; ฿,THB baht; ₫,VND dong; ₦,NGN naira; reais real "
        "reais / centavo; euros euro euros / centavo; dólares dólar dólares / centavo; Cz$ cruzado; AOA kwanza",
        _plural,
    ),
    cents=" e ",
    name_cents=True,
    units=nouns(
        "km,Km,KM quilômetro; m metro; cm centímetro; mm milímetro; dm decímetro; nm nanômetro; µm,μm micrômetro; "
        "kg,Kg,KG quilo; g,gr grama; mg miligrama; µg,μg micrograma; t,ton tonelada; l,L litro; ml,mL mililitro; "
        "cl,cL centilitro; dl,dL decilitro; h,hs hora; min minuto; s,seg segundo; ms milissegundo; ha hectare; W "
        "watt; kW quilowatt; MW megawatt; GW gigawatt; kWh quilowatt-hora quilowatts-hora; MWh megawatt-hora "
        "megawatts-hora; V volt; kV quilovolt; mA miliampere; mAh miliampere-hora miliamperes-hora; Hz hertz hertz; "
        "kHz quilohertz quilohertz; MHz megahertz megahertz; GHz gigahertz gigahertz; B byte; kB,KB quilobyte; MB "
        "megabyte; GB gigabyte; TB terabyte; Mb megabit; Gb gigabit; Mbps,Mega megabit_por_segundo; Gbps "
        "gigabit_por_segundo; kbps quilobit_por_segundo; kcal quilocaloria; cal caloria; kJ quilojoule; J joule; Pa "
        "pascal pascais; hPa hectopascal hectopascais; kPa quilopascal quilopascais; bar bar; dB decibel decibéis; "
        "cv,CV cavalo; mi milha; ft pé; pol polegada; lb,lbs libra; oz onça; mph milha_por_hora; px pixel pixels; "
        "rpm rotação_por_minuto rotações_por_minuto; fps quadro_por_segundo; lm lúmen lúmens; N newton; Nm "
        "newton-metro newtons-metro; pt ponto; pts ponto; hab habitante; Ω ohm; kΩ quilo-ohm; mol mol mols; ppm "
        "parte_por_milhão; un unidade; cx caixa",
        _plural,
    ),
    square="{} quadrado|{} quadrados",
    cubic="{} cúbico|{} cúbicos",
    degrees=Noun("grau", "graus"),
    scales={"C": "Celsius", "F": "Fahrenheit", "K": "Kelvin"},
    degree_is_ordinal=True,
    per=lambda unit: f"por {unit}",
    periods=pairs(
        "mês = mês; ano = ano; dia = dia; semana = semana; hora = hora; noite = noite; pessoa = pessoa; quilo = "
        "quilo; litro = litro; unidade = unidade; hab. = habitante; h = hora; minuto = minuto; segundo = segundo"
    ),
    titles=pairs(
        "Sr. = senhor; Sra. = senhora; Sr.ª = senhora; Srta. = senhorita; Srs. = senhores; Sras. = senhoras; Dr. = "
        "doutor; Dra. = doutora; Drs. = doutores; D. = dom; Prof. = professor; Profa. = professora; Prof.ª = "
        "professora; Profª = professora; Eng. = engenheiro; Exmo. = excelentíssimo; Exma. = excelentíssima; Ilmo. = "
        "ilustríssimo; Gen. = general; Cel. = coronel; Cap. = capitão; Ten. = tenente; Sgt. = sargento; Pe. = padre; "
        "Sto. = santo; Sta. = santa; S. = são; Av. = avenida; R. = rua; Pça. = praça; Al. = alameda; Rod. = rodovia; "
        "Dep. = deputado; Sen. = senador; Min. = ministro; Pres. = presidente; Arq. = arquiteto; Adv. = advogado; "
        "Est. = estrada; Trav. = travessa"
    ),
    before_numbers=pairs(
        "ter. = terça; sex. = sexta; dom. = domingo; "
        "km = quilômetro; nº = número; n.º = número; n° = número; n. = número; No. = número; num. = número; núm. = "
        "número; nºs = números; pág. = página; págs. = páginas; p. = página; pp. = páginas; cap. = capítulo; vol. = "
        "volume; fig. = figura; art. = artigo; arts. = artigos; tel. = telefone; cel. = celular; aprox. = "
        "aproximadamente; ed. = edição; ref. = referência; máx. = máximo; mín. = mínimo; apto. = apartamento; ap. = "
        "apartamento; inc. = inciso; séc. = século; km. = quilômetro; tab. = tabela; ex. = exemplo; bl. = bloco; cj. "
        "= conjunto; CEP = cep; c. = cerca de"
    ),
    abbreviations=pairs(
        "etc. = etcétera; cia. = companhia; seg. = segunda; qua. = quarta; qui. = quinta; "
        "sáb. = sábado; p. ex. = por exemplo; ex. = exemplo; a.C. = antes de Cristo; d.C. = "
        "depois de Cristo; A.C. = antes de Cristo; D.C. = depois de Cristo; Cia. = companhia; S.A. = S A; S/A = S A; "
        "Ltda. = limitada; vs. = versus; vs = versus; aprox. = aproximadamente; tel. = telefone; cel. = celular; "
        "máx. = máximo; mín. = mínimo; esq. = esquerda; dir. = direita; depto. = departamento; dept. = departamento; "
        "gov. = governo; sr. = senhor; sra. = senhora; dr. = doutor; dra. = doutora; prof. = professor; profa. = "
        "professora; P.S. = pós-escrito; Obs. = observação; obs. = observação; V. Exa. = vossa excelência; cf. = "
        "conforme; ibid. = ibidem; i.e. = isto é; e.g. = por exemplo; N. do T. = nota do tradutor; jr. = júnior; Jr. "
        "= júnior; pág. = página; av. = avenida; s/n = sem número; c/ = com; vc = você; vcs = vocês; qtd. = "
        "quantidade; atte. = atenciosamente; att. = atenciosamente; apto. = apartamento; q.b. = quanto baste; E.U.A. "
        "= Estados Unidos; min. = minutos"
    ),
    spelled=frozenset("IBGE UE IA DNA RNA FMI BCE CEO SUV API INSS IPVA IPTU USP OAB CLT UFRJ URL IOF USA".split()),
    letters={"a": "á", "e": "é", "o": "ó", "é": "é", "á": "á"},
    signs=signs(
        "& e; @ arroba; # cerquilha; % por cento; ‰ por mil; + mais; - menos; − menos; = igual a; ≠ diferente de; ≈ "
        "aproximadamente; ~ aproximadamente; < menor que; > maior que; ≤ menor ou igual a; ≥ maior ou igual a; × "
        "vezes; · vezes; ÷ dividido por; ± mais ou menos; √ raiz de; ∞ infinito; ∑ soma de; ∫ integral de; π pi; ° "
        "graus; § parágrafo; ¶ parágrafo; © copyright; № número; ^ elevado a; / barra; \\ barra invertida; $ dólar; "
        "€ euro; £ libra; ¥ iene; ₹ rupia; ¢ centavo; → para; ← de; ⇒ implica; ↑ acima; ↓ abaixo; ² ao quadrado; ³ "
        "ao cubo; ✓ sim; ✔ sim; ✗ não; ✘ não; ′ minutos; ″ segundos; ∈ pertence a; ∩ interseção; ∪ união"
    ),
    marks=signs(
        ". ponto; / barra; : dois pontos; @ arroba; ? interrogação; = igual; & e; # cerquilha; % por cento; + mais; "
        "~ til; - hífen; _ sublinhado"
    ),
    hashtag="hashtag",
    slashed={"e/ou": "e ou", "E/ou": "e ou", "s/n": "sem número"},
    phones=(
        r"(?!(?:19|20)D{2}-(?:19|20)D{2})9?D{4}-D{4}|D{2}\.D{3}\.D{3}/D{4}-D{2}|9[ ]?D{4}-D{4}|0800[ -]?D{3}[ -]?D{4}|"
        r"D{2}[ ]9?D{4}-D{4}|D{3}\.D{3}\.D{3}-D{2}|D{5}-D{3}"
    ),
    before_phones=r"[Tt]el\.?|[Tt]elefone|[Cc]elular|[Cc]el\.?|[Ll]igue(?: para)?|[Ff]ax|[Ww]hats[Aa]pp|CPF|CEP",
    phone_pairs=False,
    code_block="bloco de código.",
)
RULESET = ruleset(TABLE)
