"""Names of files that are made of titles."""

from __future__ import annotations

import re

MAX_CHARACTERS = 80
MAX_BYTES = 180  # of the 255 that most systems take: numbers and suffixes come to it
# What some system does not take in a name, and what shows in another order than it is written, or not at all.
NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*\ud800-\udfff\u200b-\u200f\u202a-\u202e\u2066-\u2069]+')


def file_stem(title: str) -> str:
    """A name for all systems, without a suffix. It may be empty."""
    short = NOT_IN_NAMES.sub(" ", title)[:MAX_CHARACTERS]
    return short.encode()[:MAX_BYTES].decode(errors="ignore").strip(" .")
