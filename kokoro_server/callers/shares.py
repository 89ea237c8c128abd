"""A limit that all callers share."""

from __future__ import annotations

from collections import Counter


class SharedLimit:
    """One caller alone may take everything, and another still gets its share: the limit divided by their number.

    So n callers have at most 1 + 1/2 + … + 1/n times the limit, as in `batching.admission`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: Counter[str] = Counter()
        self.total = 0

    def taken_by(self, caller: str) -> int:
        return self._taken[caller]

    def is_full_for(self, caller: str, *, elsewhere: int = 0, processes: int = 1) -> bool:
        """`elsewhere`: what is taken in other `processes`, which divide a caller's share among themselves."""
        if self.total + elsewhere < self._limit:
            return False
        own = self._taken[caller]  # a Counter does not keep what it is only asked for
        return own >= self._limit // processes // (len(self._taken) + (not own))

    def take(self, caller: str, amount: int = 1) -> None:
        """`give_back` must follow."""
        self.total += amount
        self._taken[caller] += amount

    def give_back(self, caller: str, amount: int = 1) -> None:
        self.total -= amount
        self._taken[caller] -= amount
        if not self._taken[caller]:
            del self._taken[caller]
