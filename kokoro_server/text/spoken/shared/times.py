"""Times of day: 14:30, 14h30, 3 p. m."""

from __future__ import annotations

from typing import Any

from kokoro_server.text.spoken.matching import Dialect, Rule, SpokenWords
from kokoro_server.text.spoken.patterns import SPACE
from kokoro_server.text.spoken.shared.patterns import WORD_END, D, number_rule
from kokoro_server.text.spoken.shared.table import LanguageTable

_LEFT = rf"(?:(?<![\p{{L}}\p{{M}}\p{{N}}])(?<!{D}[.,:/])|(?<={D}{{2}}T))"
_HALF = rf"(?P<half>(?P<letter>[aApP])\.?{SPACE}?[mM](?![\p{{L}}\p{{M}}])\.?)"


def rules(table: LanguageTable) -> list[Rule]:
    marked = rf"(?:{SPACE}?(?P<mark>{table.words.patterns.hours_mark}){WORD_END})"

    def clock(match: Any, _dialect: Dialect) -> SpokenWords:
        hour, minute = int(match["hour"]), int(match["minute"] or 0)
        if hour > 24 or minute > 59:
            return None
        groups = match.groupdict()
        half = groups.get("half")
        if groups.get("long"):
            hours, minutes = table.words.units["h"], table.words.units["min"]
            parts = ((hours, hour), (minutes, minute))
            return " ".join(f"{table.count(each, noun.many)} {table.noun(noun, str(each))}" for noun, each in parts)
        words = table.clock(hour, minute, bool(groups.get("mark")))
        if half:
            # Hindi has a word for the hour here too.
            words = table.clock(hour, minute, table.words.patterns.hours_mark == "बजे")
            words = table.half_day(hour, groups["letter"] in "pP").format(words)
        end = match.end() - (half is not None and half.endswith(".") and _ends(match))
        return [((match.start(), end), words.strip())]

    def long_clock(match: Any, _dialect: Dialect) -> SpokenWords:
        parts = [table.integer(match[name].lstrip("0०") or "0") for name in ("hour", "minute", "second")]
        return " ".join(parts)

    return [
        number_rule(
            "time",
            rf"{_LEFT}(?P<hour>{D}{{1,2}}):(?P<minute>{D}{{2}}):(?P<second>{D}{{2}})(?![\p{{N}}:])",
            long_clock,
            ":",
        ),
        number_rule(
            "time",
            rf"{_LEFT}(?P<hour>{D}{{1,2}})(?::(?P<minute>{D}{{2}})(?![\p{{N}}:]|[.,]{D}))?{SPACE}?{_HALF}",
            clock,
            "aApP",
            "mM",
        ),
        number_rule(
            "time",
            rf"{_LEFT}(?P<hour>{D}{{1,2}}):(?P<minute>{D}{{2}})(?![\p{{N}}:]|[.,]{D})(?:{marked}|(?![\p{{L}}]))",
            clock,
            ":",
        ),
        number_rule(
            "time",
            rf"{_LEFT}(?P<hour>{D}{{1,2}}){SPACE}?(?P<mark>[hH]){SPACE}?(?P<minute>[0-5०-५]{D})(?P<long>{SPACE}?(?:min|mn)\b\.?)?"
            rf"{WORD_END}",
            clock,
            "hH",
        ),
        number_rule("time", rf"{_LEFT}(?P<hour>{D}{{1,2}})\.(?P<minute>[0-5]{D}){marked}", clock, "hH", "."),
        number_rule(
            "time",
            rf"(?<=(?<!\p{{L}})(?:{table.words.patterns.before_times}){SPACE})(?P<hour>{D}{{1,2}})[.,](?P<minute>[0-5]{D})"
            rf"(?![\p{{N}}]|[.,]{D}){marked}?",
            clock,
            ".,",
        ),
    ]


def _ends(match: Any) -> bool:
    """Whether the dot at the end of the match also ends a sentence."""
    after = match.string[match.end() :].lstrip(" ")
    return not after or after[0] == "\n" or after[0].isupper()
