"""Cases of written text and how it is said, and whether words are one of the readings of a case.

A file has one case a line: `kind` (or `category`), `text`, `say` and, unless it is American, `language`. `say` lists
the accepted readings; `{a|b}` in one of them stands for either. Spaces, marks and capitals do not count.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

HERE = Path(__file__).parent
# What single rules are for; whole sentences as they stand in articles, mail, recipes, code and chat; capitals, small
# letters and chat; abbreviations by kind; thirteen genres; what people write every day.
FILES = tuple(
    HERE / f"{name}.json" for name in ("cases", "sentences", "letter_case", "abbreviations", "genres", "everyday")
)
_CHOICE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Case:
    kind: str
    text: str
    say: tuple[str, ...]
    language: str = "en-US"

    def accepts(self, said: str) -> bool:
        return self._pattern.fullmatch(bare(said)) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(_either(reading) for reading in self.say))


def load(*paths: Path) -> list[Case]:
    return [
        Case(case.get("kind") or case["category"], case["text"], tuple(case["say"]), case.get("language", "en-US"))
        for path in paths
        for case in json.loads(path.read_text(encoding="utf-8"))
    ]


def bare(text: str) -> str:
    """Only the letters. A lone A is written `eh`."""
    return re.sub(r"[\W_]", "", re.sub(r"\beh\b", "a", text.lower()))


def _either(reading: str) -> str:
    parts = _CHOICE.split(reading)
    return "".join(
        f"(?:{'|'.join(map(bare, part.split('|')))})" if index % 2 else bare(part) for index, part in enumerate(parts)
    )
