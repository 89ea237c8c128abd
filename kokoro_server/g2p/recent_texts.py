"""The phonemes of short texts that were asked for lately."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kokoro_server.g2p.result import G2PResult
from kokoro_server.languages import Language

LONGEST_KEPT = 80  # characters: a label, a word, a short sentence
MOST_KEPT = 1_000  # texts: some megabytes at most
KEPT_SECONDS = 600.0  # the service may be replaced by one that reads a text in another way


class RecentTexts:
    """A screen reader and a voice agent say the same few words again and again: these need no call to the service."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: dict[tuple[str, Language], tuple[float, G2PResult]] = {}  # in order of use, with the time of birth

    def get(self, texts: Sequence[str], language: Language) -> list[G2PResult] | None:
        """The results of all these texts, or None if one is not known."""
        results = list[G2PResult]()
        oldest = self._now() - KEPT_SECONDS
        for text in texts:
            born, result = self._kept.pop((text, language), (oldest, None))
            if result is None or born <= oldest:
                return None
            self._kept[text, language] = born, result
            results.append(result)
        return results

    def add(self, texts: Sequence[str], language: Language, results: Sequence[G2PResult]) -> None:
        for text, result in zip(texts, results, strict=True):
            if len(text) <= LONGEST_KEPT:
                self._kept.pop((text, language), None)
                self._kept[text, language] = self._now(), result
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
