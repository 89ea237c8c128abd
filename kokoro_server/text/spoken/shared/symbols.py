"""Signs, and last of all the digits and signs that no other rule has read: espeak must not get them."""

from __future__ import annotations

import re
from typing import Any

from kokoro_server.text.spoken.emoji import EMOTICON, emoji
from kokoro_server.text.spoken.matching import Dialect, Rule, SpokenWords, rule
from kokoro_server.text.spoken.patterns import DASHES, SPACE, known_digits, numeral
from kokoro_server.text.spoken.shared.patterns import DIGITS, D
from kokoro_server.text.spoken.shared.table import LanguageTable


def rules(table: LanguageTable) -> list[Rule]:
    signs = table.words.signs
    return [
        EMOTICON,
        emoji("✔✓✗✘"),
        rule("number sign", rf"(?<![\p{{L}}\p{{N}}&])\#(?={SPACE}?{D})", signs["№"], "#"),
        rule("section sign", rf"§§?(?={SPACE}?)", signs["§"], "§"),
        rule("about", rf"(?<![\p{{L}}\p{{N}}/])[~∼≈](?={SPACE}?[$£€]?{D})", signs["≈"], "~∼≈"),
        rule(
            "Greek letter",
            r"(?<!\p{Greek})\p{Greek}(?!\p{Greek})",
            lambda match, _dialect: table.words.greek.get(match[0].lower()),
            re.compile(r"[Α-ω]"),
        ),
        rule("price", rf"(?<={D})/-(?!{D})", "", "/"),  # as prices end in India
        rule("hyphen", rf"(?<=[0-9०-९%°])[-‐‑](?=\p{{L}})|(?<=[\p{{L}}\p{{M}}])[-‐‑](?={D})", " ", "-‐‑", DIGITS),
        rule("slash", r"(?<=[\p{L}\p{M}])/(?=[\p{L}])", " ", "/"),
        rule("bars", r"\|(?:\s*+\|)*+", ",", "|"),
        rule("ornament", r"([*_=~#^<>+\\/|-])\1{2,}+", " ", "*_=~#^<>+\\/|-"),
        rule("bracket", r"[{}⟨⟩]", " ", "{}⟨⟩"),
    ]


def last(table: LanguageTable) -> list[Rule]:
    """White space, letters, quotes, brackets and marks of a pause are all that may pass."""

    def left_over(match: Any, _dialect: Dialect) -> SpokenWords:
        """A sign by its name; an ornament is silent."""
        sign = match[0]
        if sign in table.words.signs:
            return table.words.signs[sign]
        if sign in table.words.currencies:
            return table.words.currencies[sign].unit.many
        if sign.isnumeric():
            return table.integer(found) if (found := numeral(sign)) else " "
        return " "

    return [
        rule("dash", rf"(?<={D})[{DASHES}~](?={D})", " ", DASHES + "~"),
        rule(
            "digits",
            r"\p{Nd}++",
            lambda match, _dialect: table.integer(known) if (known := known_digits(match[0])) else None,
            re.compile(r"\d"),
        ),
        rule("sign", r"(?V1)[[\p{S}\p{N}\p{Pc}\p{Co}\p{Cn}]&@#%/\\*_§¶†‡•·‣′″‰{}|~№`※⁂]", left_over),
    ]
