"""The phonemes of a text, and the words they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Token(NamedTuple):
    """A word or a mark of the text; `phonemes` is empty where it has no sound of its own. A mark may have no text.

    `read_as` is `name` for a word of the table of names, and the code of a language for a name read by its letters.
    """

    text: str
    whitespace: str
    phonemes: str
    read_as: str = ""


@dataclass(frozen=True, slots=True)
class G2PResult:
    """The phonemes of a text, all of them in the model's vocabulary.

    The phonemes of the tokens, each followed by its whitespace, make up `phonemes`. They are None where the words of a
    text cannot be recognized in its phonemes.
    """

    phonemes: str
    tokens: tuple[Token, ...] | None = None
    dropped: str = ""  # characters of the text that the model has no symbol for, each once
