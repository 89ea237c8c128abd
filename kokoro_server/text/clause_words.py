"""Where a clause begins without a mark before it: before words such as "because", in languages that have a table."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kokoro_server.languages import Language
from kokoro_server.runtime.json import JsonObject


@dataclass(frozen=True, slots=True)
class ClauseWords:
    """`openers` begin a clause: one word or several. After a word that is `held_by` they do not."""

    openers: frozenset[tuple[str, ...]]
    held_by: frozenset[str]

    def starts(self, words: Sequence[str]) -> Iterator[int]:
        """The indices of the words that begin a clause within these."""
        lower = [word.lower() for word in words]
        for index in range(1, len(lower)):
            found = any(tuple(lower[index : index + size]) in self.openers for size in (1, 2))
            if found and lower[index - 1] not in self.held_by:
                yield index


def clause_words(language: Language | None) -> ClauseWords | None:
    """The table of a language; None if it has none."""
    return _tables().get(language.code.split("-")[0]) if language else None


@cache
def _tables() -> dict[str, ClauseWords]:
    path = Path(__file__).with_name("data") / "clause_words.toml"
    tables: JsonObject = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        code: ClauseWords(frozenset(tuple(each.split()) for each in table["openers"]), frozenset(table["held_by"]))
        for code, table in tables.items()
    }
