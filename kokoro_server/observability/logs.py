"""Logging for all processes: one line per event on stderr, with the id of the request that caused it."""

from __future__ import annotations

import logging
import sys
import time
from contextvars import ContextVar

from kokoro_server.errors import G2PUnavailable
from kokoro_server.observability import tracing

FORMAT = "%(asctime)s %(levelname)-7s %(request)s%(trace)s %(name)s %(message)s"
# Libraries that log every request or every download at INFO.
NOISY_LOGGERS = ("httpx", "httpcore", "huggingface_hub", "filelock", "urllib3", "uvicorn.error")

OUTAGE_INTERVAL = 60.0  # seconds between two lines about requests that fail because the G2P service is out

request_id: ContextVar[str] = ContextVar("request_id", default="-")


class RequestIdFilter(logging.Filter):
    """Adds the id of the request to a record, and the id of its trace."""

    def filter(self, record: logging.LogRecord) -> bool:
        span = tracing.current()
        record.request = request_id.get()
        record.trace = f" trace_id={span.trace_id}" if span is not None else ""
        return True


class OutageFilter(logging.Filter):
    """Lets one line a minute through about the requests that an outage fails: the outage has lines of its own.

    These lines are marked by `outage`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last = -OUTAGE_INTERVAL
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if not getattr(record, "outage", False):
            return True
        if (now := time.monotonic()) - self._last < OUTAGE_INTERVAL:
            self._left_out += 1
            return False
        record.msg = f"{record.msg} left_out={self._left_out}" if self._left_out else record.msg
        self._last, self._left_out = now, 0
        return True


def outage(error: BaseException) -> dict[str, bool]:
    """The `extra` of a line about a request that failed."""
    return {"outage": isinstance(error, G2PUnavailable)}


class LoggedBefore(Exception):
    """Raised to make uvicorn break off a connection, for an error that has its line in the log."""


def is_news(record: logging.LogRecord) -> bool:
    """A filter for uvicorn's log, which has a traceback for whatever ends a connection."""
    return not (record.exc_info and isinstance(record.exc_info[1], LoggedBefore))


class OneLineFormatter(logging.Formatter):
    """Escapes control characters in messages, so that no request can forge a line of the log."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        return line if line.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def configure(level: str, process: str | None = None) -> None:
    """`process` is shown in every line, for several processes that write to one log."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter(FORMAT.replace("%(name)s", f"{process} %(name)s") if process else FORMAT))
    handler.addFilter(RequestIdFilter())
    handler.addFilter(OutageFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    # FORMAT shows neither the source line nor the thread or process, so logging need not look them up for each record.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(is_news)


def configure_child(level: str) -> None:
    """For a process whose parent copies the lines into its own log."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s%(trace)s %(message)s"))
    handler.addFilter(RequestIdFilter())
    handler.addFilter(OutageFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler])


class LogCadence:
    """Says when progress is worth a log line: after a share of the whole, or some seconds; and at the end."""

    def __init__(self, share: float, seconds: float, start: float = 0.0) -> None:
        self._share, self._seconds, self._last, self._at = share, seconds, start, time.monotonic()

    def is_due(self, share: float) -> bool:
        grown, now = share - self._last, time.monotonic()
        if grown < self._share and not (share == 1.0 and grown > 0) and now - self._at < self._seconds:
            return False
        self._last, self._at = share, now
        return True
