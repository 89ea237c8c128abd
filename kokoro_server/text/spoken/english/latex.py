"""Simple LaTeX: $x^2$, \\frac{1}{2}, \\sum_{i=1}^n."""

from __future__ import annotations

from typing import Any

import regex

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.english.maths import GREEK, power
from kokoro_server.text.spoken.english.quantities.fractions import fraction
from kokoro_server.text.spoken.english.words import decimal, letters
from kokoro_server.text.spoken.matching import Dialect, SpokenWords, rule
from kokoro_server.text.spoken.patterns import DIGITS

_TOKEN = regex.compile(r"\\[A-Za-z]+\*?|\\.|[0-9]+(?:\.[0-9]+)?|[A-Za-z]|\S", regex.DOTALL)
_LOOKS_LIKE_MATHS = regex.compile(
    r".*[\\^_{}=].*|(?=.*[A-Za-z])(?:(?<![A-Za-z])[A-Za-z](?![A-Za-z])|[0-9+\-*/=<>()|., !'])+", regex.DOTALL
)
_FILE = vocabulary.load("english_signs")
_COMMANDS = _FILE.words("latex_commands")
_COMMANDS |= {name: name for name in GREEK.values()} | {name.capitalize(): f"capital {name}" for name in GREEK.values()}
_COMMANDS |= {f"var{name}": name for name in ("epsilon", "phi", "theta", "rho", "sigma")}
_SIGNS = _FILE.words("latex_signs")
_WITH_LIMITS = ("sum", "prod", "int", "lim")
_ACCENTS = _FILE.words("latex_accents")
_TEXT = frozenset(_FILE.list("latex_text"))
_FUNCTIONS = frozenset("fghFGHPO")
_MAX_DEPTH = 20


class _Reader:
    def __init__(self, text: str, dialect: Dialect) -> None:
        self._tokens = _TOKEN.findall(text)
        self._position = 0
        self._dialect = dialect
        self._depth = 0

    def read(self, *ends: str) -> str:
        """The words up to one of `ends`, which is taken too."""
        said = list[str]()
        while (symbol := self._next()) and symbol not in ends:
            said.append(self._say(symbol))
        return " ".join(filter(None, said))

    def _next(self) -> str:
        self._position += 1
        return self._tokens[self._position - 1] if self._position <= len(self._tokens) else ""

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _group(self) -> str:
        """The words of the next group in braces, or of the next symbol."""
        symbol = self._next()
        if not symbol or self._depth > _MAX_DEPTH:
            return ""
        self._depth += 1
        words = self.read("}") if symbol == "{" else self._say(symbol)
        self._depth -= 1
        return words

    def _source(self) -> str:
        """The next group as it is written."""
        if self._peek() != "{":
            return self._next()
        end = next((i for i in range(self._position, len(self._tokens)) if self._tokens[i] == "}"), len(self._tokens))
        source = "".join(self._tokens[self._position + 1 : end])
        self._position = end + 1
        return source

    def _say(self, symbol: str) -> str:
        if symbol[0] == "\\" and len(symbol) > 1:
            return self._command(symbol.rstrip("*"))
        if symbol[0].isdecimal():
            return decimal(symbol, self._dialect)
        if symbol in ("^", "_"):
            return self._script(symbol)
        if symbol.isalpha():
            return GREEK.get(symbol) or letters(symbol, self._dialect)
        if symbol == "(" and self._is_function():
            return "of"
        return _SIGNS.get(symbol, "")

    def _is_function(self) -> bool:
        """Whether the bracket just read is that of f(x), f'(x) or P(A)."""
        before = self._tokens[max(0, self._position - 3) : self._position - 1]
        return bool(before) and (before[-1] in _FUNCTIONS or (before[-1] == "'" and before[0] in _FUNCTIONS))

    def _command(self, symbol: str) -> str:
        if symbol.endswith("frac"):
            return self._fraction()
        if symbol == "\\sqrt":
            root = "square"
            if self._peek() == "[":
                self._next()
                root = {"three": "cube"}.get(degree := self.read("]"), degree)
            return f"the {root} root of {self._group()}"
        if symbol[1:] in _WITH_LIMITS:
            return self._with_limits(symbol)
        if symbol[1:] in _ACCENTS:
            return f"{self._group()} {_ACCENTS[symbol[1:]]}"
        if symbol[1:] in _TEXT:
            return " ".join(regex.findall(r"[\p{L}']+", self._source()))
        if symbol in ("\\begin", "\\end", "\\left", "\\right"):
            if symbol in ("\\begin", "\\end"):
                self._source()
            return ""
        return _COMMANDS.get(symbol[1:], "," if symbol == "\\\\" else "percent" if symbol == "\\%" else "")

    def _fraction(self) -> str:
        start = self._position
        top, bottom = self._source(), self._source()
        if regex.fullmatch(r"[0-9]{1,3}/[0-9]{1,3}", f"{top}/{bottom}") and 0 < int(top) < int(bottom) <= 100:
            return fraction(int(top), int(bottom), self._dialect)
        self._position = start
        return f"{self._group()} over {self._group()}"

    def _script(self, symbol: str) -> str:
        start = self._position
        source = self._source()
        if symbol == "^" and regex.fullmatch(r"[-−]?[0-9]{1,4}|[A-Za-z]", source):
            return "transpose" if source == "T" else power(source, self._dialect)
        self._position = start
        words = self._group()
        if symbol == "_":
            return words if regex.fullmatch(r"[0-9]|[a-z]", source) else f"sub {words}"
        return words if words in ("degrees", "prime", "transpose", "star") else f"to the {words}"

    def _with_limits(self, symbol: str) -> str:
        words = _COMMANDS[symbol[1:]]
        if self._peek() == "_":
            self._next()
            words += f"{' as' if symbol == chr(92) + 'lim' else ' from'} {self._group()}"
        if self._peek() == "^":
            self._next()
            words += f" to {self._group()}"
        return f"{words} of"


def _formula(match: Any, dialect: Dialect) -> SpokenWords:
    source = next(group for group in match.groups() if group is not None)
    if match["inline"] and not _LOOKS_LIKE_MATHS.fullmatch(source):
        return None
    return _Reader(source, dialect).read() or None


RULES = [
    rule(
        "LaTeX",
        r"\$\$([^$]{1,2000})\$\$|\\\[((?:[^\\]|\\[^\]]){1,2000})\\\]|\\\(((?:[^\\\n]|\\[^)\n]){1,500})\\\)|"
        r"(?<![\p{L}\p{N}$\\])\$(?P<inline>(?=[^\s$])[^$\n]{1,300}(?<=\S))\$(?:(?![\p{L}\p{N}$])|(?<=\\circ\$)(?=[CFK]\b))",
        _formula,
        "$\\",
    ),
    rule(
        "LaTeX",
        r"\\(?:d?frac|sqrt|sum|int|prod|times|cdot|leq?|geq?|neq?|approx|pm|infty|to|alpha|beta|gamma|delta|theta|"
        r"lambda|mu|pi|sigma|omega|text|mathbf|mathrm)(?![A-Za-z])(?:[_^]?\{[^{}\n]{0,100}\}|[_^][0-9A-Za-z])*",
        lambda match, dialect: _Reader(match[0], dialect).read() or None,
        "\\",
    ),
    # Here, as later 4y is a time: 3x + 4y = 12.
    rule(
        "variable",
        r"(?<![\p{L}\p{N}.,])(?P<number>[0-9]{1,4})(?P<name>[xyz])(?:(?=[²³]? ?[=+−] )|"
        r"(?<=[=+−-] [0-9]+[xyz])(?=[²³.,;)]|\s|\Z))",
        lambda match, dialect: f"{decimal(match['number'], dialect)} {letters(match['name'], dialect)}",
        "=+",
        "xyz",
        DIGITS,
    ),
]
