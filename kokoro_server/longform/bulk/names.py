"""File names for ids: safe on every system, different for every line, and the id itself where that is possible."""

from __future__ import annotations

import hashlib
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np

MAX_BYTES = 120  # of a name without its suffix; most systems take 255, in all
DIGEST = 12  # hexadecimal digits
RESERVED = frozenset(["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))])


def number_of(text: str) -> int:
    """A hash of 64 bits."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def plain(id: str) -> str:
    """The id with all but letters, digits, - and _ replaced. No dots: a WebDataset's keys end at the first."""
    kept = (c if c.isalnum() or c in "-_" else "_" for c in unicodedata.normalize("NFC", id))
    return "".join(kept).encode()[:MAX_BYTES].decode(errors="ignore")


def folded(id: str) -> str:
    """Equal for names that some file system takes as one."""
    return unicodedata.normalize("NFC", plain(id).casefold())


class Names:
    """The names of all lines. Call `name` in the order of the input.

    A name that is not the id itself, or that several lines would have, gets a digest of the id; a second line of the
    same id also gets a number. So a name depends on all of the input, and takes eight bytes of memory.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        numbers = np.frombuffer(array("Q", (number_of(folded(id)) for id in ids)), np.uint64)
        found, counts = np.unique(numbers, return_counts=True)
        self._shared = frozenset(found[counts > 1].tolist())
        self._seen = Counter[str]()

    def name(self, id: str) -> str:
        name = plain(id)
        shared = number_of(folded(id)) in self._shared
        if name == id and not shared and name.casefold() not in RESERVED:
            return name
        digest = hashlib.sha256(id.encode()).hexdigest()[:DIGEST]
        if not shared:
            return f"{name}~{digest}"
        self._seen[digest] += 1
        return f"{name}~{digest}" + (f"~{self._seen[digest]}" if self._seen[digest] > 1 else "")
