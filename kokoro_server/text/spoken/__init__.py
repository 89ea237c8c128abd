"""Written text as a person would say it: numbers, money, dates, units, abbreviations, Markdown and so on, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache

from kokoro_server.g2p import languages
from kokoro_server.g2p.languages import Language
from kokoro_server.text.spoken import chinese, english, japanese, markdown
from kokoro_server.text.spoken.apply import apply
from kokoro_server.text.spoken.engine import Claim, Dialect, Rule, Ruleset, find_claims
from kokoro_server.text.spoken.passages import Readings, passages
from kokoro_server.text.traced import Traced

__all__ = ["KINDS", "Claim", "Readings", "apply", "claims", "passages", "speak"]

_RULESETS: dict[Language, Ruleset] = {
    languages.EN_US: english.RULESET,
    languages.EN_GB: english.RULESET,
    languages.JA: japanese.RULESET,
    languages.ZH: chinese.RULESET,
}
KINDS = tuple(english.RULESET.kinds)  # what a request can switch off by name; other languages have some of them


def claims(
    text: str,
    language: Language,
    *,
    kinds: Collection[str] = KINDS,
    code: str = "speak",
    untouchable: Iterable[tuple[int, int]] = (),
) -> list[Claim]:
    """The spans of `text` that are said in other words. `code`: speak, skip or announce."""
    if language not in _RULESETS:
        return []
    rules = _rules(language, frozenset(kinds), code)
    return find_claims(rules, text, Dialect(british=language == languages.EN_GB), untouchable)


@cache
def _rules(language: Language, kinds: frozenset[str], code: str) -> list[Rule]:
    ruleset = _RULESETS[language]
    chosen = [rule for kind, rules in ruleset.kinds.items() if kind in kinds for rule in rules]
    fences = markdown.fences(code, ruleset.code_block) if "markdown" in kinds else []
    return [*fences, *chosen, *ruleset.last]


def speak(text: str, language: Language) -> str:
    """`text` with the words of its claims in their places."""
    return apply(claims(text, language), Traced.of(text)).text
