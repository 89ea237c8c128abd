"""Case is not meaning: words in capitals, and names, months, titles and money in small letters.

Most rules of English know a name by its capital. They get a text as ordinary prose would write it, see `recase`. misaki
spells what is in capitals if it takes it for a name, so shouted words are given to it in small letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import MONTH_NAMES, SHORT_MONTH, AnyWord
from kokoro_server.text.spoken.english.quantities.unit_names import UNITS
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import any_of, roman_value

_FILE = vocabulary.load("english")
_GRAMMAR = vocabulary.load("english_grammar")
_LISTS = vocabulary.load("english_capitals")
# Acronyms that misaki misreads. It knows most of them.
_SAID = _FILE.words("acronyms")
_ACRONYMS = frozenset([*_LISTS.list("headline_acronyms"), *_FILE.list("spelled"), *_FILE.list("initials"), *_SAID])
# Chat is chat in capitals, too: THX, SEE U TMRW.
_CHAT = vocabulary.load("english_chat")
_TYPED = frozenset(_CHAT.words("chat")) - frozenset(_CHAT.having("chat", "among")) | {"u", "r", "ur"}
_SMALL_WORDS = frozenset(_GRAMMAR.list("small_words"))
_TWO_LETTERS = frozenset(_LISTS.list("two_letters"))
_NOT_NUMERALS = frozenset(_GRAMMAR.list("not_numerals"))
_STATES = _FILE.words("states")
_PLAIN_STATES = [state for state in _STATES if state not in _FILE.having("states", "word")]
_WEEKDAYS = _FILE.words("weekdays")
_CODES = [code for code in vocabulary.load("english_money").sections["currency_codes"] if code != "TRY"]
_ZONES = [zone for zone in _FILE.list("time_zones") if zone != "WEST"]
_ABBREVIATIONS = frozenset(
    key for section in ("titles", "streets", "before_numbers", "abbreviations") for key in _FILE.sections[section]
)
_TITLED = _FILE.words("titles")
_COUNTED = [word for word in _GRAMMAR.sections["patterns"]["counted"] if word.isalpha() and not word.isupper()]
# Words with a capital even where all that misaki gets is in small letters.
_DATES = frozenset([*MONTH_NAMES, *_WEEKDAYS.values()]) - {"May", "March"}
# Months and weekdays that are also words: what is beside them decides.
_AMBIGUOUS = frozenset("MAR MARCH MAY SAT SUN WED".split())
_RATES = vocabulary.load("english_units").words("rates")
_ERAS = frozenset("AD AM BC BCE CE PM".split())
# Five capitals and more are a word, known or not, unless nobody could say it.
_INITIALS = frozenset(_FILE.list("initials"))
_UNSAYABLE = re.compile(
    r"[^AEIOUY]{4}|AA|II|UU|[AEIOU]{4}|[^AEIOUY]{3}(?<![STHDN])\Z|\A(?:[^AEIOUY]{3}(?<!R|L)|[^AEIOUY]+\Z)"
)
_BAD_START = re.compile(
    r"(?!Y?[AEIOU]|[BFGKPC][LR]|C[HZ]|[DT]R|[DST]W|[GKPRSTW]H|[KGSP]N|S[CKLMPQT]|PS|QU|WR)[^AEIOU][^AEIOUY]"
)
_VOWEL = re.compile(r"[AEIOUY]")
_LONG = re.compile(r"[A-Z]{5}")
_SHOUTED = re.compile(r"[A-Z][^A-Za-z\n]{0,6}[ -][^A-Za-z\n]{0,6}[A-Z](?![a-z])")
# Words without a small letter, on one line, and a word among them: neither McX nor U.S. nor AT&T.
_PART = r"[^\s\p{Ll}]++(?!\S)"
_RUN = rf"(?<!\S){_PART}(?:[ \t\xa0]{{1,3}}{_PART})*+"
_RUNS = regex.compile(_RUN)
_WORD = regex.compile(
    r"(?<![\p{L}\p{N}_&@#\\.]|\p{N}-)[A-ZÀ-ÖØ-Þ]++(?:['’][A-Z]++)*+(?![\p{L}\p{N}_&@\\]|\.\p{L}|-\p{N}|:/)"
)
_AFTER_NUMBER = re.compile(r"[0-9][ \xa0-]?\Z")
_AFTER_UNIT = re.compile(r"[0-9][ \xa0]?[A-Z]{1,3}/\Z")
_BEFORE_NUMBER = re.compile(r"\.? ?[0-9]")
_STOP = re.compile(r"[.:;!?—–(\"“]")
_CODE = re.compile(r"\s[*=]\s")  # SELECT * FROM X WHERE Y = Z
_ENOUGH = 1.5  # one word, and one that may be an acronym


class _Cased(NamedTuple):
    """A word of a shouted line at `start`, as ordinary prose writes it and as misaki gets it."""

    start: int
    written: str
    prose: str
    said: str


def recase(text: str) -> str:
    """`text` with the capitals of ordinary prose: Jan. 3 for JAN. 3, Dr Smith for dr smith."""
    if _SHOUTED.search(text):
        words = (word for run in _RUNS.finditer(text) for word in _cased(text, *run.span()))
        text = _edited(text, ((word.start, word.prose) for word in words))
    return _edited(text, _names(text)) if _ANY_CUE.search(text) else text


def _edited(text: str, edits: Iterable[tuple[int, str]]) -> str:
    """`text` with other characters at some places, as long as before."""
    characters = list(text)
    for start, new in edits:
        characters[start : start + len(new)] = new
    return "".join(characters)


_CHANGES = {"name": str.capitalize, "code": str.upper, "small": str.lower}


def _names(text: str) -> Iterator[tuple[int, str]]:
    """What has a capital in ordinary prose: each word that can be the sign of such a name is looked at."""
    for word in _LETTERS.finditer(text):
        for pattern in _CUES.get(word[0], ()):
            if match := pattern.match(text, word.start()):
                for group, change in _CHANGES.items():
                    for start, end in match.spans(group):
                        changed = change(text[start:end])
                        if len(changed) == end - start:  # not with ß, whose capitals are two letters
                            yield start, changed


def _cased(text: str, start: int, end: int) -> Iterator[_Cased]:
    """The words of a run of capitals whose case changes: all if it is shouted, else small words alone."""
    words = list(_WORD.finditer(text, start, end))
    if len(words) < 2:
        return
    long = [word[0] for word in words if len(word[0]) > 1]
    weight = sum(map(_weight, long))
    shouted = weight >= _ENOUGH and 2 * weight >= len(long) and not _CODE.search(text, start, end)
    question = "?" in text[start:end]
    for index, word in enumerate(words):
        before, after = _beside(text, words, index)
        prose, said = _prose(text, word, before, after, question=question) if shouted else (word[0], _small(word[0]))
        if prose != word[0] or said != word[0]:
            plain = prose if prose in _DATES or prose == word[0] or prose[:2] in ("I'", "I’") else prose.lower()
            yield _Cased(word.start(), word[0], prose, said or plain)


def _weight(word: str) -> float:
    """How much a word shows that a line is shouted, and no list of acronyms."""
    if word in _ACRONYMS or word == "IT":
        return 0
    if word.lower() in _SMALL_WORDS or word.lower() in _TYPED or "'" in word or "’" in word:
        return 1
    if word.capitalize() in _COUNTED:
        return _ENOUGH
    if word.capitalize() in _TITLED or word.lower() in _TWO_LETTERS:
        return 0.5
    return 0 if len(word) < 3 or not _sayable(word) else 1 if len(word) > 3 else 0.5


def _small(word: str) -> str:
    return word.lower() if word not in ("A", "I") and word.lower() in _SMALL_WORDS else word


def _sayable(word: str) -> bool:
    if _VOWEL.search(word) is None:
        return False
    return len(word) > 5 or not (_UNSAYABLE.search(word) or _BAD_START.match(word))


def _beside(text: str, words: list[Any], index: int) -> tuple[str, str]:
    """The words before and after a word, in small letters; none across the end of a sentence."""
    before = after = ""
    if index and not _STOP.search(text, words[index - 1].end(), words[index].start()):
        before = words[index - 1][0].lower()
    if index + 1 < len(words) and not _STOP.search(text, words[index].end(), words[index + 1].start()):
        after = words[index + 1][0].lower()
    return before, after


def _prose(text: str, match: Any, before: str, after: str, *, question: bool) -> tuple[str, str]:
    """A shouted word as prose writes it, and what misaki gets if that is something else."""
    word = match[0]
    if word in _CONTEXT and _CONTEXT[word](before, after) and not (word == "WHO" and question):
        return word, ".".join(word)
    name, small = word.capitalize(), word.lower()
    if _AFTER_NUMBER.search(text, max(0, match.start() - 2), match.start()):
        if text[match.end() : match.end() + 1] == "/" and small in UNITS:
            return small, ""
        if word in UNITS or word in _ERAS or word in _CODES:
            return word, ""
        if small in UNITS:
            return small, ""
    if small in _RATES and text[match.start() - 1 : match.start()] == "/":
        return small, ""
    if small in _TYPED and word not in _ACRONYMS:
        return small, ""
    stem = re.split("['’]", word, maxsplit=1)[0]
    if len(word) == 1 and _AFTER_UNIT.search(text, max(0, match.start() - 6), match.start()):
        return small, ""
    if len(stem) == 1:
        return (word[0] + small[1:] if stem == "I" else small if len(word) > 1 else word), ""
    if stem in _ACRONYMS or (word in _STATES and text[match.start() - 2 : match.start()] == ", " and not after):
        return word, ""
    if word == "NO" and _BEFORE_NUMBER.match(text, match.end()):
        return name, ""
    if word in _AMBIGUOUS or small in _SMALL_WORDS or small in _TWO_LETTERS:
        return small, ""
    if name in _ABBREVIATIONS or name in _WEEKDAYS or name[:3] in SHORT_MONTH:
        return name, ""
    if small in _ABBREVIATIONS:
        return small, ""
    if len(word) == 2 or not _sayable(stem) or (word not in _NOT_NUMERALS and roman_value(word)):
        return word, ""
    return name, ""


def _is_country(before: str, after: str) -> bool:
    """US is the country before a noun such as TROOPS, and no pronoun after the article or at the beginning."""
    if before == "the" or after in _AFTER_US:
        return True
    if before in _BEFORE_US or not after:
        return False
    return not before or after not in _SMALL_WORDS


_AFTER_US, _BEFORE_US = frozenset(_LISTS.list("after_us")), frozenset(_LISTS.list("before_us"))
_AFTER_LED, _AFTER_SAT = frozenset(_LISTS.list("after_led")), frozenset(_LISTS.list("after_sat"))
_AFTER_WHO, _AFTER_IT = frozenset(_LISTS.list("after_who")), frozenset(_LISTS.list("after_it"))
# Words that are acronyms only among certain words.
_CONTEXT: dict[str, Callable[[str, str], bool]] = {
    "US": _is_country,
    "WHO": lambda before, after: before == "the" or after in _AFTER_WHO,
    "IT": lambda _before, after: after in _AFTER_IT,
    "LED": lambda before, after: after in _AFTER_LED or (before in ("an", "of") and after not in _SMALL_WORDS),
    "SAT": lambda _before, after: after in _AFTER_SAT,
    "RIP": lambda _before, after: (
        after not in ("", "current", "currents", "off", "tide", "and", "saw", "up", "it", "the")
    ),
    "ACT": lambda _before, after: after in _AFTER_SAT,
}


def _run(match: Any, _dialect: Dialect) -> SpokenWords:
    words = _cased(match.string, *match.span())
    return [((word.start, word.start + len(word.written)), word.said) for word in words if word.said != word.written]


def _name(match: Any, _dialect: Dialect) -> SpokenWords:
    word = match["word"]
    return None if word in _INITIALS or _UNSAYABLE.search(word) else [("word", word.lower())]


_LETTERS = re.compile(r"[A-Za-z]+")
_BARE_TITLES = "capt dr mr mrs ms prof sgt".split()
_DOTTED_TITLES = "col gen gov lt maj rep rev sen".split()
_NOT_NAMES = any_of(
    _SMALL_WORDS.union(
        "about after also apt around asked before behind bldg came could during ed floor gave inside into like near "
        "new next outside past rather room said says some suite than these those through today tomorrow too took "
        "under unit until wants went where which would yesterday".split()
    )
)
_MONTHS = [name.lower() for name in MONTH_NAMES if name not in ("March", "May")]
_SHORT_MONTHS = [name for name in SHORT_MONTH.lower().split("|") if name != "mar"]
_DAYS = [day.lower() for day in (*_WEEKDAYS, *_WEEKDAYS.values()) if day not in ("Sat", "Sun", "Wed", "Weds")]
_ANY_MONTH = rf"(?:{any_of((*_MONTHS, *_SHORT_MONTHS, 'mar', 'march', 'may'))})"
_ANY_DAY = rf"(?:{any_of((*_DAYS, 'sat', 'sun', 'wed'))})"
_BEFORE_NUMBERS = "NO NOS VOL VOLS FIG FIGS CH CHAP PT SEC ART APP OP EP PP".split()
_NUMERALS = "ii iii iv vi vii viii ix xi xii xiii xiv xv xvi xvii xviii xix xx xxi xxii xxiii".split()
_LEFT, _RIGHT = r"(?<![\p{L}\p{N}.;'’@/_])", r"(?![\p{L}\p{N}'’@_]|\.\p{L})"
_DAY = r"(?:0?[1-9]|[12][0-9]|3[01])"
_TIME = r"[0-9]{1,2}(?::[0-9]{2})?\s?[ap]\.?m\b"
_DATE_WORDS = r"(?:on|by|until|till|til|from|since|through|thru|of|for|before|after|in|next|last|this|every|and|to|due)"
_LAST = r"[.,;!?)]*(?:\s*\Z|\n)"


def _both(words: Iterable[str]) -> list[str]:
    return [case for word in words for case in (word.lower(), word.upper())]


# By words that may be meant as a name: the group `name` gets a capital, `code` capitals, `small` none.
_NAME_PATTERNS: list[tuple[Iterable[str], str]] = [
    (_both((*_MONTHS, *_SHORT_MONTHS, *_DAYS)), rf"{_LEFT}(?P<name>\p{{L}}+){_RIGHT}"),
    # may 5, the 5th of march: not you may 5 times, march 5 miles.
    (
        _both(("may", "march", "mar")),
        rf"(?i){_LEFT}(?P<name>\p{{L}}+)(?:(?=\.?\s{_DAY}(?:(?:st|nd|rd|th)\b|,?\s(?:19|20)[0-9]{{2}}\b|"
        rf"(?:\s?[-–]\s?{_DAY})?(?:\s(?:at|@)\s|{_LAST})))|(?=\.?\s{_DAY}\b)(?<=\b(?:{_DATE_WORDS}|{_ANY_DAY}[.,]{{0,2}})"
        rf"\s\p{{L}}+)|(?<=\b(?:[0-9]{{1,2}}(?:st|nd|rd|th)\s(?:of\s)?|{_ANY_MONTH}\.?\s?[-–]\s?)\p{{L}}+)|"
        rf"(?=\.?\s?[-–]\s?{_ANY_MONTH}\b)|(?<=\b{_DAY}\s\p{{L}}+)(?=,?\s(?:19|20)[0-9]{{2}}\b|{_LAST})){_RIGHT}",
    ),
    # sat, jan 5: not he sat 5 hours in the sun.
    (
        _both(("sat", "sun", "wed")),
        rf"(?i){_LEFT}(?P<name>\p{{L}}+)(?:(?=\.?,?\s(?:{_ANY_MONTH}\b|{_DAY}(?:(?:st|nd|rd|th)\b|\s{_ANY_MONTH}\b)|"
        rf"{_DAY}/[0-9]|(?:at\s|@\s?)?{_TIME}|(?:and|or|to|&)\s{_ANY_DAY}\b|(?:morning|afternoon|evening|night)\b)|"
        rf"\.?\s?[-–/&]\s?{_ANY_DAY}\b)|(?<=\b(?:on|by|until|till|til|this|next|last)\s\p{{L}}+)(?={_LAST})|(?<=\b{_ANY_DAY}\.?(?:\s?[-–/&,]\s?|\s(?:and|or|to)\s)\p{{L}}+)|"
        rf"(?<=\b(?:on|by|until|till|til|this|next|last|every)\s(?:sat|wed))){_RIGHT}",
    ),
    # dr smith: neither the dr who came nor 12 elm dr near us.
    (
        [*_BARE_TITLES, *_DOTTED_TITLES],
        rf"(?<![\p{{L}}\p{{N}}.'’@/_-]|[0-9]\s|[0-9]\s\p{{L}}{{1,12}}\s)"
        rf"(?P<name>(?:{any_of(_BARE_TITLES)})(?=[. ])|"
        rf"(?:{any_of(_DOTTED_TITLES)})(?=\.))\.?[ ](?:and (?P<name>{any_of(_BARE_TITLES)})\.?[ ])?"
        rf"(?!(?:{_NOT_NAMES})\b)(?P<name>\p{{Ll}}[\p{{L}}'’-]*+)(?![.@]\p{{L}})",
    ),
    (["st"], rf"{_LEFT}(?<![0-9] )(?P<name>st)\.?[ ](?P<name>{any_of(_LISTS.list('saints'))})(?!\p{{L}})"),
    (
        map(str.lower, _CODES),
        rf"(?P<code>\p{{L}}+)(?:(?<=[0-9][kmb]?\s?\p{{L}}+)|(?<={_LEFT}\p{{L}}+)(?=\s?[0-9])){_RIGHT}",
    ),
    (map(str.lower, _ZONES), rf"(?<=[0-9]\s?[AaPp]\.?[Mm]\.?\s|:[0-9]{{2}}\s)(?P<code>\p{{L}}+){_RIGHT}"),
    (_NUMERALS, rf"(?<=\b(?P<name>{any_of(_GRAMMAR.list('rulers')).lower()})[ ])(?P<code>\p{{L}}+){_RIGHT}"),
    (["bc", "bce"], rf"(?<=[0-9]\s?|\bcentury\s)(?P<code>\p{{L}}+){_RIGHT}"),
    (
        map(str.lower, _PLAIN_STATES),
        rf"(?<=(?<!\p{{L}})(?P<name>\p{{Ll}}{{3,16}}), )(?P<code>\p{{L}}+)(?=[.;:)!?]|{_LAST}|\s[0-9]{{5}}\b)",
    ),
    (_BEFORE_NUMBERS, rf"{_LEFT}(?P<name>\p{{L}}+)(?=\.\s?(?:[0-9]|[IVXLC]+\b))"),
    (["S", "ERS"], r"(?<=\b(?:1[0-9]|20)[0-9]0)(?P<small>S)\b|(?<=\b[0-9]{2})(?P<small>ERS)\b"),
    (map(str.upper, _COUNTED), rf"{_LEFT}(?P<name>\p{{L}}+)(?=\s[IVXLC]+\b)"),
]
_CUES: dict[str, list[Any]] = {}
for _words, _pattern in _NAME_PATTERNS:
    _compiled = regex.compile(rf"{_pattern}(?P<name>(?!))?(?P<code>(?!))?(?P<small>(?!))?")
    for _word in _words:
        _CUES.setdefault(_word, []).append(_compiled)
_ANY_CUE = AnyWord(_CUES)


RULES = [
    rule(
        "acronym",
        rf"(?<![\p{{L}}\p{{N}}])(?:{any_of(_SAID)})(?![\p{{L}}\p{{N}}])",
        lambda match, _dialect: _SAID[match[0]],
        AnyWord(_SAID),
        as_written=True,
    ),
    rule("capitals", _RUN, _run, _SHOUTED, as_written=True),
    rule("acronym", r"(?<=\b[Tt]he )WHO(?!\p{L})", "W.H.O", "W", as_written=True),
    rule("capitals", r"(?<![\p{L}\p{N}.&])(?P<word>[A-Z]{5,24})(?![\p{L}\p{N}&])", _name, _LONG, as_written=True),
]
