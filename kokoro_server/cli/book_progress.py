"""The progress of a book: a bar on a terminal, a line in the log now and then elsewhere."""

from __future__ import annotations

import logging
import shutil

from tqdm import tqdm

from kokoro_server.cli.progress import LOG_EVERY_S, LOG_EVERY_SHARE, clock
from kokoro_server.longform.books.speaking import BookProgress, Phase
from kokoro_server.observability.logs import LogCadence

log = logging.getLogger(__name__)

BAR = "{desc:9} [{bar:24}] {percentage:3.0f}%{postfix}"


class BookProgressBar:
    """Use as a context manager."""

    def __init__(self) -> None:
        self._phase: Phase | None = None
        self._bar: tqdm | None = None
        self._cadence = LogCadence(LOG_EVERY_SHARE, LOG_EVERY_S)

    def __enter__(self) -> BookProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, progress: BookProgress) -> None:
        share = progress.done / max(progress.total, 1)
        bar = self._of(progress.phase)
        bar.n = round(1000 * share)
        bar.set_postfix_str(_figures(progress))  # draws
        if bar.disable and self._cadence.is_due(share):
            log.info("%s percent=%.0f%s", progress.phase, 100 * share, _figures(progress).replace(", ", " "))

    def _of(self, phase: Phase) -> tqdm:
        """The bar of a phase. What is put together is one of its own: it is counted otherwise than what is spoken."""
        if self._bar is None or phase != self._phase:
            self.__exit__()
            # tqdm would draw nothing on a terminal that reports no size. This function takes it as 80 × 24.
            columns, rows = shutil.get_terminal_size()
            size = {"ncols": columns - 1, "nrows": rows}
            self._bar = tqdm(total=1000, desc=phase, bar_format=BAR, ascii=" #", disable=None, **size)
            self._cadence = LogCadence(LOG_EVERY_SHARE, LOG_EVERY_S)
            self._phase = phase
        return self._bar


def _figures(progress: BookProgress) -> str:
    if progress.phase != "speaking":
        return ""
    left = "" if progress.left is None else f", left={clock(progress.left)}"
    return f" audio={clock(progress.seconds)}{left}"
