"""The progress of a long text: a bar on a terminal, a line in the log now and then elsewhere."""

from __future__ import annotations

import logging
import shutil
import time

from tqdm import tqdm

from kokoro_server.longform.bulk.run import BulkProgress
from kokoro_server.observability.logs import LogCadence

log = logging.getLogger(__name__)

LOG_EVERY_SHARE = 0.1
LOG_EVERY_S = 60.0
BAR = "[{bar:30}] {percentage:3.0f}% {n:,} of {total:,} characters{postfix}"
BULK_BAR = "[{bar:20}] {percentage:3.0f}% {n:,} of {total:,} lines{postfix}"
DRAW_EVERY_S = 0.2


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


class BulkProgressBar:
    """How much of a bulk run is done. Use as a context manager."""

    def __init__(self) -> None:
        self._bar: tqdm | None = None
        self._cadence = LogCadence(LOG_EVERY_SHARE, LOG_EVERY_S)
        self._drawn = 0.0

    def __enter__(self) -> BulkProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, progress: BulkProgress) -> None:
        if self._bar is None:
            columns, rows = shutil.get_terminal_size()
            size = {"ncols": columns - 1, "nrows": rows}
            self._bar = tqdm(total=progress.lines, bar_format=BULK_BAR, ascii=" #", disable=None, **size)
        last = progress.done == progress.lines
        if self._bar.disable:
            if self._cadence.is_due(progress.done / max(progress.lines, 1)):
                log.info("bulk lines=%d of=%d %s", progress.done, progress.lines, _figures(progress))
        elif last or time.monotonic() - self._drawn > DRAW_EVERY_S:
            self._drawn = time.monotonic()
            self._bar.n = progress.done
            self._bar.set_postfix_str(_figures(progress))  # draws


def _figures(progress: BulkProgress) -> str:
    left = progress.seconds_left
    shown = "" if left is None else f" left={clock(left)}"
    return f"failed={progress.failed} audio={clock(progress.seconds)} speed={progress.speed:.1f}x{shown}"


def clock(seconds: float) -> str:
    """`4:05`, or `1:02:03` from an hour on."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
