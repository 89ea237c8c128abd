"""Worker processes that convert texts in parallel: threads cannot, as the interpreter's lock lets only one run."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol

from kokoro_server.errors import G2PUnavailable
from kokoro_server.g2p import schemas
from kokoro_server.g2p.service.lanes import ConversionLane, ConversionOutcome, LaneText, run_phonemizer
from kokoro_server.languages import Language

if TYPE_CHECKING:
    from kokoro_server.g2p.service.phonemizers import Phonemizer

log = logging.getLogger(__name__)

WARMUP_TEXT = "The first text takes longer than the rest."
MANY_WORKERS = 4  # from which on one can be kept free of bulk
_REQUEST = struct.Struct("=QB")  # the text's number and that of its language; the text follows, in UTF-8
_REPLY = struct.Struct("=QBI")  # the text's number, whether it has failed, and how many bytes follow
_MAX_REQUEST = _REQUEST.size + 4 * schemas.MAX_TEXT_LENGTH


class Closeable(Protocol):
    def close(self) -> None: ...


class WorkerPool(ConversionLane):
    """Worker processes, forked with loaded `phonemizers`, whose memory they share. Each converts one text at a time.

    All of them read one socket, where a few texts are ahead: a free worker takes the next without this process, and no
    text is bound to a worker that is slow. Each answers through its own pipe, so that its end is noticed.

    The workers end when this process does, however that ends. If a worker ends by itself, this process ends too: its
    supervisor restarts it. The workers must close `inherited`, which a fork leaves open in them.
    """

    def __init__(self, count: int, phonemizers: Mapping[Language, Phonemizer], *inherited: Closeable) -> None:
        ahead = (count + 1) // 2
        super().__init__(room=count + ahead, kept_free=ahead + 1 if count >= MANY_WORKERS else 0)
        self.count = count
        self._languages = tuple(phonemizers)
        self._closed = False
        self._pipes: list[BinaryIO] = []
        self._transports: list[asyncio.ReadTransport] = []
        self._requests, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.setblocking(False)
        context = multiprocessing.get_context("fork")
        for number in range(count):
            reading, writing = os.pipe()
            self._pipes.append(os.fdopen(reading, "rb"))
            replies = os.fdopen(writing, "wb")
            arguments = requests, replies, phonemizers, (*inherited, self._requests, *self._pipes)
            context.Process(target=_serve, args=arguments, name=f"g2p-{number}", daemon=True).start()
            replies.close()
        requests.close()

    async def connect(self) -> None:
        """Call it in the event loop, before the first text."""
        for pipe in self._pipes:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(self._protocol, pipe)
            self._transports.append(transport)

    def close(self) -> None:
        self._closed = True
        self._requests.close()
        for transport in self._transports:
            transport.close()

    def _protocol(self) -> _Replies:
        return _Replies(self._finish, self._on_end)

    def _send(self, number: int, text: LaneText) -> bool:
        message = _REQUEST.pack(number, self._languages.index(text.language)) + text.text.encode()
        try:
            self._requests.send(message)
        except BlockingIOError:  # long texts fill the socket; there is room when one of them is taken
            return False
        except OSError:  # closed, or the last worker has ended
            text.batch.fail(_worker_has_ended())
            return False
        return True

    def _on_end(self) -> None:
        if not self._closed:
            log.error("a g2p worker has ended, and so does the service")
            os.kill(os.getpid(), signal.SIGTERM)
            self.close()
            self._fail_all(_worker_has_ended())


def _worker_has_ended() -> G2PUnavailable:
    return G2PUnavailable("a G2P worker has ended", retry_after=1.0)


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


def _serve(
    requests: socket.socket,
    replies: BinaryIO,
    phonemizers: Mapping[Language, Phonemizer],
    inherited: Sequence[Closeable],
) -> None:
    """Run a worker until the other end of the socket is closed, which happens when no process has it open any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C in the terminal is for the service
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for resource in inherited:
        resource.close()
    languages = tuple(phonemizers)
    for language in languages:  # the first text takes several times as long: memory that was shared is copied
        run_phonemizer(phonemizers[language], language, WARMUP_TEXT)
    while message := requests.recv(_MAX_REQUEST):
        number, index = _REQUEST.unpack_from(message)
        language = languages[index]
        outcome = run_phonemizer(phonemizers[language], language, message[_REQUEST.size :].decode())
        answer = outcome.encode() if isinstance(outcome, str) else outcome
        try:
            replies.write(_REPLY.pack(number, isinstance(outcome, str), len(answer)) + answer)
            replies.flush()
        except BrokenPipeError:
            return
