"""A bulk run: makes each line of a file once, however often it is started, and lists them in a manifest in order."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from kokoro_server.audio.formats import FORMATS
from kokoro_server.config.defaults import default_voice
from kokoro_server.errors import InvalidInput, SetupError, Unavailable, first_of
from kokoro_server.longform.bulk import lines
from kokoro_server.longform.bulk.journal import Journal, Sign, as_json
from kokoro_server.longform.bulk.makers.local import Maker
from kokoro_server.longform.bulk.names import Names, number_of
from kokoro_server.longform.bulk.outputs import PARTS, WORK, ClipOutputs, atomically, prepare
from kokoro_server.longform.bulk.task import Failed, Made, Task, failure
from kokoro_server.longform.bulk.verify import Verifier
from kokoro_server.runtime.json import JsonObject

MANIFEST, FAILURES = "manifest.jsonl", "failures.jsonl"
READ_AT_ONCE = 32  # lines, each of which may take megabytes
SYNC_S = 1.0  # seconds between two syncs of the journal
GIVE_UP_AFTER = 200  # lines in a row that failed by no fault of their own


@dataclass(slots=True)
class BulkProgress:
    """The progress of a run. Lines that an earlier run made count as done."""

    lines: int
    characters: int
    done: int = 0
    failed: int = 0
    done_characters: int = 0
    absent: int = 0  # of those that failed, lines for which no backend was available
    absent_characters: int = 0
    absence: str = ""  # the reason, of the last of them
    kept: int = 0  # lines that an earlier run made
    kept_characters: int = 0
    damaged: int = 0  # lines of the journal, whose clips are made again
    seconds: float = 0.0  # of audio made by this run
    started: float = 0.0  # when it began to speak, on the clock of time.monotonic()

    @property
    def seconds_left(self) -> float | None:
        spoken, elapsed = self.done_characters - self.kept_characters, time.monotonic() - self.started
        return (self.characters - self.done_characters) * elapsed / spoken if spoken else None

    @property
    def speed(self) -> float:
        """Seconds of audio a second."""
        return self.seconds / max(time.monotonic() - self.started, 1e-9)


Show = Callable[[BulkProgress], object]


@contextmanager
def folder(out: Path) -> Iterator[None]:
    """Lock the output folder for this process. Raises SetupError where it is locked, or cannot be written."""
    try:
        (out / WORK).mkdir(parents=True, exist_ok=True)
        with FileLock(out / WORK / "lock", timeout=0):
            prepare(out)
            yield
    except Timeout:
        raise SetupError(f"{out}: another bulk run writes there; wait for its end, or name another folder") from None
    except OSError as error:
        about = error.filename or out
        raise SetupError(f"{about}: cannot be written: {error.strerror or error}; what is made is kept") from error


class BulkRun:
    """Use within `folder`. `defaults` are the fields that a line may leave out; texts have `max_text` characters.

    With `leave_voice` the maker chooses the voice of lines that name none. Otherwise they get the default voice.
    """

    def __init__(
        self,
        source: Path,
        out: Path,
        outputs: ClipOutputs,
        maker: Maker,
        *,
        defaults: JsonObject,
        max_text: int = lines.MAX_TEXT,
        leave_voice: bool = False,
        verifier: Verifier | None = None,
        show: Show = lambda _progress: None,
    ) -> None:
        self._source, self._out, self._outputs, self._maker = source, out, outputs, maker
        self._defaults, self._max_text, self._verifier, self._show = defaults, max_text, verifier, show
        self._leave_voice = leave_voice
        self._prefix = json.dumps([maker.version, outputs.kind])
        self._offsets = array("Q")  # in the journal, by index
        self._blocks = Counter[int]()  # finished lines of a shard, by its first index
        self._streak = 0

    async def run(self) -> BulkProgress:
        """Raises SetupError where no line can be made, and Unavailable after GIVE_UP_AFTER failures in a row."""
        names, self._progress = await asyncio.to_thread(self._survey)
        self._journal = journal = await asyncio.to_thread(Journal, self._out / WORK / "journal")
        self._progress.damaged = journal.damaged
        self._offsets = array("Q", bytes(8 * self._progress.lines))
        try:
            async with asyncio.TaskGroup() as group:
                syncing = group.create_task(self._sync())
                hearing = group.create_task(self._hear(self._verifier)) if self._verifier else None
                self._progress.started = time.monotonic()
                self._show(self._progress)
                await self._maker.make(self._tasks(names), self._outputs, self._finish)
                if self._verifier and hearing:
                    self._verifier.waiting.put_nowait(None)
                    await hearing
                syncing.cancel()
            await asyncio.to_thread(journal.sync)
            await asyncio.to_thread(self._conclude)
        except BaseExceptionGroup as group:
            raise first_of(group) from None
        finally:
            journal.close()
        return self._progress

    def _survey(self) -> tuple[Names, BulkProgress]:
        progress = BulkProgress(0, 0)

        def ids() -> Iterator[str]:
            for line in lines.read(self._source, self._max_text):
                progress.lines += 1
                progress.characters += line.characters
                yield line.id

        return Names(ids()), progress

    async def _tasks(self, names: Names) -> AsyncIterator[Task]:
        """The lines that are still to be made."""
        planned = self._planned(names)
        while block := await asyncio.to_thread(lambda: list(islice(planned, READ_AT_ONCE))):
            for task, offset in block:
                if offset is not None:
                    self._progress.kept += 1
                    self._progress.kept_characters += task.characters
                    await self._ended(task, offset)
                elif task.error:
                    await self._finish(task, failure(task.error, 1))
                else:
                    yield task

    def _planned(self, names: Names) -> Iterator[tuple[Task, int | None]]:
        """Each line, with its offset in the journal if it is made already."""
        for index, line in enumerate(lines.read(self._source, self._max_text)):
            if index == self._progress.lines:
                raise SetupError(f"{self._source}: has grown since the run began; run the same command again")
            task = self._task(index, line, names)
            offset = None if task.error else self._journal.find(number_of(task.name), task.key)
            if offset is not None and not self._outputs.has(self._journal.read(offset)):
                offset = None
            yield task, offset

    def _task(self, index: int, line: lines.BulkLine, names: Names) -> Task:
        language = line.fields.get("language")
        voice = None if self._leave_voice else default_voice(language if isinstance(language, str) else None)
        default = {"voice": voice} if voice else {}
        fields, error = default | self._defaults | line.fields, line.error
        if fields["format"] not in FORMATS:
            error = error or InvalidInput(f"format: must be one of {', '.join(FORMATS)}", field="format")
            fields["format"] = self._defaults["format"]
        name = f"{names.name(line.id)}.{fields['format']}"
        file = self._outputs.file(index, name)
        voices = self._maker.fingerprint(fields)
        request = json.dumps([self._prefix, voices, file, name, line.id, fields], sort_keys=True, default=str)
        key = number_of(request)
        return Task(index, line.number, line.id, name, file, fields, key, line.characters, error)

    async def _finish(self, task: Task, outcome: Made | Failed) -> None:
        if isinstance(outcome, Made):
            offset = await self._note("+", task, _record(task, outcome))
            self._progress.seconds += outcome.duration
            self._streak = 0
        else:
            offset = await self._note("-", task, _failure(task, outcome))
            await asyncio.to_thread(self._outputs.discard, task.file)
            self._progress.failed += 1
            if outcome.absent:
                self._progress.absent += 1
                self._progress.absent_characters += task.characters
                self._progress.absence = outcome.message
            self._give_up_if_hopeless(outcome)
        await self._ended(task, offset)

    async def _note(self, sign: Sign, task: Task, record: JsonObject) -> int:
        """In a thread: the words of an hour are megabytes, and disks may be slow."""
        return await asyncio.to_thread(self._journal.append, sign, number_of(task.name), task.key, record)

    def _give_up_if_hopeless(self, failed: Failed) -> None:
        self._streak += not failed.lasting
        if self._streak >= GIVE_UP_AFTER:
            raise Unavailable(
                f"{self._streak} lines in a row could not be spoken, the last as {failed.message}; "
                "finished lines are kept, and another run goes on from there"
            )

    async def _ended(self, task: Task, offset: int) -> None:
        """Count a line that is made, now or by an earlier run, or has failed."""
        self._offsets[task.index] = offset
        self._progress.done += 1
        self._progress.done_characters += task.characters
        if self._verifier and self._journal.is_made(offset) and not self._journal.is_heard(self._heard_key(task.key)):
            self._verifier.waiting.put_nowait(task.index)
        if (block := self._outputs.block(task.index)) is not None:
            await self._complete_if_last(block, task.file)
        self._show(self._progress)

    async def _complete_if_last(self, block: range, file: str) -> None:
        last = min(block.stop, self._progress.lines)
        self._blocks[block.start] += 1
        if self._blocks[block.start] < last - block.start:
            return
        del self._blocks[block.start]
        await asyncio.to_thread(self._complete, file, self._offsets[block.start : last])

    def _complete(self, file: str, offsets: array[int]) -> None:
        records = [self._journal.read(offset) for offset in offsets if self._journal.is_made(offset)]
        self._outputs.complete(file, records)

    async def _hear(self, verifier: Verifier) -> None:
        while (index := await verifier.waiting.get()) is not None:
            record = await asyncio.to_thread(self._journal.read, self._offsets[index])
            content = await asyncio.to_thread(self._outputs.read, record)
            heard = await verifier.hear(content, record)
            await asyncio.to_thread(self._journal.append, "?", 0, self._heard_key(int(record["key"], 16)), heard)

    def _heard(self, key: int) -> JsonObject | None:
        """The transcript by this run's model of the clip with that key."""
        return self._journal.heard(self._heard_key(key)) if self._verifier else None

    def _heard_key(self, key: int) -> int:
        assert self._verifier
        return number_of(f"{key:016x} {self._verifier.model}")

    async def _sync(self) -> None:
        while True:
            await asyncio.sleep(SYNC_S)
            await asyncio.to_thread(self._journal.sync)

    def _conclude(self) -> None:
        """Write manifest and failures in the order of the input, and remove files that it no longer asks for."""
        files = array("Q")
        with (
            atomically(self._out / MANIFEST, self._out, durable=True) as manifest,
            atomically(self._out / FAILURES, self._out, durable=True) as failures,
        ):
            for offset in self._offsets:
                record = self._journal.read(offset)
                if self._journal.is_made(offset):
                    heard = self._heard(int(record["key"], 16))
                    manifest.write(as_json(record | (heard or {})) + b"\n")
                    files.append(number_of(record["file"]))
                else:
                    failures.write(as_json(record) + b"\n")
        if len(files) == len(self._offsets):
            (self._out / FAILURES).unlink()
        self._remove_all_but(np.unique(np.frombuffer(files, np.uint64)))
        shutil.rmtree(self._out / WORK / PARTS, ignore_errors=True)

    def _remove_all_but(self, current: NDArray[np.uint64]) -> None:
        """Remove the files of earlier runs that are not in this one."""
        for file in self._journal.files():
            number = np.uint64(number_of(file))
            place = np.searchsorted(current, number)
            if place == len(current) or current[place] != number:
                (self._out / file).unlink(missing_ok=True)


def _record(task: Task, made: Made) -> JsonObject:
    member = {} if task.file == task.name else {"member": task.name}
    facts = {"duration": round(made.duration, 4), "bytes": made.size, "words": made.words}
    voice = {"voice": made.voice} if made.voice else {}
    return {"id": task.id, "file": task.file, **member, **voice, **task.fields, **facts, "key": task.key_text}


def _failure(task: Task, failed: Failed) -> JsonObject:
    return {
        "line": task.number,
        "id": task.id,
        "code": failed.code,
        "message": f"line {task.number}: {failed.message}",
        "field": failed.field,
        "tries": failed.tries,
        "text": task.fields.get("text"),
    }
