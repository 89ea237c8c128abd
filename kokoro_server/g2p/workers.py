"""Worker processes that convert texts in parallel: threads cannot, as the interpreter's lock lets only one run."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import queue
import re
import signal
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, Protocol

from kokoro_server.errors import G2PUnavailable
from kokoro_server.g2p.languages import Language
from kokoro_server.g2p.phonemizers import Phonemizer
from kokoro_server.g2p.result import G2PResult
from kokoro_server.machine import available_cores

log = logging.getLogger(__name__)

CORES_PER_WORKER = 4  # one for the worker, the others for synthesis
MAX_WORKERS = 8
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")  # espeak takes \x00 for the end of the text


class Closeable(Protocol):
    def close(self) -> None: ...


class ConversionFailed(Exception):
    """The message is the repr of the phonemizer's error."""


def run_phonemizer(phonemizer: Phonemizer, text: str) -> G2PResult:
    """Raises ConversionFailed; the log has the traceback."""
    try:
        return phonemizer(_CONTROL_CHARACTERS.sub(" ", text))
    except Exception as error:
        log.exception("conversion failed characters=%d start=%r", len(text), text[:80])
        raise ConversionFailed(repr(error)) from error


def default_worker_count() -> int:
    """How many workers suit this machine. Only one where it is not Linux, as a fork is not safe there."""
    if sys.platform != "linux":
        return 1
    return max(1, min(MAX_WORKERS, int(available_cores() / CORES_PER_WORKER)))


class WorkerPool:
    """Worker processes, forked with loaded `phonemizers`, whose memory they share. Each converts one text at a time.

    The workers end when this process does, however that ends. If a worker ends by itself, this process ends too: its
    supervisor starts it again. `inherited` is what the workers must close, as a fork leaves it open in them.
    """

    def __init__(self, count: int, phonemizers: Mapping[Language, Phonemizer], *inherited: Closeable) -> None:
        context = multiprocessing.get_context("fork")
        self.count = count
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._busy_since: dict[int, float] = {}  # when each busy worker began its text, by the id of its pipe
        self._pipes: list[Connection] = []
        for number in range(count):
            pipe, worker_end = context.Pipe()
            self._pipes.append(pipe)
            arguments = (worker_end, phonemizers, (*inherited, *self._pipes))
            context.Process(target=_serve, args=arguments, name=f"g2p-{number}", daemon=True).start()
            worker_end.close()
            self._idle.put(pipe)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="g2p-worker")

    async def convert(self, text: str, language: Language) -> G2PResult:
        """Raises ConversionFailed, or G2PUnavailable when the worker is gone."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._request, text, language)

    @property
    def busy_since(self) -> float | None:
        """When the worker that has been busy longest began its text."""
        return min(self._busy_since.values(), default=None)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for pipe in self._pipes:
            pipe.close()

    def _request(self, text: str, language: Language) -> G2PResult:
        pipe = self._idle.get()
        key = id(pipe)
        self._busy_since[key] = time.monotonic()
        try:
            pipe.send((language, text))
            reply = pipe.recv()
        except (EOFError, OSError) as error:
            log.error("a g2p worker has ended, and so does the service error=%r", error)
            os.kill(os.getpid(), signal.SIGTERM)
            raise G2PUnavailable("a G2P worker has ended", retry_after=1.0) from error
        finally:
            del self._busy_since[key]
            self._idle.put(pipe)
        if isinstance(reply, G2PResult):
            return reply
        raise ConversionFailed(reply)


def _serve(requests: Connection, phonemizers: Mapping[Language, Phonemizer], inherited: tuple[Any, ...]) -> None:
    """Run a worker until the other end of the pipe is closed, which happens when no process has it open any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C in the terminal is for the service
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for resource in inherited:
        resource.close()
    while True:
        try:
            language, text = requests.recv()
        except (EOFError, OSError):
            return
        try:
            reply: G2PResult | str = run_phonemizer(phonemizers[language], text)
        except ConversionFailed as error:
            reply = str(error)
        requests.send(reply)
