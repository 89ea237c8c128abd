"""Written text as a person would say it: numbers, money, dates, units, abbreviations, Markdown and so on, in words."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable
from functools import cache

from kokoro_server import languages
from kokoro_server.languages import Language
from kokoro_server.text.spoken import english, markdown, unspeakable
from kokoro_server.text.spoken.apply import apply
from kokoro_server.text.spoken.matching import Claim, Dialect, Rules, Ruleset, find_claims
from kokoro_server.text.spoken.passages import Readings, passages
from kokoro_server.text.traced import Traced

__all__ = ["KINDS", "Claim", "Readings", "apply", "claims", "is_loaded", "load", "passages", "speak", "unspeakable"]

KINDS = tuple(english.RULESET.kinds)  # a request can switch these off by name; other languages have some of them

# Modules with a RULESET each. English is loaded at once, the other languages when they are first used: to compile all
# of them takes a good second.
_MODULES = {
    languages.ES: "spanish",
    languages.FR: "french",
    languages.HI: "hindi",
    languages.IT: "italian",
    languages.JA: "japanese",
    languages.PT_BR: "portuguese",
    languages.ZH: "chinese",
}
_PLAIN = Ruleset({}, [], "", [])  # espeak-ng reads numbers and signs itself
_loaded: dict[Language, Ruleset] = dict.fromkeys(languages.ENGLISH, english.RULESET)


def is_loaded(language: Language) -> bool:
    return language in _loaded or language not in _MODULES


def load(language: Language) -> Ruleset:
    """The rules of a language; for one that is not loaded it takes up to half a second."""
    if language not in _loaded and language not in _MODULES:  # of a model of one's own
        return _PLAIN
    if language not in _loaded:
        _loaded[language] = importlib.import_module(f"{__name__}.{_MODULES[language]}").RULESET
    return _loaded[language]


def claims(
    text: str,
    language: Language,
    *,
    kinds: Collection[str] = KINDS,
    code: str = "speak",
    code_spans: str = "speak",
    alone: bool = False,
    untouchable: Iterable[tuple[int, int]] = (),
) -> list[Claim]:
    """The spans of `text` that are said in other words, and those that cannot be said.

    `code`, in blocks, and `code_spans` are spoken, skipped or announced. `alone`: a sign that is all of the text is
    named. Without any `kinds`, text is left unchanged.
    """
    rules = _rules(language, frozenset(kinds), code, code_spans, alone)
    dialect = Dialect(british=language == languages.EN_GB)
    return find_claims(rules, text, dialect, untouchable, load(language).recase if kinds else str)


@cache
def _rules(language: Language, kinds: frozenset[str], code: str, code_spans: str, alone: bool) -> Rules:
    if not kinds:
        return Rules([unspeakable.rule_of(language)])
    ruleset = load(language)
    chosen = [rule for kind, rules in ruleset.kinds.items() if kind in kinds for rule in rules]
    fenced = markdown.fences(code, ruleset.code_block) if "markdown" in kinds else []
    inline = markdown.spans(code_spans, ruleset.code_block) if "markdown" in kinds else []
    first = ruleset.alone if alone and "symbols" in kinds else []
    return Rules([*first, *fenced, *inline, *chosen, *ruleset.last, unspeakable.rule_of(language)])


def speak(text: str, language: Language, *, alone: bool = False) -> str:
    """`text` with the words of its claims in their places."""
    return apply(claims(text, language, alone=alone), Traced.of(text)).text
