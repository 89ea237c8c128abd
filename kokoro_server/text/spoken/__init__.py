"""Written text as a person would say it: numbers, money, dates, units, abbreviations, Markdown and so on, in words."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Collection, Iterable
from functools import cache
from threading import Lock

from kokoro_server import languages
from kokoro_server.languages import Language
from kokoro_server.text.spoken import markdown, unspeakable
from kokoro_server.text.spoken.apply import apply
from kokoro_server.text.spoken.matching import Claim, Dialect, Rules, Ruleset, find_claims
from kokoro_server.text.spoken.passages import Readings, passages
from kokoro_server.text.traced import Traced

__all__ = [
    "KINDS",
    "Claim",
    "Readings",
    "apply",
    "claims",
    "is_loaded",
    "load",
    "passages",
    "ruleset",
    "speak",
    "unspeakable",
]

# A request can switch these off by name. English has all of them, in this order, other languages have some.
KINDS = (
    "latex", "markdown", "addresses", "phones", "chat", "times", "dates", "money", "units", "maths", "counts",
    "identifiers", "ranges", "roman", "abbreviations", "capitals", "symbols", "numbers",
)  # fmt: skip

_MODULES = {  # with a RULESET each
    **dict.fromkeys(languages.ENGLISH, "english.rules"),
    languages.ES: "spanish",
    languages.FR: "french",
    languages.HI: "hindi",
    languages.IT: "italian",
    languages.JA: "japanese",
    languages.PT_BR: "portuguese",
    languages.ZH: "chinese",
}
_PLAIN = Ruleset({}, [], "", [])  # espeak-ng reads numbers and signs itself
_loading = Lock()
_loaded = set[Language]()  # whose patterns have been compiled


def is_loaded(language: Language) -> bool:
    return language in _loaded or language not in _MODULES


@cache
def ruleset(language: Language) -> Ruleset:
    if language not in _MODULES:  # of a model of one's own
        return _PLAIN
    found: Ruleset = importlib.import_module(f"{__name__}.{_MODULES[language]}").RULESET
    return found


def load(language: Language) -> None:
    """Compile all patterns of a language, which takes up to a second. Otherwise each is when a text first needs it."""
    with _loading:
        if not is_loaded(language):
            found = ruleset(language)
            for rule in itertools.chain(*found.kinds.values(), found.last, found.alone):
                rule.compile()
            _loaded.add(language)


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
    return find_claims(rules, text, dialect, untouchable, ruleset(language).recase if kinds else str)


@cache
def _rules(language: Language, kinds: frozenset[str], code: str, code_spans: str, alone: bool) -> Rules:
    if not kinds:
        return Rules([unspeakable.rule_of(language)])
    found = ruleset(language)
    chosen = [rule for kind, rules in found.kinds.items() if kind in kinds for rule in rules]
    fenced = markdown.fences(code, found.code_block) if "markdown" in kinds else []
    inline = markdown.spans(code_spans, found.code_block) if "markdown" in kinds else []
    first = found.alone if alone and "symbols" in kinds else []
    return Rules([*first, *fenced, *inline, *chosen, *found.last, unspeakable.rule_of(language)])


def speak(text: str, language: Language, *, alone: bool = False) -> str:
    """`text` with the words of its claims in their places."""
    return apply(claims(text, language, alone=alone), Traced.of(text)).text
