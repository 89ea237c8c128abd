"""How far a long text is: a bar on a terminal, a line in the log now and then elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from types import TracebackType

log = logging.getLogger(__name__)

BAR_WIDTH = 30
LOG_EVERY_SHARE = 0.1
LOG_EVERY_S = 60.0


class SpeechProgress:
    """Of a text of `total` characters. Use as a context manager."""

    def __init__(self, total: int) -> None:
        self._total = max(total, 1)
        self._terminal = sys.stderr.isatty()
        self._shown = False
        self._logged_share = 0.0
        self._logged_at = time.monotonic()

    def __enter__(self) -> SpeechProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            sys.stderr.write("\n")
            sys.stderr.flush()

    def show(self, characters: int, seconds: float) -> None:
        """So many characters are spoken, and so many seconds of audio made."""
        share = min(characters / self._total, 1.0)
        if self._terminal:
            self._shown = True
            filled = "#" * int(share * BAR_WIDTH)
            amount = f"{characters:,} of {self._total:,} characters, {clock(seconds)} of audio"
            sys.stderr.write(f"\r[{filled:<{BAR_WIDTH}}] {share:4.0%} {amount}\033[K")
            sys.stderr.flush()
        elif self._due(share):
            log.info("speaking percent=%.0f characters=%d audio=%s", 100 * share, characters, clock(seconds))

    def _due(self, share: float) -> bool:
        grown = share - self._logged_share
        now = time.monotonic()
        if grown >= LOG_EVERY_SHARE or (share == 1.0 and grown > 0) or now - self._logged_at >= LOG_EVERY_S:
            self._logged_share, self._logged_at = share, now
            return True
        return False


def clock(seconds: float) -> str:
    """`4:05`, or `1:02:03` from an hour on."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
