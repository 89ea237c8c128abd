"""The progress of a long text: a bar on a terminal, a line in the log now and then elsewhere."""

from __future__ import annotations

import logging
import shutil

from tqdm import tqdm

from kokoro_server.logs import LogCadence

log = logging.getLogger(__name__)

LOG_EVERY_SHARE = 0.1
LOG_EVERY_S = 60.0
BAR = "[{bar:30}] {percentage:3.0f}% {n:,} of {total:,} characters{postfix}"


class SpeechProgress:
    """How much of a text of `total` characters is spoken. Use as a context manager."""

    def __init__(self, total: int) -> None:
        self._total = max(total, 1)
        self._bar: tqdm | None = None
        self._cadence = LogCadence(LOG_EVERY_SHARE, LOG_EVERY_S)

    def __enter__(self) -> SpeechProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, characters: int, seconds: float) -> None:
        """So many characters are spoken, and so many seconds of audio made."""
        if self._bar is None:  # not earlier: the model's downloads draw bars of their own
            # tqdm would draw nothing on a terminal that reports no size. This function takes it as 80 × 24.
            columns, rows = shutil.get_terminal_size()
            size = {"ncols": columns - 1, "nrows": rows}
            self._bar = tqdm(total=self._total, bar_format=BAR, ascii=" #", disable=None, **size)  # no terminal, no bar
        self._bar.n = characters
        self._bar.set_postfix_str(f"{clock(seconds)} of audio")  # draws
        share = min(characters / self._total, 1.0)
        if self._bar.disable and self._cadence.is_due(share):
            log.info("speaking percent=%.0f characters=%d audio=%s", 100 * share, characters, clock(seconds))


def clock(seconds: float) -> str:
    """`4:05`, or `1:02:03` from an hour on."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
