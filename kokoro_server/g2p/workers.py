"""Processes that convert texts beside each other: what a language takes of the interpreter, no thread can share."""

from __future__ import annotations

import asyncio
import contextlib
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
from pathlib import Path
from typing import Any, Protocol

from kokoro_server.errors import G2PUnavailable
from kokoro_server.g2p.languages import Language
from kokoro_server.g2p.phonemes import Phonemes
from kokoro_server.g2p.phonemizers import Phonemizer

log = logging.getLogger(__name__)

CORES_EACH = 4  # one of them keeps a worker's worth of speech coming, the others are for the speech itself
MOST = 8
QUOTA = Path("/sys/fs/cgroup/cpu.max")  # what a container may have: microseconds of so many
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")  # espeak takes the first for the end of the text


class Closeable(Protocol):
    def close(self) -> None: ...


class ConversionFailed(Exception):
    """What went wrong in the worker, as it says it."""


def attempt(phonemizer: Phonemizer, text: str) -> Phonemes:
    """Raises ConversionFailed; the log has the rest."""
    try:
        return phonemizer(_CONTROLS.sub(" ", text))
    except Exception as error:
        log.exception("conversion failed characters=%d start=%r", len(text), text[:80])
        raise ConversionFailed(repr(error)) from error


def suitable(quota: Path = QUOTA) -> int:
    """How many workers this machine is good for. Elsewhere than on Linux a fork is not safe."""
    if sys.platform != "linux":
        return 1
    cores = float(len(os.sched_getaffinity(0)))
    with contextlib.suppress(OSError, ValueError):  # no such file, or no limit: "max 100000"
        time_allowed, period = quota.read_text(encoding="ascii").split()
        cores = min(cores, int(time_allowed) / int(period))
    return max(1, min(MOST, int(cores / CORES_EACH)))


class Workers:
    """Forked with all languages that they are to know, whose memory they share; each has one text at a time.

    They end when this process does, however that ends. Should one of them end by itself, then so does this process:
    whoever watches it starts it again. `inherited` is what they must not keep open.
    """

    def __init__(self, count: int, phonemizers: Mapping[Language, Phonemizer], *inherited: Closeable) -> None:
        context = multiprocessing.get_context("fork")
        self.count = count
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._since: dict[int, float] = {}  # when the busy ones began
        self._ends: list[Connection] = []
        for number in range(count):
            ours, theirs = context.Pipe()
            self._ends.append(ours)
            target = (theirs, phonemizers, (*inherited, *self._ends))
            context.Process(target=_serve, args=target, name=f"g2p-{number}", daemon=True).start()
            theirs.close()
            self._idle.put(ours)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="g2p-worker")

    async def convert(self, text: str, language: Language) -> Phonemes:
        """Raises ConversionFailed, or G2PUnavailable when the worker is gone."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, text, language)

    @property
    def busy_since(self) -> float | None:
        """Since when the longest at work has been."""
        return min(self._since.values(), default=None)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for end in self._ends:
            end.close()

    def _ask(self, text: str, language: Language) -> Phonemes:
        worker = self._idle.get()
        key = id(worker)
        self._since[key] = time.monotonic()
        try:
            worker.send((language, text))
            answer = worker.recv()
        except (EOFError, OSError) as error:
            log.error("a g2p worker has ended, and so does the service error=%r", error)
            os.kill(os.getpid(), signal.SIGTERM)
            raise G2PUnavailable("a G2P worker has ended", retry_after=1.0) from error
        finally:
            del self._since[key]
            self._idle.put(worker)
        if isinstance(answer, Phonemes):
            return answer
        raise ConversionFailed(answer)


def _serve(requests: Connection, phonemizers: Mapping[Language, Phonemizer], inherited: tuple[Any, ...]) -> None:
    """Until the other end is closed, which it is when nobody has it open any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C in the terminal is for the service
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for thing in inherited:
        thing.close()
    while True:
        try:
            language, text = requests.recv()
        except (EOFError, OSError):
            return
        try:
            answer: Phonemes | str = attempt(phonemizers[language], text)
        except ConversionFailed as error:
            answer = str(error)
        requests.send(answer)
