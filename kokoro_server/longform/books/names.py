"""File names from titles."""

from __future__ import annotations

import re

MAX_CHARACTERS = 80
MAX_BYTES = 180  # most systems take 255, with numbers and suffixes
# Characters that some system refuses in a name, that change the order in which it is shown, or that are invisible.
NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*\ud800-\udfff\u200b-\u200f\u202a-\u202e\u2066-\u2069]+')


def file_stem(title: str) -> str:
    """A name that is valid on every system, without a suffix. May be empty."""
    short = NOT_IN_NAMES.sub(" ", title)[:MAX_CHARACTERS]
    return short.encode()[:MAX_BYTES].decode(errors="ignore").strip(" .")
