"""Web and e-mail addresses, file names, handles and hashtags."""

from __future__ import annotations

import re
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.matching import Dialect, Rule, SpokenWords, rule
from kokoro_server.text.spoken.patterns import INNER_DOT, any_of
from kokoro_server.text.spoken.shared.patterns import number_rule
from kokoro_server.text.spoken.shared.table import LanguageTable

_FILE = vocabulary.load("romance_and_hindi")
_TLDS = _FILE.list("top_level_domains")
_EXTENSIONS = _FILE.list("file_extensions")
_PART = regex.compile(r"[0-9]+|[\p{L}\p{M}]+|[^\w\s]|_")
_HUMPS = regex.compile(r"\p{Lu}+(?!\p{Ll})|\p{Lu}?[\p{Ll}\p{M}]+|[0-9]+|[\p{L}\p{M}]+")
_VOWEL = regex.compile(r"[aeiouyáéíóúàèìòùâêôãõäëïöü]|[^\x00-\u024f]", regex.IGNORECASE)
_LABEL = r"[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,62}[\p{L}\p{M}\p{N}])?"
_TAIL = r"(?:[/?#][^\s<>\"“”«»`|]*[^\s<>\"“”«»`|.,;:!?'’)\]}*_।])?/?"
_SCHEME = re.compile(r"://|www\.", re.IGNORECASE)
_HOST_LIKE = re.compile(r"\.[^\W\d_]{2}")


def rules(table: LanguageTable) -> list[Rule]:
    def word(text: str) -> str:
        return text.lower() if _VOWEL.search(text) and len(text) > 1 else table.spell(text)

    def spell_out(text: str) -> str:
        said = list[str]()
        for part in _PART.findall(text):
            if part[0].isdecimal():
                said.append(table.integer(part) if len(part) < 5 else table.digits(part))
            elif part in table.words.address_marks:
                said.append(table.words.address_marks[part])
            elif part[0].isalpha():
                said += [word(hump) for hump in _HUMPS.findall(part)]
        return " ".join(said)

    def address(match: Any, _dialect: Dialect) -> SpokenWords:
        return [("scheme", ""), ("address", spell_out(match["address"]))]

    def bare(match: Any, _dialect: Dialect) -> SpokenWords:
        return spell_out(match[0])

    def tagged(match: Any, _dialect: Dialect) -> SpokenWords:
        sign = table.words.address_marks["@"] if match["sign"] == "@" else table.words.phrases.hashtag
        name = " ".join(table.integer(part) if part[0].isdecimal() else part for part in _HUMPS.findall(match["name"]))
        return [("sign", sign), ("name", name)]

    host = rf"{_LABEL}(?:\.{_LABEL})*"
    return [
        rule(
            "web address",
            rf"(?<![\p{{L}}\p{{N}}])(?P<scheme>(?:https?|ftp)://(?:www\.)?|www\.)(?P<address>(?:localhost|{host})"
            rf"(?::[0-9]+)?{_TAIL})",
            address,
            _SCHEME,
            flags=regex.IGNORECASE,
        ),
        rule(
            "e-mail address",
            rf"(?<![\p{{L}}\p{{N}}.@])(?P<scheme>mailto:)?(?P<address>[\p{{L}}\p{{N}}][\p{{L}}\p{{N}}._%+-]*+@"
            rf"{_LABEL}(?:\.{_LABEL})+)",
            address,
            "@",
        ),
        number_rule(
            "IP address",
            r"(?<![\p{L}\p{N}.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?::[0-9]{1,5})?(?![\p{L}\p{N}])(?!\.[0-9])",
            bare,
            INNER_DOT,
        ),
        rule(
            "web address",
            rf"(?<![\p{{L}}\p{{M}}\p{{N}}@.#/_-])(?:[\p{{L}}\p{{N}}][\p{{L}}\p{{M}}\p{{N}}-]{{1,62}}\.)+(?:{any_of(_TLDS)})"
            rf"(?![\p{{L}}\p{{M}}\p{{N}}-])(?!\.[\p{{L}}\p{{N}}]){_TAIL}",
            bare,
            _HOST_LIKE,
        ),
        rule(
            "file name",
            rf"(?<![\p{{L}}\p{{N}}/\\._-])[\p{{L}}\p{{N}}_-]+(?:\.[\p{{L}}\p{{N}}_-]+)*\.(?:{any_of(_EXTENSIONS)})"
            rf"(?![\p{{L}}\p{{M}}\p{{N}}])(?!\.[\p{{L}}\p{{N}}])",
            bare,
            _HOST_LIKE,
        ),
        rule(
            "hashtag", r"(?<![\p{L}\p{N}&/])(?P<sign>[#＃])(?P<name>(?=[0-9_]*\p{L})[\p{L}\p{M}\p{N}_]+)", tagged, "#＃"
        ),
        rule("handle", r"(?<![\p{L}\p{N}.])(?P<sign>@)(?P<name>\p{L}[\p{L}\p{M}\p{N}_]*)", tagged, "@"),
    ]
