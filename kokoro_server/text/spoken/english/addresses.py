"""Web and e-mail addresses, IP addresses, paths, file names, handles, hashtags and hashes."""

from __future__ import annotations

import re
from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.patterns import number_rule
from kokoro_server.text.spoken.english.words import digits, in_pairs, letters, word_or_letters
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import DIGITS, INNER_DOT, any_of

_FILE = vocabulary.load("english")
_MARKS = _FILE.words("address_marks")
# Endings that are said as a word. Other endings are spelled if they have fewer than four letters.
_WORDS = frozenset(_FILE.list("address_words"))
_SAID = _FILE.words("address_parts")
_TLDS = _FILE.list("top_level_domains")
_EXTENSIONS = _FILE.list("file_extensions")
_PART = regex.compile(r"[0-9]+|[^\W\d_]+|[^\w\s]|_")
_HUMPS = regex.compile(r"\p{Lu}+(?!\p{Ll})|\p{Lu}?\p{Ll}+|[0-9]+|\p{L}")
_HOST_LABEL = r"[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,62}[\p{L}\p{N}])?"
_TAIL = r"(?:[/?#][^\s<>\"“”`|。，、！？]*[^\s<>\"“”`|。，、！？.,;:!?'’)\]}*_])?/?"
_SCHEME = re.compile(r"://|www\.", re.IGNORECASE)
_HOST_LIKE = re.compile(r"\.[^\W_]|localhost[:/]")
_HASH_LIKE = re.compile(r"[0-9a-fA-F]{2}(?:[0-9a-fA-F]{5}|[:-][0-9a-fA-F]{2}[:-])")
_INITIALS = regex.compile(r"(?:\p{L}\.)+\p{L}{1,2}|[0-9.]+\p{L}*")  # U.S, 2.5m
_IP = r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}"


def spell_out(text: str, dialect: Dialect) -> str:
    """Every part of an address: words and numbers, and the names of the marks between them."""
    said = list[str]()
    for part in _PART.findall(text):
        lower = part.lower()
        if part[0].isdecimal():
            said.append(in_pairs(part, dialect) if len(part) < 5 else digits(part))
        elif part in _MARKS:
            said.append(_MARKS[part])
        elif lower in _SAID:
            said.append(_SAID[lower])
        elif lower in _WORDS:
            said.append(lower)
        elif part.isalpha():
            said += [word_or_letters(hump, dialect) for hump in _HUMPS.findall(part)]
    return " ".join(said)


def _url(match: Any, dialect: Dialect) -> SpokenWords:
    return [("scheme", ""), ("address", spell_out(match["address"], dialect))]


def _spelled(match: Any, dialect: Dialect) -> SpokenWords:
    return spell_out(match[0], dialect)


def _dotted(match: Any, dialect: Dialect) -> SpokenWords:
    return None if _INITIALS.fullmatch(match[0]) else spell_out(match[0], dialect)


def _name(text: str, dialect: Dialect) -> str:
    """The words that a handle or a hashtag is made of: MachineLearning, jane_doe, COVID19."""
    parts = _HUMPS.findall(text)
    return " ".join(in_pairs(part, dialect) if part[0].isdecimal() else _hump(part, dialect) for part in parts)


def _hump(part: str, dialect: Dialect) -> str:
    return letters(part, dialect) if len(part) == 1 and part not in "aI" else part


def _color(match: Any, dialect: Dialect) -> SpokenWords:
    parts = regex.findall(r"[A-Za-z]+|[0-9]+", match["hex"])
    said = (digits(part) if part[0].isdecimal() else letters(part, dialect) for part in parts)
    return f"hash {' '.join(said)}"


def _mac_or_hash(match: Any, dialect: Dialect) -> SpokenWords:
    return " ".join(digits(each) if each.isdecimal() else letters(each, dialect) for each in match[0] if each.isalnum())


RULES = [
    rule(
        "web address",
        rf"(?<![\p{{L}}\p{{N}}])(?P<scheme>(?:https?|ftp|wss?|ssh|git|file|s3)://(?:www\.)?|www\.)(?P<address>"
        rf"(?:[^\s/@<>]+@)?(?:localhost|\[[0-9A-Fa-f:]+\]|{_HOST_LABEL}(?:\.{_HOST_LABEL})*)?(?::[0-9]+)?{_TAIL})",
        _url,
        _SCHEME,
        flags=regex.IGNORECASE,
    ),
    rule(
        "e-mail address",
        rf"(?<![\p{{L}}\p{{N}}.@])(?P<scheme>mailto:)?(?P<address>[\p{{L}}\p{{N}}][\p{{L}}\p{{N}}._%+-]*+@"
        rf"{_HOST_LABEL}(?:\.{_HOST_LABEL})+)",
        _url,
        "@",
    ),
    number_rule(
        "IP address",
        rf"(?<![\p{{L}}\p{{N}}.]){_IP}(?:/[0-9]{{1,2}})?(?::[0-9]{{1,5}})?(?![\p{{L}}\p{{N}}])(?!\.[0-9])",
        _spelled,
        INNER_DOT,
    ),
    rule(
        "web address",
        rf"(?<![\p{{L}}\p{{N}}@.#/_-])(?:localhost(?=[:/])|(?:{_HOST_LABEL}\.)+(?:{any_of(_TLDS)})"
        rf"(?![\p{{L}}\p{{N}}-])(?!\.[\p{{L}}\p{{N}}]))(?<![.][A-Z][a-z]+)(?::[0-9]+)?{_TAIL}",
        _dotted,
        _HOST_LIKE,
    ),
    rule(
        "Windows path",
        r"(?<![\p{L}\p{N}.])(?:[A-Za-z]:|\.{1,2})\\[^\s<>\"“”`|*?]*[^\s<>\"“”`|*?.,;:!'’)\]}]",
        _spelled,
        "\\",
    ),
    rule(
        "path",
        r"(?<![\p{L}\p{N}.:/~<-])(?:~|\.{1,2})?/(?:[\p{L}\p{N}_.@+-]+/)*\.?[\p{L}\p{N}_@+-]"
        r"(?:[\p{L}\p{N}_.@+-]*[\p{L}\p{N}_@+-])?/?(?:\?[\p{L}\p{N}_]+=[\p{L}\p{N}_.&=%+-]*[\p{L}\p{N}])?(?![\p{L}\p{N}])",
        _spelled,
        "/",
    ),
    rule(
        "path",
        r"(?<![\p{L}\p{N}.:/])(?<![0-9] )(?!(?i:[adfnt]/[bk]/a)\b)(?:[\p{L}_][\p{L}\p{N}_.-]*/){2,}"
        r"[\p{L}\p{N}_-]+(?:\.[\p{L}\p{N}]+)*/?(?![\p{L}\p{N}/])",
        _spelled,
        "/",
    ),
    rule(
        "file name",
        rf"(?<![\p{{L}}\p{{N}}/\\._-])(?:[\p{{L}}\p{{N}}_-]+/)*[\p{{L}}\p{{N}}_-]*(?:\.[\p{{L}}\p{{N}}_-]+)*\."
        rf"(?:{any_of(_EXTENSIONS)})(?![\p{{L}}\p{{N}}])(?!\.[\p{{L}}\p{{N}}])",
        _dotted,
        INNER_DOT,
    ),
    # np.array, os.path.join: no sentence ends there, as the next would begin with a capital.
    rule(
        "name in code",
        r"(?<![\p{L}\p{N}.@/\\'’-])(?:\p{L}[\p{L}\p{N}_]+\.)(?:[\p{Ll}_][\p{L}\p{N}_]+\.){0,6}[\p{Ll}_]"
        r"[\p{L}\p{N}_]{2,}(?![\p{L}\p{N}@/-])(?!\.\p{L})",
        _spelled,
        INNER_DOT,
    ),
    rule(
        "color",
        r"(?<![\p{L}\p{N}&])\#(?P<hex>[0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})(?![\p{L}\p{N}])(?<=[A-Fa-f][0-9A-Fa-f]*|"
        r"color:?\s\S+)",
        _color,
        "#",
    ),
    rule(
        "hashtag",
        r"(?<![\p{L}\p{N}&/])(?P<sign>[#＃])(?!\p{Lu}{1,5}-[0-9])(?P<name>(?=[0-9_]*\p{L})[\p{L}\p{N}_]+)",
        lambda match, dialect: [("sign", "hashtag"), ("name", _name(match["name"], dialect))],
        "#＃",
    ),
    rule(
        "handle",
        r"(?<![\p{L}\p{N}.])(?P<sign>@)(?P<name>\p{L}[\p{L}\p{N}_]*)",
        lambda match, dialect: [("sign", "at"), ("name", _name(match["name"], dialect))],
        "@",
    ),
    rule(
        "hash",
        r"(?<![\p{L}\p{N}])(?=[0-9a-fA-F:-]{0,64}[0-9])(?=[0-9a-fA-F:-]{0,64}[a-fA-F])(?:"
        r"(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|"
        r"(?=[a-f]*[0-9][0-9a-f]*[a-f])(?=[0-9]*[a-f][0-9a-f]*[0-9])[0-9a-f]{7,64})(?![\p{L}\p{N}])",
        _mac_or_hash,
        DIGITS,
        _HASH_LIKE,
    ),
]
