"""Emoji and emoticons, in any language: silent."""

from __future__ import annotations

import re
from typing import Any

from kokoro_server.text.spoken.matching import Rule, rule

_PICTURES = r"\p{Extended_Pictographic}\p{Emoji_Modifier}\p{Regional_Indicator}"
_NAMED = "©®™‼⁉ℹ↔←→↑↓"  # these are said
_JOINERS = r"[\ufe0e\ufe0f\u200d\u20e3\U000e0020-\U000e007f]"
_FACES = (
    r"(?<![\p{L}\p{N}])(?:[:;][-o^']?[)(\]\[DPpOo|/\\]|=[)(D]|[xX]D|<3|\([:;](?![\p{L}\p{N})])|\^_\^|-_-|o_O|O_o|"
    r"T_T|>_<|\\o/|¯\\_\(ツ\)_/¯)(?![\p{L}\p{N}])"
)
_FACE = re.compile(r"[:;][-o^']?[)(\]\[DPpOo|/\\]|=[)(D]|[xX]D|<3|\([:;]|_|\\o/")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")

EMOTICON = rule("emoticon", _FACES, "", _FACE)


def emoji(named: str = "", need: Any = _NOT_ASCII) -> Rule:
    """`named` are signs that the language has words for."""
    picture = rf"[[{_PICTURES}]--[{_NAMED}{named}]]"
    return rule("emoji", rf"(?V1){picture}(?:{picture}|{_JOINERS})*+", "", need)
