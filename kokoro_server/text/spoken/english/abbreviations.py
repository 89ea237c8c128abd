"""Abbreviations: titles, streets, what stands before a number, Latin, and what is written with a slash."""

from __future__ import annotations

import re
from typing import Any

import regex

from kokoro_server.text.spoken.english.patterns import AT_DOTTED, AT_WORD_BEFORE_NUMBER, OWN_DOT, follows
from kokoro_server.text.spoken.english.words import letters
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import DIGITS, any_of

# Before a name.
_TITLES = {
    "Dr": "Doctor", "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Mx": "Mix", "Prof": "Professor", "Rev": "Reverend",
    "Hon": "Honorable", "Gen": "General", "Col": "Colonel", "Maj": "Major", "Capt": "Captain", "Cpt": "Captain",
    "Cmdr": "Commander", "Lt": "Lieutenant", "Sgt": "Sergeant", "Cpl": "Corporal", "Pvt": "Private", "Adm": "Admiral",
    "Gov": "Governor", "Sen": "Senator", "Rep": "Representative", "Pres": "President", "Supt": "Superintendent",
    "Fr": "Father", "Msgr": "Monsignor", "St": "Saint", "Ste": "Sainte", "Mt": "Mount", "Ft": "Fort",
    "Messrs": "Messieurs", "Drs": "Doctors", "Profs": "Professors", "Sens": "Senators", "Reps": "Representatives",
    "Amb": "Ambassador", "Sec": "Secretary", "Insp": "Inspector", "Det": "Detective", "Asst": "Assistant",
    "Brig": "Brigadier", "Pt": "Point",
}  # fmt: skip
_BARE_TITLES = "Dr Mr Mrs Ms Prof St Mt Lt Sgt Capt Mx".split()  # as British writers leave out the dot
# After the name of a street.
_STREETS = {
    "St": "Street", "Ave": "Avenue", "Av": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Dr": "Drive", "Ln": "Lane",
    "Ct": "Court", "Pl": "Place", "Sq": "Square", "Hwy": "Highway", "Pkwy": "Parkway", "Ter": "Terrace",
    "Cir": "Circle", "Expy": "Expressway",
}  # fmt: skip
_BARE_STREETS = ("Ave", "Blvd", "Rd", "Hwy", "Pkwy", "Ln", "St", "Sq")
# Before a number or a letter.
_NUMBERED = {
    "No": "number", "Nos": "numbers", "no": "number", "nos": "numbers", "Nr": "number", "№": "number",
    "Vol": "volume", "vol": "volume", "Vols": "volumes", "vols": "volumes", "Fig": "figure", "fig": "figure",
    "Figs": "figures", "figs": "figures", "Eq": "equation", "eq": "equation", "Eqs": "equations", "Ch": "chapter",
    "ch": "chapter", "Chap": "chapter", "chap": "chapter", "Chs": "chapters", "Sec": "section", "sec": "section",
    "Secs": "sections", "Sect": "section", "Art": "article", "art": "article", "p": "page", "pp": "pages",
    "pg": "page", "Pg": "page", "pgs": "pages", "P": "page", "para": "paragraph", "Para": "paragraph",
    "par": "paragraph", "Tab": "table", "Ref": "reference", "ref": "reference", "Refs": "references",
    "App": "appendix", "Ex": "example", "ex": "example", "Op": "opus", "op": "opus", "Pt": "part", "pt": "part",
    "Ep": "episode", "ep": "episode", "Apt": "apartment", "apt": "apartment", "Ste": "suite", "Rm": "room",
    "rm": "room", "Bldg": "building", "bldg": "building", "Fl": "floor", "ext": "extension", "Ext": "extension",
    "approx": "approximately", "Approx": "approximately", "ca": "circa", "c": "circa", "Ca": "circa",
    "est": "estimated", "max": "maximum", "min": "minimum", "avg": "average", "Ser": "serial", "ver": "version",
    "Ver": "version", "art.": "article", "n": "note", "l": "line", "ll": "lines", "v": "version", "vs": "versus",
    "cf": "compare", "Tel": "telephone", "tel": "telephone", "§": "section", "Sess": "session", "Dept": "department",
    "Div": "division", "Lot": "lot", "Prop": "proposition", "Thm": "theorem", "Def": "definition", "Cor": "corollary",
    "fl": "flourished", "r": "reigned", "Pop": "population", "pop": "population", "temp": "temperature",
    "Temp": "temperature", "Reg": "registration", "reg": "registration",
}  # fmt: skip
_NUMBERED_BARE = "Fig Figs Vol Eq Apt Bldg approx Approx pp Chap Ext ext Ep No Nos Rm".split()
_LETTERED = frozenset("Fig Figs App Apt apt Sec Vol Ch Chap Eq Pt Op Art Bldg Ste".split())  # Fig. A, Vol. II
# Wherever they stand. The dot is theirs, unless a sentence ends with it.
_ANYWHERE = {
    "Acct": "Account", "acct": "account",
    "etc": "et cetera", "e.g": "for example", "eg": "for example", "i.e": "that is", "ie": "that is",
    "a.k.a": "also known as", "vs": "versus", "cf": "compare", "Cf": "Compare", "nr": "near",
    "viz": "namely", "approx": "approximately",
    "dept": "department", "Dept": "Department", "univ": "university", "Univ": "University", "assn": "association",
    "Assn": "Association", "Inc": "Incorporated", "Corp": "Corporation", "Ltd": "Limited", "Co": "Company",
    "Bros": "Brothers", "Jr": "Junior", "Sr": "Senior", "Esq": "Esquire", "ibid": "ibid", "misc": "miscellaneous",
    "avg": "average", "govt": "government", "Govt": "Government", "intl": "international", "Intl": "International",
    "Int'l": "International", "int'l": "international", "natl": "national", "Nat'l": "National",
    "Gov't": "Government", "gov't": "government", "incl": "including", "excl": "excluding", "esp": "especially",
    "resp": "respectively", "eds": "editors", "Mfg": "Manufacturing", "mfg": "manufacturing", "tel": "telephone",
    "Tel": "telephone", "hrs": "hours", "mins": "minutes", "yrs": "years", "wks": "weeks", "lbs": "pounds",
    "pkg": "package", "qty": "quantity", "Qty": "Quantity", "Ph.D": "P.H.D", "Ph.Ds": "P.H.D's", "attn": "attention",
    "Attn": "Attention", "asst": "assistant", "bldg": "building", "Bldg": "Building", "Blvd": "Boulevard",
    "Ave": "Avenue", "Mon": "Monday", "Tues": "Tuesday", "Weds": "Wednesday", "Thurs": "Thursday", "Fri": "Friday",
    "Feb": "February", "Aug": "August", "Sept": "September", "Oct": "October", "Nov": "November", "Dec": "December",
    "Jan": "January", "Dist": "District", "Acad": "Academy", "Inst": "Institute", "Soc": "Society", "Mgr": "Manager",
    "mgr": "manager", "mgmt": "management", "Reg": "registration", "w.r.t": "with respect to",
    "s.t": "such that", "R.I.P": "rest in peace",
    "P.S": "P.S", "N.B": "N.B",
}  # fmt: skip
# Without a dot these are abbreviations too.
_DOTLESS = (
    "etc eg ie vs Jr Sr Inc Ltd Corp approx govt dept Dept misc qty Qty Intl incl Int'l int'l gov't Gov't "
    "Nat'l mgmt attn Attn"
).split()
# With these no sentence ends.
_NEVER_LAST = "e.g i.e eg ie vs cf Cf nr viz approx incl excl esp w.r.t attn Attn a.k.a Acct acct".split()
_SLASHED = {
    "w/o": "without", "w/": "with", "W/": "with", "w/in": "within", "b/c": "because", "b/w": "between",
    "c/o": "care of", "and/or": "and or", "he/she": "he or she", "He/she": "He or she", "she/he": "she or he",
    "his/her": "his or her", "His/her": "His or her", "him/her": "him or her",
    "himself/herself": "himself or herself", "s/he": "she or he", "a/c": "A.C", "n/a": "N.A", "N/A": "N.A",
    "I/O": "I.O", "yes/no": "yes or no", "Yes/No": "yes or no", "either/or": "either or",
    "y/y": "year over year", "Y/Y": "year over year", "q/q": "quarter over quarter", "Q/Q": "quarter over quarter",
    "m/m": "month over month", "w/c": "week commencing",
    "w/e": "weekend", "y/o": "years old",
}  # fmt: skip
STATES = {
    "AL": "Alabama", "AK": "Alaska", "AZ": "Arizona", "AR": "Arkansas", "CA": "California", "CO": "Colorado",
    "CT": "Connecticut", "DE": "Delaware", "FL": "Florida", "GA": "Georgia", "HI": "Hawaii", "ID": "Idaho",
    "IL": "Illinois", "IN": "Indiana", "IA": "Iowa", "KS": "Kansas", "KY": "Kentucky", "LA": "Louisiana",
    "ME": "Maine", "MD": "Maryland", "MA": "Massachusetts", "MI": "Michigan", "MN": "Minnesota", "MS": "Mississippi",
    "MO": "Missouri", "MT": "Montana", "NE": "Nebraska", "NV": "Nevada", "NH": "New Hampshire", "NJ": "New Jersey",
    "NM": "New Mexico", "NY": "New York", "NC": "North Carolina", "ND": "North Dakota", "OH": "Ohio",
    "OK": "Oklahoma", "OR": "Oregon", "PA": "Pennsylvania", "RI": "Rhode Island", "SC": "South Carolina",
    "SD": "South Dakota", "TN": "Tennessee", "TX": "Texas", "UT": "Utah", "VT": "Vermont", "VA": "Virginia",
    "WA": "Washington", "WV": "West Virginia", "WI": "Wisconsin", "WY": "Wyoming",
}  # fmt: skip
_LONG_STATES = {
    "Ala": "Alabama", "Ariz": "Arizona", "Ark": "Arkansas", "Calif": "California", "Colo": "Colorado",
    "Conn": "Connecticut", "Del": "Delaware", "Fla": "Florida", "Ga": "Georgia", "Ill": "Illinois", "Ind": "Indiana",
    "Kan": "Kansas", "Ky": "Kentucky", "La": "Louisiana", "Md": "Maryland", "Mass": "Massachusetts",
    "Mich": "Michigan", "Minn": "Minnesota", "Miss": "Mississippi", "Mo": "Missouri", "Mont": "Montana",
    "Neb": "Nebraska", "Nev": "Nevada", "Okla": "Oklahoma", "Ore": "Oregon", "Pa": "Pennsylvania",
    "Penn": "Pennsylvania",
    "Tenn": "Tennessee", "Tex": "Texas", "Vt": "Vermont", "Va": "Virginia", "Wash": "Washington", "Wis": "Wisconsin",
    "Wyo": "Wyoming",
}  # fmt: skip
_YEAR = re.compile(r"\s[12][0-9]{3}\b(?!,)")
_STATE_LIKE = re.compile(r", [A-Z]{2}\b")
_PRONOUNS = "I|He|She|It|They|We|You|The|But|And|My|His|Her"  # with which a sentence begins
_STATE_WORDS = frozenset("AL CO DE HI ID IN LA MA ME MI OH OK OR PA".split())
_ZIP = re.compile(r"\s[0-9]{5}\b")
_TOWN = r"(?:\p{Lu}[\p{Ll}.]+[ ]){0,2}\p{Lu}\p{Ll}+,[ ]"
_IN_TOWN = regex.compile(
    r"(?:\b(?:in|from|near|of|to|at|for|outside|around|via)\s|[0-9],?\s|(?:St|Ave|Rd|Street|Avenue|Road|Drive|Lane)\.?,\s"
    rf"){_TOWN}\Z"
)
_AFTER_TOWN = re.compile(r"\Z|\n|\s(?:is|was|has|had)\b")
_TOWN_LINE = regex.compile(rf"(?:\A|\n){_TOWN}\Z")
# What comes before `no. 5`. Elsewhere it is the word, and a sentence ends with it.
_BEFORE_NO = regex.compile(
    r"(?:\b(?:the|a|an|at|in|is|was|see|flat|room|house|track|item|order|part|model|serial|patent|platform|gate|bus|opus|"
    r"invoice|reference|ref|account|phone|tel|page|chapter|case|ranked|seeded|world|its|his|her|my|our|your|and|(?:reg|pat|"
    r"cat|ser)\.)|[,;:(#])"
    r"\s?\Z",
    regex.IGNORECASE,
)
_NOT_STREETS = (
    "The|A|An|On|In|At|By|To|Of|And|Or|But|From|With|For|When|While|As|If|Is|Was|Did|Does|Has|Had|Our|My|His|Her|"
    "Their|Your|This|That|Then|So|Yes|No|Hi|Hello|Dear|Ask|Call|See|Meet|Said|Thanks|Thank|Mr|Mrs|Ms|Prof"
)
_NAME_BEFORE = rf"(?<=(?<![\p{{L}}])(?!(?:{_NOT_STREETS})\b)(?:\p{{Lu}}[\p{{L}}'’]+|[0-9]+(?:st|nd|rd|th))[ \xa0])"


def _title(match: Any, _dialect: Dialect) -> SpokenWords:
    return _TITLES[match["title"]]


def _street(match: Any, _dialect: Dialect) -> SpokenWords:
    dotted = match.string[match.end("street") : match.end("street") + 1] == "."
    return [("all", _STREETS[match["street"]])] if dotted or match["street"] in _BARE_STREETS else None


def _before_number(match: Any, _dialect: Dialect) -> SpokenWords:
    if match["word"] in ("no", "nos") and not follows(match, _BEFORE_NO):
        return None
    if match["letter"] and match["word"] not in _LETTERED:
        return None
    if match["word"] == "est" and _YEAR.match(match.string, match.end()):
        return [("all", "established")]
    return [("all", _NUMBERED[match["word"]])]


def _anywhere(match: Any, _dialect: Dialect) -> SpokenWords:
    return _ANYWHERE[match["word"]]


def _state(match: Any, _dialect: Dialect) -> SpokenWords:
    """A state after a town. One that is also a word needs a zip code, a word such as `in`, or a line of its own."""
    state = match["state"]
    if state in _STATE_WORDS and not _ZIP.match(match.string, match.end()):
        alone = _AFTER_TOWN.match(match.string, match.end()) and follows(match, _TOWN_LINE, 60)
        return STATES[state] if alone or follows(match, _IN_TOWN, 60) else None
    return STATES[state]


def _slashed(match: Any, _dialect: Dialect) -> SpokenWords:
    return _SLASHED[match[0]]


def _plural_option(match: Any, _dialect: Dialect) -> SpokenWords:
    return f"{match['stem']}{match['ending']}"


def _direction(match: Any, dialect: Dialect) -> SpokenWords:
    return letters(match[0], dialect)


RULES = [
    rule("abbreviation", rf"(?<![\p{{L}}\p{{N}}/])(?:{any_of(_SLASHED)})(?![\p{{L}}\p{{N}}/])", _slashed, "/"),
    rule("plural", r"(?<![\p{L}\p{N}])(?P<stem>\p{L}{2,24})\((?P<ending>s|es)\)(?!\p{L})", _plural_option, "("),
    rule(
        "street",
        rf"{_NAME_BEFORE}(?P<all>(?P<street>{any_of(_STREETS)})(?![\p{{L}}\p{{N}}'’])"
        rf"(?:{OWN_DOT}|\.(?=\s(?:Apt|Suite|Ste|Unit|Floor|Room|Rm|Bldg|[NS][EW])\b))?)(?=\s*\Z|"
        rf"\.?\s*\Z|[.,;:!?)]|\s(?:\p{{Ll}}|[0-9]|[NSEW]{{1,2}}\b|\#|(?:Apt|Suite|Ste|Unit|Floor|Room|Rm|Bldg)\b))",
        _street,
        "SABRDLCPHTE",
    ),
    rule(
        "direction",
        rf"(?<=\b(?:{any_of(_STREETS)}|Street|Avenue|Road|Boulevard|Drive)\.? )(?:NW|NE|SW|SE)\b",
        _direction,
        "NS",
    ),
    rule(
        "title",
        rf"(?<![\p{{L}}\p{{N}}.])(?P<title>{any_of(_TITLES)})\.(?=\s(?:(?:{any_of(_TITLES)})\.\s|and "
        rf"(?:{any_of(_TITLES)})\.|(?:[dvl][aeo]\p{{Ll}}* )?[\"“‘']?(?!I\s)\p{{Lu}}))",
        _title,
        ".",
    ),
    rule(
        "title",
        rf"(?<![\p{{L}}\p{{N}}.])(?P<title>{any_of(_BARE_TITLES)})(?=\s(?:and (?:{any_of(_BARE_TITLES)})\b|\p{{Lu}}))",
        _title,
        "DMPSLC",
    ),
    rule("title", rf"(?<![\p{{L}}\p{{N}}.&])(?P<title>Mr|Mrs|Ms|Dr)(?:\.(?!\s(?:{_PRONOUNS})\s)|(?=\.))", _title, "."),
    rule(
        "title", rf"(?<=\b(?:Lt|Maj|Brig|Col)\. )(?P<title>Col|Gen|Cmdr|Adm)(?![\p{{L}}\p{{N}}]){OWN_DOT}?", _title, "."
    ),
    rule(
        "abbreviation",
        rf"(?<![\p{{L}}\p{{N}}.'’&])(?P<all>(?P<word>{any_of(_NUMBERED)})\.)(?=\s?[(~$£€]?[0-9]|\s?\#|\s[A-Z]{{1,3}}-?[0-9]|"
        rf"(?<=\bpp?\.)\s[ivxl]{{1,6}}\b|(?P<letter>\s?(?:[IVXLC]+|[A-Z])\b))",
        _before_number,
        ".",
        at=AT_DOTTED,
    ),
    rule(
        "abbreviation",
        rf"(?P<all>(?P<word>{any_of(_NUMBERED_BARE)}))(?P<letter>(?!))?(?=\s[0-9])",
        _before_number,
        DIGITS,
        at=AT_WORD_BEFORE_NUMBER,
    ),
    rule(
        "abbreviation",
        rf"(?P<word>{any_of(_ANYWHERE)})(?![\p{{L}}\p{{N}}'’@/-])(?:{OWN_DOT}|(?<=\b"
        rf"(?:{any_of(_NEVER_LAST)}))\.|(?=\.))(?!\p{{L}})",
        _anywhere,
        ".",
        at=AT_DOTTED,
    ),
    rule(
        "abbreviation",
        rf"(?<![\p{{L}}\p{{N}}.'’@/-])(?P<word>{any_of(_DOTLESS)})(?![\p{{L}}\p{{N}}'’@/.-])",
        _anywhere,
        re.compile(rf"\b(?:{any_of(_DOTLESS)})\b"),
    ),
    rule("abbreviation", rf"(?<=[0-9](?:st|nd|rd|th) )[Ff]l(?![\p{{L}}\p{{N}}]){OWN_DOT}?", "floor", DIGITS),
    rule("abbreviation", rf"(?<=\b[Ee]t )al{OWN_DOT}", "al", "."),
    rule("versus", r"(?<=\p{L}\.? )v\.(?= \p{Lu})", "versus", "v"),
    rule("and", r"['’‘][nN]['’](?=\s?\p{L})", "and", "'’‘"),
    rule(
        "state",
        rf"(?<=\p{{Lu}}\p{{L}}+, )(?P<state>{any_of(_LONG_STATES)})(?:{OWN_DOT}|(?=\.))|"
        rf"\b(?P<state>Ariz|Calif|Colo|Conn|Fla|Mich|Minn|Okla|Tenn|Wis|Wyo)(?:{OWN_DOT}|(?=\.))",
        lambda match, _dialect: _LONG_STATES[match["state"]],
        ".",
        at=AT_DOTTED,
    ),
    rule(
        "state",
        rf"(?<=\p{{Lu}}\p{{Ll}}+, )(?P<state>{any_of(STATES)})(?=\s[0-9]{{5}}\b|[.,;:)!?]|\s*\Z|\s\p{{Ll}})",
        _state,
        _STATE_LIKE,
    ),
]
