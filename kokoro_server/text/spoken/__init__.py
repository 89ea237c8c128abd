"""Written text as a person would say it: numbers, money, dates, units, abbreviations, Markdown and so on, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache

from kokoro_server.g2p import languages
from kokoro_server.g2p.languages import Language
from kokoro_server.text.spoken import english
from kokoro_server.text.spoken.apply import apply
from kokoro_server.text.spoken.engine import Claim, Dialect, Rule, find_claims
from kokoro_server.text.spoken.english import markdown
from kokoro_server.text.spoken.passages import Readings, passages
from kokoro_server.text.traced import Traced

__all__ = ["KINDS", "Claim", "Readings", "apply", "claims", "passages", "speak"]

KINDS = tuple(english.KINDS)


def claims(
    text: str,
    language: Language,
    *,
    kinds: Collection[str] = KINDS,
    code: str = "speak",
    untouchable: Iterable[tuple[int, int]] = (),
) -> list[Claim]:
    """The spans of `text` that are said in other words. `code`: speak, skip or announce."""
    if language not in languages.ENGLISH:
        return []
    return find_claims(_rules(frozenset(kinds), code), text, Dialect(british=language == languages.EN_GB), untouchable)


@cache
def _rules(kinds: frozenset[str], code: str) -> list[Rule]:
    chosen = [rule for kind, rules in english.KINDS.items() if kind in kinds for rule in rules]
    return [*markdown.fences(code), *chosen, *english.LAST] if "markdown" in kinds else chosen + english.LAST


def speak(text: str, language: Language) -> str:
    """`text` with the words of its claims in their places."""
    return apply(claims(text, language), Traced.of(text)).text
