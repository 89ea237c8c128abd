"""Options of a request for reading its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kokoro_server.text import spoken

CodeReading = Literal["speak", "skip", "announce"]
OnUnspeakable = Literal["refuse", "skip"]


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """`lexicon`: readings by word, which go before those of the lexicon file."""

    kinds: frozenset[str] = frozenset(spoken.KINDS)  # of what is put in words; without any, G2P gets the bare text
    code_blocks: CodeReading = "speak"
    code_spans: CodeReading = "speak"
    lexicon: Mapping[str, str] | None = None
    unspeakable: OnUnspeakable | None = None  # for letters that cannot be said; None: the server's setting
    name_signs: bool = False  # a sign that is all of the text is said by its name


DEFAULT_OPTIONS = ReadingOptions()
