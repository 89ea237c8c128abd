"""Markdown and HTML, in any language: marks are silent, the text between them is read.

These rules see the whole text, line breaks and all.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from typing import Any

import regex

from kokoro_server.text.spoken.matching import Dialect, ReadMatch, Rule, SpokenWords, Where, rule
from kokoro_server.text.spoken.patterns import DIGITS, any_of

_LINES = regex.MULTILINE
_INLINE_TAGS = (
    "a abbr b big bdi break cite code del dfn em emphasis font i ins kbd mark phoneme prosody q s samp say-as small "
    "span strike strong sub sup tt u var voice"
)
_BLOCK_TAGS = (
    "article aside blockquote body br button caption center dd details div dl dt figcaption figure footer form h1 "
    "h2 h3 h4 h5 h6 head header hr html iframe img input label li link main meta nav ol option p pre script "
    "section select source speak style summary table tbody td tfoot th thead title tr ul video"
)
# The target of a link has a mark that words do not have.
_TARGET = r"(?:<[^<>\n]*+>|(?=[^\s()]{0,300}[./#:?@])[^\s()]++)"
_TITLE = r"(?:[ \t]++(?:\"[^\"\n]*+\"|'[^'\n]*+'|\([^()\n]*+\)))?+"
_BOOLEAN = r"(?:async|autoplay|checked|controls|defer|disabled|hidden|loop|muted|open|readonly|required|selected)\b"
_ENTITIES = {'"': "", "'": "'", "\xa0": " "}
_DEFINITION = regex.compile(r"^[ ]{0,3}\[(?P<label>[^\[\]\n]{1,100})\]:[ \t]", regex.MULTILINE)
_FENCE = (
    r"^[ ]{0,3}(?P<open>(?P<fence>`{3,}+|~{3,}+)[^\n`]*+(?:\n|\Z))(?P<code>(?:(?!^[ ]{0,3}(?P=fence))[^\n]*+"
    r"(?:\n|\Z))*?)"
)
_CLOSED = r"(?P<close>^[ ]{0,3}(?P=fence)[`~]*+[ \t]*+$)"


def _marks(_match: Any, _dialect: Dialect) -> SpokenWords:
    return [("open", ""), ("close", "")]


def _row(match: Any, _dialect: Dialect) -> SpokenWords:
    """The bars of a row: a pause after each cell that has text, a longer one after the last."""
    claims, cell_start = list[tuple[Where, str]](), match.start()
    bars = [match.start() + index for index, character in enumerate(match[0]) if character == "|"]
    for bar in bars:
        cell = match.string[cell_start:bar].strip()
        pause = "" if not cell or cell[-1] in ".,;:!?…" else "." if bar == bars[-1] else ","
        claims.append(((bar, bar + 1), pause))
        cell_start = bar + 1
    return claims


def _entities(number: Callable[[str, Dialect], str], words: Mapping[str, str]) -> ReadMatch:
    words = {**words, **_ENTITIES}

    def read(match: Any, dialect: Dialect) -> SpokenWords:
        text = html.unescape(match[0])
        if text == match[0]:
            return None
        if text.isdecimal():
            return number(text, dialect)
        return words.get(text, text if regex.fullmatch(r"[\p{L}'’]+", text) else " ")

    return read


def _reference(match: Any, dialect: Dialect) -> SpokenWords:
    """A link whose target stands elsewhere. Without such a target, these are words in brackets, or citations."""
    if match["text"].isdecimal() and match["label"].isdecimal():
        return None
    label = (match["label"] or match["text"]).lower()
    defined = (found["label"].lower() for found in _DEFINITION.finditer(match.string))
    return _marks(match, dialect) if label in defined else None


def fences(code: str, announcement: str) -> list[Rule]:
    """Fenced blocks of code: `speak` them, `skip` them, or `announce` that there is one."""
    if code == "speak":
        return [rule("code fence", _FENCE + _CLOSED, _marks, "`~", flags=_LINES)]
    words = "" if code == "skip" else announcement
    return [rule("code block", _FENCE + _CLOSED, words, "`~", flags=_LINES)]


def spans(code: str, announcement: str) -> list[Rule]:
    """Code within a line: `skip` it, or `announce` that there is some. To speak it takes no rule."""
    if code == "speak":
        return []
    words = " " if code == "skip" else announcement.rstrip(".")
    return [rule("code span", r"(?<!`)(?P<marks>`{1,2}+)[^`\n]{1,300}(?P=marks)(?!`)", words, "`")]


def rules(number: Callable[[str, Dialect], str], signs: Mapping[str, str]) -> list[Rule]:
    """`number` says the number of a list's item; `signs` are words for signs that are written as HTML entities."""
    entity = _entities(number, signs)
    return [
        rule("code fence", r"^[ ]{0,3}(?:`{3,}|~{3,})[ \t]*+[\w+#.{}-]*+[ \t]*+$", "", "`~", flags=_LINES),
        rule("HTML comment", r"<!--.{0,2000}?-->", "", "<", flags=regex.DOTALL),
        rule(
            "HTML tag",
            rf"(?<!`)</?(?:(?:{any_of(_INLINE_TAGS.split())})|(?P<block>{any_of(_BLOCK_TAGS.split())}))\b"
            rf"(?:\s(?:(?=[^<>]{{0,300}}=)|{_BOOLEAN})[^<>]{{0,500}})?\s?/?>",
            lambda match, _dialect: " " if match["block"] else "",
            "<",
            flags=regex.IGNORECASE,
        ),
        rule(
            "HTML entity",
            r"[\p{L}']*+(?:&(?:[A-Za-z](?:acute|grave|uml|circ|tilde|cedil|ring|slash)|[a-z]{2}lig|rsquo|lsquo|apos|"
            r"\#0?39|\#8217|\#x27);[\p{L}']*+)++",
            entity,
            "&",
        ),
        rule("HTML entity", r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6});", entity, "&"),
        rule(
            "thematic break",
            r"^[ \t]{0,3}(?:(?:-[ \t]*+){3,}+|(?:\*[ \t]*+){3,}+|(?:_[ \t]*+){3,}+|={3,}+[ \t]*+)$",
            "",
            "-*_=",
            flags=_LINES,
        ),
        rule(
            "table rule",
            r"^[ \t]*+\|?+(?:[ \t]*+:?+-++:?+[ \t]*+\|)++(?:[ \t]*+:?+-++:?+[ \t]*+)?+$",
            "",
            "|",
            flags=_LINES,
        ),
        rule("table", r"^[ \t]*+\|[^\n]*+$(?<=\|[ \t]*+)", _row, "|", flags=_LINES),
        rule("heading", r"^[ ]{0,3}\#{1,6}+[ \t]++(?=\S)", "", "#", flags=_LINES),
        rule("heading", r"(?<=\S)[ \t]+\#{1,6}+[ \t]*+$", "", "#", flags=_LINES),
        rule("quote", r"^[ ]{0,3}(?:>[ \t]?+)++(?=[^\s0-9=])", "", ">", flags=_LINES),
        rule(
            "list",
            r"^(?:[ \t]*+(?:>[ \t]?+)?+)(?P<m>[-*+•‣◦▪●○·–][ \t]++(?:\[[ xX]?\][ \t]++)?+)(?=\S)",
            lambda _match, _dialect: [("m", "")],
            "-*+•‣◦▪●○·–",
            flags=_LINES,
        ),
        rule(
            "numbered list",
            r"^[ \t]*+(?P<n>(?P<number>[0-9]{1,3})[.)])(?=[ \t]++\S)",
            lambda match, dialect: [("n", f"{number(match['number'], dialect)},")],
            DIGITS,
            flags=_LINES,
        ),
        rule(
            "link",
            r"(?P<open>\[)(?!\^)(?P<text>[^\[\]\n]{1,300})(?P<close>\]\[(?P<label>[^\[\]\n]{0,100})\])",
            _reference,
            "[",
            _DEFINITION,
        ),
        rule("citation", r"(?<=[.,;:!?\"”’)])(?:\[[1-9][0-9]{0,2}(?:[,–-][ ]?[0-9]{1,3})*+\])++(?!\()", "", "["),
        rule(
            "image",
            r"(?P<open>!\[)[^\[\]\n]{0,300}(?P<close>\]\([^()\s]*+(?:\([^()\s]*+\)[^()\s]*+)*+"
            r"(?:[ \t]++[\"'][^\"'\n]*+[\"'])?+\))",
            _marks,
            "!",
        ),
        rule(
            "link",
            r"(?P<open>\[)(?!\^)[^\[\]\n]{1,300}(?P<close>\]\((?=\)|[^\s()\[\]]{0,300}[./#:?@])[^()\s]*+(?:\([^()\s]*+\)[^()\s]*+)*+"
            r"(?:[ \t]++[\"'][^\"'\n]*+[\"'])?+\))",
            _marks,
            "[",
        ),
        rule(
            "link definition",
            rf"^[ ]{{0,3}}\[[^\[\]\n]{{1,100}}\]:[ \t]++{_TARGET}{_TITLE}[ \t]*+$",
            "",
            "[",
            flags=_LINES,
        ),
        rule("footnote", r"\[\^[^\[\]\s]{1,40}\]:?+", "", "["),
        rule("autolink", r"(?P<open><)(?:(?:https?://|mailto:)[^\s<>]+|[^\s<>]+@[^\s<>]+)(?P<close>>)", _marks, "<"),
        rule("placeholder", r"(?P<open></?)[A-Za-z][\w.:-]*+(?:[ ][\w ]{1,40})?(?P<close>[ ]?/?>)", _marks, "<"),
        rule("code span", r"`++", "", "`"),
        rule(
            "emphasis",
            r"(?<![\p{L}\p{N}*\\])\*{1,3}+(?=[^\s*)])|(?<=[^\s*\\(])\*{1,3}+(?![\p{L}\p{N}*])|(?<=\p{L})\*{2,3}+"
            r"(?=\p{L})|(?<=[0-9])\*{2,3}+(?=\p{L})",
            "",
            "*",
        ),
        rule("emphasis", r"(?<![\p{L}\p{N}_\\^])_{1,3}+(?=[^\s_^])|(?<=[^\s_\\^])_{1,3}+(?![\p{L}\p{N}_^])", "", "_"),
        rule("strikethrough", r"(?<!~)~~(?!~)", "", "~"),
        rule("escape", r"\\(?=[!-/:-@\[-`{-~])(?![\\()\[\]])", "", "\\"),
    ]
