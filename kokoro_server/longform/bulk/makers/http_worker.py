"""A process that asks a server for clips, some lines at a time, and writes them. `makers.http` starts it.

Its standard input has a `WorkerSetup`, then a line for each clip, and END; an input that breaks off means that the
parent has ended, and ends this process. Its standard output has a line of JSON for each outcome. A clip goes from the
connection to its file in one thread: that takes a fifth of the CPU that it would on an event loop.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import httpx

from kokoro_server.client import wire
from kokoro_server.client.errors import BrokenOff, ClientError, ServerError
from kokoro_server.longform.bulk.clips import read_clips
from kokoro_server.longform.bulk.outputs import write
from kokoro_server.longform.bulk.task import TRIES, failure
from kokoro_server.runtime.json import JsonObject

log = logging.getLogger(__name__)

HEADERS = {"X-Priority": "bulk", "Content-Type": "application/json", "Accept-Encoding": "identity"}
PATH = "/tts/bulk"
END = b"end\n"
REQUEST_BYTES = 100_000  # of lines that are asked for together; a longer one goes alone
TIMEOUTS = httpx.Timeout(1800.0, connect=10.0)  # a whole text may wait behind all other requests, and take long
BUSY_S = RETRY_AFTER_S = 1.0  # after which what was refused, or has failed, is asked for again
LOST_S = 300.0  # after which a server that cannot be reached, or cannot speak, is no longer waited for
PROBE_S = 10.0
DOWN = httpx.codes.SERVICE_UNAVAILABLE
ERROR_FIELDS = ("message", "code", "field", "status", "retry_after")


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """The first line of the input."""

    url: str
    out: str
    threads: int
    lines: int  # at most, in one request


@dataclass(slots=True)
class WorkerLine:
    index: int
    place: str  # in the output folder
    request: bytes  # JSON
    tries: int = 0

    @classmethod
    def read(cls, text: bytes) -> WorkerLine:
        index, place, request = text.rstrip(b"\n").split(b"\t", 2)
        return cls(int(index), place.decode(), request)

    def text(self) -> bytes:
        return b"%d\t%b\t%b\n" % (self.index, self.place.encode(), self.request)


class ServerLost(Exception):
    """It was not reached for LOST_S seconds."""


class Asker:
    """Makes lines. It may be used by several threads."""

    def __init__(self, setup: WorkerSetup, answers: IO[bytes]) -> None:
        self._url = setup.url
        self._out = Path(setup.out)
        self._client = httpx.Client(headers=wire.headers(None, HEADERS), timeout=TIMEOUTS)
        self._answers, self._turn = answers, threading.Lock()
        self._silent: float | None = None  # since when the server cannot speak, by time.monotonic()

    def make(self, lines: list[WorkerLine]) -> None:
        """Make all of them, and report the outcome of each."""
        while lines:
            try:
                refused = self._ask(lines)
            except ServerError as error:
                if len(lines) > 1 and failure(error, 1).lasting:  # one may be at fault, or they are too many
                    half = len(lines) // 2
                    self.make(lines[:half])
                    self.make(lines[half:])
                    return
                refused = [(line, error) for line in lines]
            lines = [line for line, error in refused if not self._is_final(line, error)]
            if lines:
                self._wait([error for _, error in refused])

    def _ask(self, lines: Sequence[WorkerLine]) -> list[tuple[WorkerLine, ClientError]]:
        """Write and report the clips that are made; return the refused lines. Raises ServerError if all are refused."""
        missing, refused = dict(enumerate(lines)), list[tuple[WorkerLine, ClientError]]()
        try:
            with self._answer(lines) as answer, wire.map_stream_errors(self._url):
                for head, clip, audio in read_clips(answer.iter_raw()):
                    line = missing.pop(clip["index"])
                    if error := clip.get("error"):
                        refused.append((line, ServerError(**{name: error[name] for name in ERROR_FIELDS})))
                    else:
                        self._silent = None
                        write(self._out, line.place, audio)
                        self._report(b'{"index": %d, "made": %b}\n' % (line.index, head))
            if missing:
                raise BrokenOff(f"{self._url} ended an answer early")
        except (OSError, ServerError):
            raise
        except ClientError as error:
            refused += [(line, error) for line in missing.values()]
        except Exception as error:  # a bug of ours must not cost other lines
            log.exception("some lines failed in an unforeseen way")
            fault = ClientError(f"{type(error).__name__}: {error}", code="internal_error")
            refused += [(line, fault) for line in missing.values()]
        return refused

    @contextmanager
    def _answer(self, lines: Sequence[WorkerLine]) -> Iterator[httpx.Response]:
        body = b'{"requests": [%b]}' % b", ".join(line.request for line in lines)
        request = self._client.build_request("POST", self._url + PATH, content=body)
        with wire.map_request_errors(self._url):
            answer = self._client.send(request, stream=True)
        with closing(answer):
            if not answer.is_success:
                with wire.map_request_errors(self._url):
                    answer.read()
                raise wire.server_error(answer)
            yield answer

    def _is_final(self, line: WorkerLine, error: ClientError) -> bool:
        """Count a failed try, and report the failure if it was the last one.

        A server that is there but cannot speak, as its G2P or its engine restarts, is waited for as one that is not.
        """
        status = getattr(error, "status", None)
        if status == httpx.codes.TOO_MANY_REQUESTS or _was_not_asked(error):
            return False
        if status == DOWN and time.monotonic() - self._silent_since() < LOST_S:
            return False
        line.tries += 1
        failed = failure(error, line.tries)
        if not failed.lasting and line.tries < TRIES and status != DOWN:
            return False
        self._report(json.dumps({"index": line.index, "failed": asdict(failed)}).encode() + b"\n")
        return True

    def _silent_since(self) -> float:
        self._silent = since = self._silent or time.monotonic()
        return since

    def _wait(self, errors: Sequence[ClientError]) -> None:
        if any(getattr(error, "status", DOWN) == DOWN for error in errors):
            self._wait_for_server()
        waits = [getattr(error, "retry_after", None) or BUSY_S for error in errors]
        time.sleep(max(waits))

    def _wait_for_server(self) -> None:
        """A server that is restarted answers again after a while."""
        until = time.monotonic() + LOST_S
        while time.monotonic() < until:
            try:
                if self._client.get(f"{self._url}/health/ready", timeout=PROBE_S).is_success:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(RETRY_AFTER_S)
        raise ServerLost(
            f"{self._url} could not be reached for {LOST_S:g} s; when it runs again, the same command goes on"
        )

    def end(self, about: JsonObject) -> None:
        """End the process: nothing more can be made."""
        try:
            self._report(json.dumps({"ended": about}).encode() + b"\n")
        finally:
            os._exit(1)

    def _report(self, text: bytes) -> None:
        with self._turn:
            self._answers.write(text)
            self._answers.flush()


def _was_not_asked(error: ClientError) -> bool:
    return isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout)


def requests(lines: Iterator[bytes], most: int) -> Iterator[list[WorkerLine]]:
    """The lines of each request. Ends the process if the input breaks off."""
    found, size = list[WorkerLine](), 0
    for text in lines:
        if text == END:
            if found:
                yield found
            return
        line = WorkerLine.read(text)
        if found and (len(found) == most or size + len(line.request) > REQUEST_BYTES):
            yield found
            found, size = [], 0
        found.append(line)
        size += len(line.request)
    os._exit(1)


def work(asker: Asker, waiting: queue.SimpleQueue[list[WorkerLine] | None]) -> None:
    try:
        while lines := waiting.get():
            asker.make(lines)
    except ServerLost as error:
        asker.end({"message": str(error)})
    except OSError as error:  # of a file: httpx has its own
        asker.end({"errno": error.errno, "strerror": error.strerror, "filename": error.filename})


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from the terminal: the parent ends this process
    setup = WorkerSetup(**json.loads(sys.stdin.buffer.readline()))
    asker = Asker(setup, sys.stdout.buffer)
    waiting = queue.SimpleQueue[list[WorkerLine] | None]()
    threads = [threading.Thread(target=work, args=(asker, waiting), daemon=True) for _ in range(setup.threads)]
    for thread in threads:
        thread.start()
    for lines in requests(iter(sys.stdin.buffer.readline, b""), setup.lines):
        waiting.put(lines)
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
