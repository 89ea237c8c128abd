"""A sign that is all of a text, by its name: screen readers send single characters."""

from __future__ import annotations

import re

from kokoro_server.text.spoken import vocabulary
from kokoro_server.text.spoken.matching import Rule, rule
from kokoro_server.text.spoken.patterns import any_of

_ONE_CHARACTER = re.compile(r"\A\s*+\S\s*+\Z")


def lone_signs(file: str) -> list[Rule]:
    """The rule for the signs of a language, which are in the `file` of its words."""
    names = vocabulary.load(file).words("lone_signs")
    return [
        rule(
            "sign",
            rf"\A\s*+(?P<sign>{any_of(names)})\s*+\Z",
            lambda match, _dialect: [("sign", names[match["sign"]])],
            _ONE_CHARACTER,
        )
    ]
