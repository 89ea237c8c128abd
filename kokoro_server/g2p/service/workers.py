"""Worker processes that convert texts in parallel: threads cannot, as the interpreter's lock lets only one run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import multiprocessing
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, NoReturn, Protocol

from kokoro_server.errors import G2PFailed, G2PUnavailable
from kokoro_server.g2p import schemas
from kokoro_server.g2p.service.lanes import ConversionLane, ConversionOutcome, LaneText, run_phonemizer
from kokoro_server.languages import Language
from kokoro_server.runtime.background import logged_task
from kokoro_server.runtime.backoff import Backoff
from kokoro_server.runtime.subprocesses import die_with_parent

if TYPE_CHECKING:
    from kokoro_server.g2p.service.phonemizers import Phonemizer

log = logging.getLogger(__name__)

WARMUP_TEXT = "The first text takes longer than the rest."
MANY_WORKERS = 4  # from which on one can be kept free of bulk
MAX_LOST_WORKERS = 2  # that a text may cost, by their end or by hanging, before it is refused
HUNG_AFTER = 8.0  # seconds on one text: the longest text allowed takes less than one, and G2P_TIMEOUT is ten
HUNG_CHECKS = 8  # within that time
RESTART = Backoff(0.1, longest=5.0)  # before a worker is replaced, from the second that ends without an answer between
_REQUEST = struct.Struct("=QB")  # the text's number and that of its language; the text follows, in UTF-8
_REPLY = struct.Struct("=QBI")  # the text's number, whether it has failed, and how many bytes follow
_STARTED = struct.Struct("=BI")  # the place of a worker and its process id; the descriptor of its answers comes along
_CELL = struct.Struct("=Qd")  # the text that a worker has, as its number + 1 or 0, and since when
_MAX_REQUEST = _REQUEST.size + 4 * schemas.MAX_TEXT_LENGTH


class Closeable(Protocol):
    def close(self) -> None: ...


class WorkerPool(ConversionLane):
    """Worker processes, forked with loaded `phonemizers`, whose memory they share. Each converts one text at a time.

    All of them read one socket, where a few texts are ahead: a free worker takes the next without this process, and no
    text is bound to a worker that is slow. Each answers through its own pipe, so that its end is noticed. What it is
    working on is in shared memory.

    A worker that ends or hangs is replaced, and its text goes to another one. As a process with threads cannot fork
    safely, all workers are forked by another process, the nursery, which is forked here before there are threads.

    All of these processes end when this process does, however that ends. They must close `inherited`, which a fork
    leaves open in them.
    """

    def __init__(self, count: int, phonemizers: Mapping[Language, Phonemizer], *inherited: Closeable) -> None:
        ahead = (count + 1) // 2
        super().__init__(room=count + ahead, kept_free=ahead + 1 if count >= MANY_WORKERS else 0)
        self.count = count
        self._languages = tuple(phonemizers)
        self._closed = False
        self._cells = _Cells(count)
        self._pids: dict[int, int] = {}  # of the workers that run, by place
        self._transports: dict[int, asyncio.ReadTransport] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._ends = 0  # of workers, since the last answer
        self._requests, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._nursery, nursery = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.setblocking(False)
        arguments = nursery, requests, phonemizers, self._cells, (*inherited, self._requests, self._nursery)
        multiprocessing.get_context("fork").Process(target=_nurse, args=arguments, name="g2p", daemon=True).start()
        requests.close()
        nursery.close()
        for place in range(count):
            self._nursery.send(bytes([place]))
        self._nursery.setblocking(False)

    async def connect(self) -> None:
        """Call it in the event loop, before the first text."""
        asyncio.get_running_loop().add_reader(self._nursery, self._on_started)
        self._check_for_hung()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._timer:
            self._timer.cancel()
            asyncio.get_running_loop().remove_reader(self._nursery)
        self._nursery.close()
        self._requests.close()
        for transport in self._transports.values():
            transport.close()

    def _finish(self, number: int, outcome: ConversionOutcome) -> None:
        self._ends = 0
        super()._finish(number, outcome)

    def _send(self, number: int, text: LaneText) -> bool:
        message = _REQUEST.pack(number, self._languages.index(text.language)) + text.text.encode()
        try:
            self._requests.send(message)
        except BlockingIOError:  # long texts fill the socket; there is room when one of them is taken
            return False
        except OSError:  # closed, or no process reads it any more
            text.batch.fail(_workers_have_ended())
            return False
        return True

    def _on_started(self) -> None:
        try:
            message, fds, _, _ = socket.recv_fds(self._nursery, _STARTED.size, 1)
        except ConnectionError:  # it ended before it read which worker to fork: such an end is an error, and no other
            message, fds = b"", []
        if not message:
            self._on_nursery_end()
            return
        place, pid = _STARTED.unpack(message)
        self._pids[place] = pid
        if not fds:  # no descriptor was free: the worker could not answer
            _kill(pid)
            self._on_end(place)
            return
        task = logged_task(self._read_answers(place, fds[0]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read_answers(self, place: int, descriptor: int) -> None:
        answers = _Replies(self._finish, lambda: self._on_end(place))
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: answers, os.fdopen(descriptor, "rb"))
        self._transports[place] = transport

    def _on_end(self, place: int) -> None:
        """Replace a worker that has ended. Every text that no other worker has now is sent again."""
        if self._closed:
            return
        held, _ = self._cells[place]
        self._cells[place] = None, 0.0
        elsewhere = {self._cells[other][0] for other in range(self.count)}
        log.error("a g2p worker has ended and is replaced pid=%s text=%s", self._pids.pop(place, None), held)
        for number in [number for number in reversed(self._under_way) if number not in elsewhere]:
            text = self._take_back(number)
            if number == held:
                text = replace(text, lost_workers=text.lost_workers + 1)
            if text.lost_workers >= MAX_LOST_WORKERS:
                start = text.text[:40]
                text.batch.fail(G2PFailed(f"the text that begins {start!r} has ended {MAX_LOST_WORKERS} G2P workers"))
            else:
                self._turns(text).put_back(text)
        self._ends += 1
        wait = RESTART.wait(self._ends - 1) if self._ends > 1 else 0.0
        asyncio.get_running_loop().call_later(wait, self._replace, place)
        self._fill()

    def _replace(self, place: int) -> None:
        if not self._closed:
            with contextlib.suppress(OSError):  # the nursery has ended, which is noticed by itself
                self._nursery.send(bytes([place]))

    def _check_for_hung(self) -> None:
        now = time.monotonic()
        for place, pid in self._pids.items():
            number, since = self._cells[place]
            if number is not None and now - since > HUNG_AFTER:
                log.error("a g2p worker hangs, killing it pid=%d seconds=%.0f", pid, now - since)
                _kill(pid)
        self._timer = asyncio.get_running_loop().call_later(HUNG_AFTER / HUNG_CHECKS, self._check_for_hung)

    def _on_nursery_end(self) -> None:
        log.error("the process that starts g2p workers has ended, and so does the service")
        os.kill(os.getpid(), signal.SIGTERM)
        self.close()
        self._fail_all(_workers_have_ended())


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _workers_have_ended() -> G2PUnavailable:
    return G2PUnavailable("the G2P workers have ended", retry_after=1.0)


class _Cells:
    """What each worker is doing, in shared memory. A worker writes its own cell, and the service that of a dead one."""

    def __init__(self, count: int) -> None:
        self._memory = mmap.mmap(-1, count * _CELL.size)

    def __getitem__(self, place: int) -> tuple[int | None, float]:
        """The number of its text, if it has one, and since when by the monotonic clock."""
        number, since = _CELL.unpack_from(self._memory, place * _CELL.size)
        return (number - 1 if number else None), since

    def __setitem__(self, place: int, now: tuple[int | None, float]) -> None:
        number, since = now
        _CELL.pack_into(self._memory, place * _CELL.size, 0 if number is None else number + 1, since)


class _Replies(asyncio.Protocol):
    """Reads the answers of one worker."""

    def __init__(self, on_reply: Callable[[int, ConversionOutcome], None], on_end: Callable[[], None]) -> None:
        self._on_reply = on_reply
        self._on_end = on_end
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= _REPLY.size:
            number, failed, length = _REPLY.unpack_from(received)
            end = _REPLY.size + length
            if len(received) < end:
                return
            answer = bytes(received[_REPLY.size : end])
            del received[:end]
            self._on_reply(number, answer.decode() if failed else answer)

    def connection_lost(self, _error: Exception | None) -> None:
        self._on_end()


def _nurse(
    nursery: socket.socket,
    requests: socket.socket,
    phonemizers: Mapping[Language, Phonemizer],
    cells: _Cells,
    inherited: Sequence[Closeable],
) -> None:
    """Fork a worker for each place that the service names, until the service ends."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C in the terminal is for the service
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks for the status of a worker
    for resource in inherited:
        resource.close()
    while message := nursery.recv(1):
        place = message[0]
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            nursery.close()
            os.close(reading)
            _work(requests, os.fdopen(writing, "wb"), phonemizers, cells, place)
        os.close(writing)
        with contextlib.suppress(BrokenPipeError):  # the service has ended
            socket.send_fds(nursery, [_STARTED.pack(place, pid)], [reading])
        os.close(reading)


def _work(
    requests: socket.socket,
    replies: BinaryIO,
    phonemizers: Mapping[Language, Phonemizer],
    cells: _Cells,
    place: int,
) -> NoReturn:
    """Be a worker until the other end of the socket is closed, which happens when no process has it open any more."""
    status = 1
    try:
        die_with_parent()
        _serve(requests, replies, phonemizers, cells, place)
        status = 0
    except Exception:
        log.exception("a g2p worker has failed")
    finally:
        os._exit(status)  # whatever the nursery would do at its end is not for a worker


def _serve(
    requests: socket.socket,
    replies: BinaryIO,
    phonemizers: Mapping[Language, Phonemizer],
    cells: _Cells,
    place: int,
) -> None:
    languages = tuple(phonemizers)
    for language in languages:  # the first text takes several times as long: memory that was shared is copied
        run_phonemizer(phonemizers[language], language, WARMUP_TEXT)
    while message := requests.recv(_MAX_REQUEST):
        number, index = _REQUEST.unpack_from(message)
        cells[place] = number, time.monotonic()
        language = languages[index]
        outcome = run_phonemizer(phonemizers[language], language, message[_REQUEST.size :].decode())
        answer = outcome.encode() if isinstance(outcome, str) else outcome
        try:
            replies.write(_REPLY.pack(number, isinstance(outcome, str), len(answer)) + answer)
            replies.flush()
        except BrokenPipeError:
            return
        cells[place] = None, 0.0
