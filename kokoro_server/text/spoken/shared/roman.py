"""Roman numerals: after names, after words such as chapter and century, and before what they count."""

from __future__ import annotations

import re
from typing import Any

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.matching import Dialect, Rule, SpokenWords, rule, rules_at
from kokoro_server.text.spoken.patterns import SPACE, any_of, follows, roman_value
from kokoro_server.text.spoken.shared.patterns import WORD_END, noun_after
from kokoro_server.text.spoken.shared.table import LanguageTable

roman_rule = rules_at(re.compile(r"(?<![^\W_])[IVXLCDM]+"))
_NUMERAL = r"(?P<numeral>[IVXLCDM]+)"
_AFTER = rf"{WORD_END}(?!\.\p{{L}})(?!['’]\p{{L}})"
_JOINTS = r"(?:[-–]|[ ](?:y|e|et|a|al|o|ou|à|au|और|से)[ ])"
_FILE = vocabulary.load("romance_and_hindi")
_NOT_NUMERALS = frozenset(_FILE.list("not_numerals"))
_SHOUTED = re.compile(
    r"(?<![^\W_])(?![IVXLCDM]+\s)[A-ZÁÉÍÓÚÀÈÌÒÙÂÊÔÃÕÇÑ]{2,}\s\Z"
)  # the word before is in capitals too
_NUMBERED = any_of(_FILE.list("numbered_events"))
_NOT_NAMES = any_of(_FILE.list("not_rulers"))


def rules(table: LanguageTable) -> list[Rule]:
    patterns = table.words.patterns

    def value(match: Any) -> int:
        text = match["numeral"]
        shouted = len(text) < 3 and follows(match, _SHOUTED)
        return 0 if text in _NOT_NUMERALS or shouted else roman_value(text.upper()) or 0

    def century(match: Any, _dialect: Dialect) -> SpokenWords:
        number = value(match)
        return [("numeral", table.century(number))] if 0 < number < 40 else None

    def before_century(match: Any, _dialect: Dialect) -> SpokenWords:
        number = value(match)
        return table.ordinal(number, "º", "") if 0 < number < 40 else None

    def cardinal(match: Any, _dialect: Dialect) -> SpokenWords:
        number = value(match)
        return [("numeral", table.count(number))] if number else None

    def with_ending(match: Any, _dialect: Dialect) -> SpokenWords:
        number = value(match)
        if not number or (number > 1 and "r" in match["ending"]):  # `Vers`
            return None
        return table.ordinal(number, match["ending"], noun_after(table, match))

    def ruler(match: Any, _dialect: Dialect) -> SpokenWords:
        number = value(match)
        return [("numeral", table.ruler(number, match["name"]))] if 0 < number < 100 else None

    def nth(match: Any, _dialect: Dialect) -> SpokenWords:
        number, noun = value(match), noun_after(table, match, capital=True)
        said = table.nth(number, noun) if number and noun else None
        return [("numeral", said)] if said else None

    return [
        roman_rule(
            "Roman numeral",
            rf"(?<=(?<!\p{{L}})(?:{patterns.centuries}){SPACE}(?:[IVXLCDM]+{_JOINTS})?){_NUMERAL}{_AFTER}",
            century,
        ),
        rule(
            "range",
            rf"(?P<dash>[-–])(?<=(?<!\p{{L}})(?:{patterns.counted}|{patterns.centuries}){SPACE}[IVXLCDM]+[-–])(?=[IVXLCDM]+{WORD_END})",
            lambda _match, _dialect: [("dash", table.words.phrases.to)],
            "-–",
        ),
        roman_rule("Roman numeral", rf"{_NUMERAL}(?={SPACE}(?:{patterns.centuries}))", before_century),
        roman_rule(
            "Roman numeral", rf"(?P<numeral>[IVX][IVXLC]*)(?P<ending>{patterns.numeral_endings}){WORD_END}", with_ending
        ),
        roman_rule(
            "Roman numeral",
            rf"(?<=(?<!\p{{L}})(?:{patterns.counted}|{_NOT_NAMES}){SPACE}(?:[IVXLCDM]+{_JOINTS})?){_NUMERAL}{_AFTER}",
            cardinal,
        ),
        roman_rule(
            "Roman numeral",
            rf"(?<=(?<![\p{{L}}\p{{M}}])(?P<name>(?:\p{{Lu}}|\p{{Devanagari}})[\p{{L}}\p{{M}}'’-]+){SPACE})"
            rf"(?P<numeral>[IVX]+){_AFTER}",
            ruler,
        ),
        roman_rule(
            "Roman numeral",
            rf"(?P<numeral>[IVX]{{2,}}|[VX](?={SPACE}\p{{Lu}})|I(?={SPACE}(?:{_NUMBERED}))){_AFTER}(?={SPACE}\p{{L}}{{4}})",
            nth,
        ),
        roman_rule(
            "Roman numeral",
            rf"(?P<numeral>II|III|IV|VI|VII|VIII|IX|XI|XII|XIII|XIV|XV|XVI{{1,3}}|XVI|XIX|XX|XXI{{1,3}}|XXI|XXIV|"
            rf"M[CDLXVIM]{{3,14}}){_AFTER}",
            cardinal,
        ),
    ]
