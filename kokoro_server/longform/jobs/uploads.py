"""Reads uploaded documents in processes of their own."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from dataclasses import asdict
from pathlib import Path

from kokoro_server.callers.current import caller
from kokoro_server.client import Voice
from kokoro_server.config.defaults import speech_defaults
from kokoro_server.errors import KokoroError, TooBusy, Unavailable, UnreadableDocument
from kokoro_server.longform.bulk import lines
from kokoro_server.runtime.fair_slots import FairSlots
from kokoro_server.runtime.json import JsonObject
from kokoro_server.runtime.subprocesses import send, start_python

log = logging.getLogger(__name__)

TIMEOUT_S = 120.0
# Seconds of processor time. A PDF of plain text takes 5 s for a megabyte, and other documents less. Slow machines take
# five times as long.
LEAST_CPU_S, CPU_S_PER_MB, MOST_CPU_S = 10, 30, 120
AT_ONCE, PER_CALLER = 3, 2  # one caller always leaves a place to the rest
OUT_OF_CPU = -signal.SIGXCPU if hasattr(signal, "SIGXCPU") else None  # the status of a process
# By another process or the system. Of its own limits, that of memory raises MemoryError.
KILLED = tuple(-getattr(signal, name) for name in ("SIGKILL", "SIGTERM") if hasattr(signal, name))
MAX_WAITING = 8  # documents of one caller
RETRY_AFTER = 10.0


class DocumentReader:
    """Reads a few documents at a time, those of jobs and of previews, taking turns between callers.

    Lines of a list may have `max_text` characters.
    """

    def __init__(self, max_text: int = lines.MAX_TEXT) -> None:
        self._max_text, self._slots = max_text, FairSlots(AT_ONCE, PER_CALLER)

    def check(self) -> None:
        """Raises TooBusy if too many documents of the caller wait."""
        if self._slots.wanted_by(caller.get()) >= MAX_WAITING:
            raise TooBusy(f"{MAX_WAITING} of your documents are being read; try again later", retry_after=RETRY_AFTER)

    async def read(
        self, path: Path, name: str, options: JsonObject, voices: list[Voice], target: Path | None
    ) -> JsonObject:
        """Describe a file, and write its book to `target` if given. Raises UnreadableDocument, TooBusy, Unavailable."""
        self.check()
        cpu_s = cpu_seconds((await asyncio.to_thread(path.stat)).st_size)
        defaults = speech_defaults.get()
        request = {
            "defaults": {"voices": dict(defaults.voices), "language": defaults.language},
            "path": str(path),
            "name": name,
            "options": options,
            "voices": [asdict(voice) for voice in voices],
            "target": str(target) if target else None,
            "cpu_s": cpu_s,
            "max_text": self._max_text,
        }
        async with self._slots.taken(caller.get()):
            about = await self._run(json.dumps(request).encode(), name, cpu_s)
        if error := about.get("error"):
            raise _error(error)
        return about

    async def _run(self, request: bytes, name: str, cpu_s: int) -> JsonObject:
        try:
            process = await start_python("kokoro_server.longform.jobs.reading", stderr=asyncio.subprocess.DEVNULL)
        except OSError as error:  # no descriptors, processes or memory are left; uvloop does not always say which
            log.error("no document can be read error=%r", error)
            raise Unavailable(
                f"{name}: no process can be started to read it; try again", retry_after=RETRY_AFTER
            ) from error
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await send(process, request, last=True)
                written, _ = await process.communicate()
        except TimeoutError:
            raise UnreadableDocument(f"{name}: reading it takes more than {TIMEOUT_S:g} s", field="file") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            log.warning("a document was not read to its end status=%d", process.returncode)
        if process.returncode == OUT_OF_CPU:
            raise UnreadableDocument(
                f"{name}: reading it takes more than {cpu_s} s of processor time, which is all that a file of its size "
                "gets",
                field="file",
            )
        if process.returncode in KILLED:
            raise Unavailable(
                f"{name}: the process that read it was killed, as the system does where memory is short; try again",
                retry_after=RETRY_AFTER,
            )
        if process.returncode:
            raise UnreadableDocument(
                f"{name}: cannot be read: it takes too long or too much memory, or is damaged", field="file"
            )
        about: JsonObject = json.loads(written)
        return about


def cpu_seconds(size: int) -> int:
    """That a document of `size` bytes may take: strangers send small ones that take hours."""
    return min(LEAST_CPU_S + CPU_S_PER_MB * size // 1_000_000, MOST_CPU_S)


def _error(error: JsonObject) -> KokoroError:
    """The error that was raised in the process that read the document."""
    if error["code"] == Unavailable.code:
        return Unavailable(error["message"], retry_after=RETRY_AFTER)
    for kind in _all_kinds(KokoroError):
        if kind.code == error["code"] and kind.status < 500:
            return kind(error["message"], field=error["field"] or "file")
    return UnreadableDocument(error["message"], field="file")


def _all_kinds(kind: type[KokoroError]) -> list[type[KokoroError]]:
    return [kind, *(each for below in kind.__subclasses__() for each in _all_kinds(below))]
