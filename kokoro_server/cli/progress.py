"""The progress of a long text, a book or a bulk run: a bar on a terminal, elsewhere a line in the log now and then."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, Self

from tqdm import tqdm

from kokoro_server.assets.progress import new_bar
from kokoro_server.config.settings import Settings
from kokoro_server.longform.books.speaking import BookProgress, Phase
from kokoro_server.longform.bulk.run import BulkProgress
from kokoro_server.observability import logs
from kokoro_server.observability.logs import LogCadence

log = logging.getLogger(__name__)

LOG_EVERY_SHARE = 0.1
LOG_EVERY_S = 60.0
DRAW_EVERY_S = 0.2
TEXT_BAR = "[{bar:30}] {percentage:3.0f}% {n:,} of {total:,} characters{postfix}"
BULK_BAR = "[{bar:20}] {percentage:3.0f}% {n:,} of {total:,} lines{postfix}"
BOOK_BAR = "{desc:9} [{bar:24}] {percentage:3.0f}%{postfix}"


def quiet_beside_bar(settings: Settings) -> Settings:
    """On a terminal, log warnings alone: the bar shows the rest."""
    if not sys.stderr.isatty() or settings.log_level != "info":
        return settings
    logs.configure("warning")
    return settings.model_copy(update={"log_level": "warning"})


class ProgressBar:
    """Use as a context manager. The bar appears with the first `show`: downloads of the model have their own bars."""

    def __init__(self) -> None:
        self._bar: tqdm | None = None
        self._cadence = LogCadence(LOG_EVERY_SHARE, LOG_EVERY_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._restart()

    def _restart(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None
        self._cadence = LogCadence(LOG_EVERY_SHARE, LOG_EVERY_S)

    def _made(self, total: int, bar_format: str, **options: Any) -> tqdm:
        if self._bar is None:
            self._bar = new_bar(total, bar_format, **options)
        return self._bar


class SpeechProgress(ProgressBar):
    """Of a text of `total` characters."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._total = max(total, 1)

    def show(self, characters: int, seconds: float) -> None:
        """`characters` are spoken, as `seconds` of audio."""
        bar = self._made(self._total, TEXT_BAR)
        bar.n = characters
        bar.set_postfix_str(f"{clock(seconds)} of audio")  # draws
        share = min(characters / self._total, 1.0)
        if bar.disable and self._cadence.is_due(share):
            log.info("speaking percent=%.0f characters=%d audio=%s", 100 * share, characters, clock(seconds))


class BulkProgressBar(ProgressBar):
    def __init__(self) -> None:
        super().__init__()
        self._drawn = 0.0

    def show(self, progress: BulkProgress) -> None:
        bar = self._made(progress.lines, BULK_BAR)
        left = progress.seconds_left
        shown = "" if left is None else f" left={clock(left)}"
        figures = f"failed={progress.failed} audio={clock(progress.seconds)} speed={progress.speed:.1f}x{shown}"
        if bar.disable:
            if self._cadence.is_due(progress.done / max(progress.lines, 1)):
                log.info("bulk lines=%d of=%d %s", progress.done, progress.lines, figures)
        elif progress.done == progress.lines or time.monotonic() - self._drawn > DRAW_EVERY_S:
            self._drawn = time.monotonic()
            bar.n = progress.done
            bar.set_postfix_str(figures)  # draws


class BookProgressBar(ProgressBar):
    """One bar for each phase: joining a book is counted in another unit than speaking it."""

    def __init__(self) -> None:
        super().__init__()
        self._phase: Phase | None = None

    def show(self, progress: BookProgress) -> None:
        if progress.phase != self._phase:
            self._restart()
            self._phase = progress.phase
        share = progress.done / max(progress.total, 1)
        bar = self._made(1000, BOOK_BAR, desc=progress.phase)
        figures = ""
        if progress.phase == "speaking":
            left = "" if progress.left is None else f", left={clock(progress.left)}"
            figures = f" audio={clock(progress.seconds)}{left}"
        bar.n = round(1000 * share)
        bar.set_postfix_str(figures)  # draws
        if bar.disable and self._cadence.is_due(share):
            log.info("%s percent=%.0f%s", progress.phase, 100 * share, figures.replace(", ", " "))


def clock(seconds: float) -> str:
    """`4:05`, or `1:02:03` from an hour on."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
