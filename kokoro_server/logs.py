"""Logging for both processes: one line per event on stderr, the request's id on each."""

from __future__ import annotations

import logging
import sys

from kokoro_server.api.context import request_id

FORMAT = "%(asctime)s %(levelname)-7s %(request)s %(name)s %(message)s"
# Libraries that talk about every request or every download at INFO.
QUIET = ("httpx", "httpcore", "huggingface_hub", "filelock", "urllib3", "uvicorn.error")


class RequestIdFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request = request_id.get()
        return True


def configure(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT))
    handler.addFilter(RequestIdFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    # What no line shows need not be found out for each: where in the code it comes from, in which thread and process.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
