"""The progress of a download: a bar on a terminal, a line in the log now and then elsewhere.

The clients that download (pip, npm, huggingface_hub) do not report progress, so the folder they write to is measured.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_server.assets.files import tree_bytes
from kokoro_server.observability.logs import LogCadence

if TYPE_CHECKING:
    from tqdm import tqdm

log = logging.getLogger(__name__)

POLL_S = 0.25
LOG_EVERY_S = 10.0
LOG_EVERY_SHARE = 0.1
BAR = "{desc} [{bar:30}] {percentage:3.0f}% {n:,.0f} MB of {total:,.0f} MB"


def new_bar(total: int, bar_format: str, **options: Any) -> tqdm:
    """A bar on stderr. If that is no terminal, tqdm draws nothing."""
    from tqdm import tqdm  # late: few starts download anything, and the import takes 50 ms

    # tqdm would draw nothing on a terminal that reports no size. This function takes it as 80 × 24.
    columns, rows = shutil.get_terminal_size()
    size = {"ncols": columns - 1, "nrows": rows, "disable": None}
    return tqdm(total=total, bar_format=bar_format, ascii=" #", **size, **options)


class DownloadProgress:
    """One download of `total` bytes. Use as a context manager; `watching` measures, `advance` adds finished bytes."""

    def __init__(self, label: str, total: int) -> None:
        self._label = label
        self._total = max(total, 1)
        self._finished = 0
        # The delay lets a download that fails at once leave no bar behind.
        self._bar = new_bar(self._total, BAR, desc=label, unit_scale=1e-6, miniters=1, delay=POLL_S)
        self._cadence = LogCadence(LOG_EVERY_SHARE, LOG_EVERY_S, -1.0)

    def __enter__(self) -> DownloadProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def advance(self, size: int) -> None:
        self._finished += size
        self._show(self._finished)

    @contextmanager
    def watching(self, directory: Path, size: int) -> Iterator[None]:
        """Count the growth of `directory` while the block runs, at most `size`; all of it when the block succeeds."""
        stop = threading.Event()
        thread = threading.Thread(target=self._poll, args=(directory, size, stop), name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        self.advance(size)

    def _poll(self, directory: Path, size: int, stop: threading.Event) -> None:
        while not stop.wait(POLL_S):
            self._show(self._finished + min(tree_bytes(directory), size))

    def _show(self, done: int) -> None:
        self._bar.update(done - self._bar.n)
        share = min(done / self._total, 1.0)
        if self._bar.disable and self._cadence.is_due(share):
            log.info("fetching what=%s percent=%.0f of_mb=%.0f", self._label, 100 * share, self._total / 1e6)
