"""Abbreviations: titles, streets, those before a number, Latin, and those with a slash."""

from __future__ import annotations

import re
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import AT_DOTTED, AT_WORD_BEFORE_NUMBER, OWN_DOT, AnyWord, one_of_many
from kokoro_server.text.spoken.english.words import cardinal
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import DIGITS, any_of, follows

_GRAMMAR = vocabulary.load("english_grammar")
_FILE = vocabulary.load("english")
_TITLES = _FILE.words("titles")
_BARE_TITLES = _FILE.having("titles", "bare")
_STREETS = _FILE.words("streets")
_BARE_STREETS = _FILE.having("streets", "bare")
_NUMBERED = _FILE.words("before_numbers")
_NUMBERED_BARE = _FILE.having("before_numbers", "bare")
_LETTERED = _FILE.having("before_numbers", "letters")  # Fig. A, Vol. II
# The dot is theirs, unless a sentence ends with it.
_ANYWHERE = _FILE.words("abbreviations")
_DOTLESS = _FILE.having("abbreviations", "bare")
_NEVER_LAST = _FILE.having("abbreviations", "inside")
_AFTER = {word: regex.compile(rf"(?:{pattern})\Z") for word, pattern in _FILE.option("abbreviations", "after").items()}
_BEFORE = {word: regex.compile(pattern) for word, pattern in _FILE.option("abbreviations", "before").items()}
_SLASHED = _FILE.words("slashed")
_STATES = _FILE.words("states")
_LONG_STATES = _FILE.words("long_states")
_ONE_LETTER = {"I": 1, "V": 5, "X": 10}  # numerals that are read only after amend.
_COURT = regex.compile(r"[0-9](?:st|nd|rd|th|d) \Z")  # the 9th Cir.
# Pub. L. No. 5, Fed. R. Civ. P. 12, Fed. Reg. 9
_CITED = regex.compile(r"\b(?:Pub\. L|R\. (?:Civ|Crim|App|Bankr)|Fed|Fed\. R)\. \Z")
_PARTY = regex.compile(r"(?:['’]s?|\b(?:Pl|Def|Joint|Trial|See|see|in|In|Dkt|Gov't|Govt)\.?) \Z")  # Plaintiff's Ex. 12
_NUMERAL = re.compile(r"[IVX]{2,}|[ivx]{2,}")
_AFTER_NUMERAL = re.compile(r"\s*(?:[,;:.)§]|\Z|(?:of|courts?|judges?)\b)")
_AT_RANK = re.compile(r"[CGA](?:ol|en|mdr|dm)(?![a-z])")
_AFTER_DIGIT = re.compile(r"[0-9]\s?\Z")
_YEAR = re.compile(r"\s[12][0-9]{3}\b(?!,)")
_LIVED = re.compile(r"\s[12][0-9]{3}\b(?!,[0-9])")
_STATE_LIKE = re.compile(r", [A-Z]{2}\b")
_PRONOUNS = any_of(_GRAMMAR.list("pronouns"))  # with which a sentence begins
_STATE_WORDS = _FILE.having("states", "word")
# Before and after a degree: Dr. Ann Lee, MD; J. Doe, MD, PhD.
_DOCTOR = regex.compile(
    r"(?:(?<!\p{Lu}\p{L}* )Dr\.? (?:\p{Lu}[\p{L}.'’-]* ){0,2}\p{Lu}[\p{L}'’-]+|"
    r"(?<!\p{L})(?![NSEW])\p{Lu}\. \p{Lu}[\p{L}'’-]+), \Z"
)
_POST_NOMINAL = re.compile(r", (?:(?!USA)[A-Z]{3,5}\b|Ph\.?D)")
_ZIP = re.compile(r"\s[0-9]{5}\b")
_TOWN = r"(?:\p{Lu}[\p{Ll}.]+[ ]){0,2}\p{Lu}\p{Ll}+,[ ]"
_IN_TOWN = regex.compile(
    r"(?:\b(?:in|from|near|of|to|at|for|outside|around|via)\s|[0-9],?\s|(?:St|Ave|Rd|Street|Avenue|Road|Drive|Lane)\.?,\s"
    rf"){_TOWN}\Z"
)
_AFTER_TOWN = re.compile(r"\Z|\n|\s(?:is|was|has|had)\b")
_TOWN_LINE = regex.compile(rf"(?:\A|\n){_TOWN}\Z")
# Words before `no. 5`. Elsewhere `no` is the word, and a sentence ends with it.
_BEFORE_NO = regex.compile(
    r"(?:\b(?:the|a|an|at|in|is|was|see|flat|room|house|track|item|order|part|model|serial|patent|platform|gate|bus|opus|"
    r"invoice|reference|ref|account|phone|tel|page|chapter|case|ranked|seeded|world|its|his|her|my|our|your|and|(?:reg|pat|"
    r"cat|ser|tel|ref|inv|acct|lic)\.)|[,;:(#])"
    r"\s?\Z",
    regex.IGNORECASE,
)
# Names with a saint in them: Amon-Ra St. Brown.
_SAINT_NAMES = "Amand|Amant|Aubin|Brown|Clair|Cyr|Denis|Germain|Hilaire|Juste|Laurent|Onge|Ours|Pierre|Vincent"
_NOT_STREETS = any_of(_GRAMMAR.list("not_streets"))
_NAME_BEFORE = (
    rf"(?<=(?<![\p{{L}}])(?!(?:{_NOT_STREETS})\b)(?:\p{{Lu}}[\p{{L}}'’]+|[JS]r\.|[0-9]+(?:st|nd|rd|th))[ \xa0])"
)


def _title(match: Any, _dialect: Dialect) -> SpokenWords:
    return _TITLES[match["title"]]


def _street(match: Any, _dialect: Dialect) -> SpokenWords:
    if match["street"] == "Cir" and follows(match, _COURT):
        return [("all", "Circuit")]
    dotted = match.string[match.end("street") : match.end("street") + 1] == "."
    return [("all", _STREETS[match["street"]])] if dotted or match["street"] in _BARE_STREETS else None


def _before_number(match: Any, dialect: Dialect) -> SpokenWords:
    if match["word"] in ("no", "nos") and not follows(match, _BEFORE_NO):
        return None
    if match["word"] in ("b", "d") and not _LIVED.match(match.string, match.end()):
        return None
    if follows(match, _CITED) or (match["word"] == "s" and follows(match, _AFTER_DIGIT)):
        return None
    if match["word"] == "Ex" and follows(match, _PARTY):
        return [("all", "exhibit")]
    letter = (match["letter"] or "").strip()
    ends = _AFTER_NUMERAL.match(match.string, match.end("letter")) if letter else None
    if match["word"].lower() in ("amend", "art") and letter in _ONE_LETTER:
        if match["word"].lower() == "art" and not ends:
            return None
        return [("all", _NUMBERED[match["word"]]), ("letter", cardinal(_ONE_LETTER[letter], dialect))]
    if letter and match["word"] not in _LETTERED and not _NUMERAL.fullmatch(letter) and not (ends and letter in "ivx"):
        return None
    if match["word"] in ("est", "Est") and _YEAR.match(match.string, match.end()):
        return [("all", "established")]
    return [("all", _NUMBERED[match["word"]])]


def _anywhere(match: Any, _dialect: Dialect) -> SpokenWords:
    word = match["word"]
    if (after := _AFTER.get(word)) and not follows(match, after):
        return None
    if (before := _BEFORE.get(word)) and not before.match(match.string, match.end()):
        return None
    return _ANYWHERE[word]


def _state(match: Any, _dialect: Dialect) -> SpokenWords:
    """A state after a town. One that is also a word needs a zip code, a word such as `in`, or a line of its own."""
    state = match["state"]
    if (
        state == "MD"
        and not _ZIP.match(match.string, match.end())
        and (_POST_NOMINAL.match(match.string, match.end()) or follows(match, _DOCTOR, 60))
    ):
        return None
    if state in _STATE_WORDS and not _ZIP.match(match.string, match.end()):
        alone = _AFTER_TOWN.match(match.string, match.end()) and follows(match, _TOWN_LINE, 60)
        return _STATES[state] if alone or follows(match, _IN_TOWN, 60) else None
    return _STATES[state]


RULES = [
    rule("abbreviation", r"(?<!\p{L})Reg\.(?= \(?E[UC]\b)", "Regulation", "R"),
    # VAT incl., breakfast excl.
    rule(
        "abbreviation",
        r"(?<=\p{L}{3} )(?P<all>(?P<word>incl|excl)(?:\.(?!\s*+\Z|\s*+\n))?)(?=[),;\n]|\.?\s*\Z)",
        lambda match, _dialect: [("all", {"incl": "included", "excl": "excluded"}[match["word"]])],
        "c",
    ),
    rule(
        "plural",
        r"(?<![\p{L}\p{N}])(?P<stem>\p{L}{2,24})\((?P<ending>s|es)\)(?!\p{L})",
        lambda match, _dialect: f"{match['stem']}{match['ending']}",
        "(",
    ),
    rule(
        "street",
        rf"{_NAME_BEFORE}(?!St\. (?:{_SAINT_NAMES})\b)(?P<all>(?P<street>{any_of(_STREETS)})(?![\p{{L}}\p{{N}}'’])"
        rf"(?:{OWN_DOT}|\.(?=\s(?:Apt|Suite|Ste|Unit|Floor|Room|Rm|Bldg|[NS][EW])\b))?)(?=\s*\Z|"
        rf"\.?\s*\Z|[.,;:!?)]|\s(?:\p{{Ll}}|[0-9#&]|[NSEW]{{1,2}}\b|(?:Apt|Suite|Ste|Unit|Floor|Room|Rm|Bldg)\b))",
        _street,
        "SABRDLCPHTE",
    ),
    rule(
        "title",
        rf"(?<![\p{{L}}\p{{N}}.])(?P<title>{any_of(_TITLES)})\.(?=\s(?:(?:{any_of(_TITLES)})\.\s|and "
        rf"(?:{any_of(_TITLES)})\.|(?:[dvl][aeo]\p{{Ll}}* )?[\"“‘']?(?!I\s|Nos?\.)\p{{Lu}}))",
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
        "title",
        rf"(?<=\b(?:Lt|Maj|Brig|Col)\. )(?P<title>Col|Gen|Cmdr|Adm)(?![\p{{L}}\p{{N}}]){OWN_DOT}?",
        _title,
        ".",
        at=_AT_RANK,
    ),
    rule(
        "abbreviation",
        rf"(?<![\p{{L}}\p{{N}}.'’&])(?P<all>(?P<word>{one_of_many(_NUMBERED)})\.)(?=\s?[(~$£€]?[0-9]|\s?\#|\s[A-Z]{{1,3}}-?[0-9]|"
        rf"(?<=\bpp?\.)\s[ivxl]{{1,6}}\b|(?P<letter>\s?(?:[IVXLC]+|[A-Z])\b|\s[ivx]{{1,6}}\b))",
        _before_number,
        ".",
        at=AT_DOTTED,
    ),
    rule(
        "abbreviation",
        rf"(?P<all>(?P<word>{one_of_many(_NUMBERED_BARE)}))(?P<letter>(?!))?(?=\s[0-9]|(?<=\b[Aa]pt|\b[Ss]te|\b[Uu]nit|\b[Rr]m)\s\#[0-9])",
        _before_number,
        DIGITS,
        at=AT_WORD_BEFORE_NUMBER,
    ),
    rule(
        "abbreviation",
        rf"(?P<word>{one_of_many(_ANYWHERE)})(?![\p{{L}}\p{{N}}'’@/-])(?:{OWN_DOT}|(?<=\b"
        rf"(?:{one_of_many(_NEVER_LAST)}))\.|(?=\.))(?!\p{{L}})",
        _anywhere,
        ".",
        at=AT_DOTTED,
    ),
    rule(
        "abbreviation",
        rf"(?<![\p{{L}}\p{{N}}.'’@/-])(?P<word>{one_of_many(_DOTLESS)})(?![\p{{L}}\p{{N}}'’@/.-])",
        _anywhere,
        AnyWord(_DOTLESS),
    ),
    rule("abbreviation", r"(?<=[0-9]-)y/o(?![\p{L}\p{N}])", "year old", "/"),
    rule(
        "abbreviation",
        rf"(?<![\p{{L}}\p{{N}}/])(?:{any_of(_SLASHED)})(?![\p{{L}}\p{{N}}/])",
        lambda match, _dialect: _SLASHED[match[0]],
        "/",
    ),
    rule("abbreviation", rf"(?<=[0-9](?:st|nd|rd|th) )[Ff]l(?![\p{{L}}\p{{N}}]){OWN_DOT}?", "floor", DIGITS),
    rule("abbreviation", rf"(?<=\b[Ee]t )al{OWN_DOT}", "al", "."),
    # Martin Luther King Jr. Blvd.
    rule(
        "abbreviation",
        rf"(?<=\p{{Lu}}\p{{L}}+,? )Jr\.(?=\s(?:{any_of(_STREETS)}|Street|Avenue|Road|Drive|Boulevard|Way|Day|High|"
        r"Middle|Elementary|Memorial|Park|School|Library)\b)",
        "Junior",
        ".",
    ),
    # Invoice No.: 4471.
    rule(
        "abbreviation",
        r"(?<=\b(?i:invoice|order|account|policy|ticket|case|phone|flight|serial|model|part|item|id|room|customer|"
        r"member|tracking|po|batch|card|contract|claim|booking|reference|(?:tel|ref|inv|acct|reg|lic|cat)\.?) )"
        r"[Nn]o\.?(?=:)",
        "number",
        ":",
    ),
    rule("versus", r"(?<=\p{L}\.? )v\.(?= \p{Lu})", "versus", "v"),
    rule("paragraphs", r"¶¶(?=\s?[0-9])", "paragraphs", "¶"),
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
        rf"(?<=\p{{Lu}}\p{{Ll}}+, )(?P<state>{any_of(_STATES)})(?=\s[0-9]{{5}}\b|[.,;:)!?]|\s*\Z|\s\p{{Ll}})",
        _state,
        _STATE_LIKE,
    ),
]
