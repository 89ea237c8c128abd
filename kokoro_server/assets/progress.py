"""How far a download is: a bar on a terminal, a line in the log now and then elsewhere.

The clients that fetch (pip, npm, huggingface_hub) do not tell, so the folder they write to is measured.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from kokoro_server.assets.files import megabytes

log = logging.getLogger(__name__)

POLL_S = 0.25
LOG_EVERY_S = 10.0
LOG_EVERY_SHARE = 0.1
BAR_WIDTH = 30


class Progress:
    """One download of `total` bytes. Use as a context manager; `watching` measures, `advance` counts what was there."""

    def __init__(self, label: str, total: int) -> None:
        self._label = label
        self._total = max(total, 1)
        self._finished = 0
        self._terminal = sys.stderr.isatty()
        self._shown = False
        self._logged_share = -1.0
        self._logged_at = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal and self._shown:
            sys.stderr.write("\n")
            sys.stderr.flush()

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
            self._show(self._finished + min(_tree_bytes(directory), size))

    def _show(self, done: int) -> None:
        self._shown = True
        share = min(done / self._total, 1.0)
        if self._terminal:
            filled = "#" * int(share * BAR_WIDTH)
            amount = f"{megabytes(done)} of {megabytes(self._total)}"
            sys.stderr.write(f"\r{self._label} [{filled:<{BAR_WIDTH}}] {share:4.0%} {amount}\033[K")
            sys.stderr.flush()
        elif self._due(share):
            log.info("fetching what=%s percent=%.0f of_mb=%.0f", self._label, 100 * share, self._total / 1e6)

    def _due(self, share: float) -> bool:
        grown = share - self._logged_share
        waited = time.monotonic() - self._logged_at
        if grown >= LOG_EVERY_SHARE or (share == 1.0 and grown > 0) or waited >= LOG_EVERY_S:
            self._logged_share, self._logged_at = share, time.monotonic()
            return True
        return False


def _tree_bytes(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += Path(folder, name).stat().st_size
            except OSError:  # files come and go while the client works
                continue
    return total
