"""Clients for `serve_bench`: plain sockets, several processes, every answer read to its end and checked."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from benchmarks.serving.prose import sentence
from kokoro_server.audio.audible import first_audible

SAMPLE_BYTES = 2
SAMPLE_RATE = 24_000
WAV_HEADER = 44  # bytes
LENGTH_TOLERANCE = 0.5  # of the length by the number of characters; voices differ in their pace
PAUSE, PER_CHARACTER = 0.6, 0.06  # seconds of a sentence's speech: at its ends, and for each character
READ = 1 << 18
APART = 1.0  # seconds within which listeners begin

Mode = Literal["closed", "listeners", "poisson"]


@dataclass(frozen=True, slots=True)
class Question:
    """What a client sends, and how long the audio should be (0: not known)."""

    body: dict[str, object]
    seconds: float = 0.0


def question(number: int, path: str, voices: Sequence[str], *, known_pace: bool) -> Question:
    """The sentence of that number, to an endpoint; no two numbers ask for the same."""
    text, voice = sentence(number), voices[number % len(voices)]
    seconds = PAUSE + PER_CHARACTER * len(text) if known_pace else 0.0
    if path == "/v1/audio/speech":
        return Question({"input": text, "voice": voice, "response_format": "wav"}, seconds)
    return Question({"text": text, "voice": voice}, seconds)


@dataclass(frozen=True, slots=True)
class Load:
    """What one process does. Times are on the system's monotonic clock; `rate` is in requests a second.

    It asks for every `stride`th sentence from number `first` on, each once.
    """

    url: str
    path: str
    voices: Sequence[str]
    first: int
    stride: int
    known_pace: bool
    mode: Mode
    clients: int
    rate: float
    begin: float
    end: float
    seed: int

    def questions(self) -> Iterator[Question]:
        for number in itertools.count(self.first, self.stride):
            yield question(number, self.path, self.voices, known_pace=self.known_pace)


@dataclass(frozen=True, slots=True)
class Answer:
    asked: float
    first: float
    ended: float
    seconds: float  # of audio
    fault: str = ""
    server_ms: Mapping[str, float] = field(default_factory=dict)  # by the steps that the server tells
    audible: float | None = None  # when the first sound is heard, if the audio is played from its first byte on


class Fault(Exception):
    """An answer that must not count."""


class Stale(Exception):
    """The server had closed the connection, as it does with one that was idle for a while."""


class Connection:
    """One at a time; opened when first needed, and again after a fault or when it has become stale."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, question: Question, asked: float) -> Answer:
        try:
            try:
                return await self._ask(path, question, asked)
            except Stale:
                self.close()
                return await self._ask(path, question, asked)
        except (Fault, OSError, ValueError, asyncio.IncompleteReadError) as error:
            self.close()
            now = time.monotonic()
            return Answer(asked, now, now, 0.0, f"{type(error).__name__}: {error}"[:200])

    def close(self) -> None:
        if self._streams:
            self._streams[1].close()
            self._streams = None

    async def _ask(self, path: str, question: Question, asked: float) -> Answer:
        used = self._streams is not None
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, limit=2 * READ)
        reader, writer = self._streams
        body = json.dumps(question.body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        writer.write(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        try:
            status, headers = _head(await reader.readuntil(b"\r\n\r\n"))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            if used and not getattr(error, "partial", b""):
                raise Stale from error
            raise
        counted = Counted()
        if headers.get("transfer-encoding") == "chunked":
            while size := int(await reader.readline(), 16):
                await counted.read(reader, size)
                await reader.readexactly(2)
            await reader.readexactly(2)
        else:
            await counted.read(reader, int(headers["content-length"]))
        ended = time.monotonic()
        if status != 200:
            raise Fault(f"status {status} {counted.beginning.decode(errors='replace')}")
        seconds = (counted.size - WAV_HEADER) / SAMPLE_BYTES / SAMPLE_RATE
        _check(seconds, headers, question)
        place = first_audible(counted.samples())
        audible = None if place is None else counted.first + place / SAMPLE_RATE
        server_ms = _server_ms(headers.get("server-timing", ""))
        return Answer(asked, counted.first, ended, seconds, server_ms=server_ms, audible=audible)


class Counted:
    """A body, how it begins, and when the first sample behind the WAV header came."""

    def __init__(self) -> None:
        self.size = 0
        self.first = 0.0
        self.beginning = b""
        self._parts: list[bytes] = []

    def samples(self) -> NDArray[np.int16]:
        data = b"".join(self._parts)[WAV_HEADER:]
        return np.frombuffer(data, "<i2", len(data) // SAMPLE_BYTES)

    async def read(self, reader: asyncio.StreamReader, size: int) -> None:
        while size:
            data = await reader.read(min(size, READ))
            if not data:
                raise Fault(f"ended {size} bytes too early")
            size -= len(data)
            self.beginning = self.beginning or data[:150]
            self.size += len(data)
            self._parts.append(data)
            if not self.first and self.size > WAV_HEADER:
                self.first = time.monotonic()


def _head(data: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = data.decode("latin-1").rstrip().split("\r\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = ",".join([*filter(None, [headers.get(name.lower())]), value.strip()])
    return int(first.split(" ", 2)[1]), headers


def _server_ms(header: str) -> dict[str, float]:
    steps = (step.strip().partition(";dur=") for step in header.split(",") if ";dur=" in step)
    return {name: float(duration) for name, _, duration in steps}


def _check(seconds: float, headers: dict[str, str], question: Question) -> None:
    if seconds <= 0:
        raise Fault("no audio")
    told = headers.get("x-audio-duration")
    if told and abs(float(told) - seconds) > 0.001:
        raise Fault(f"{seconds:.3f} s of audio, {told} announced")
    if question.seconds and abs(seconds / question.seconds - 1) > LENGTH_TOLERANCE:
        raise Fault(f"{seconds:.3f} s of audio where {question.seconds:.3f} are right")


def run(load: Load) -> list[Answer]:
    """The answers, in the order in which they ended."""
    with contextlib.suppress(ImportError):
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(load))
    return asyncio.run(_run(load))


async def _run(load: Load) -> list[Answer]:
    answers: list[Answer] = []
    questions = load.questions()
    await asyncio.sleep(load.begin - time.monotonic())
    if load.mode != "poisson":
        await asyncio.gather(*(_closed(load, questions, answers, number) for number in range(load.clients)))
    else:
        await _poisson(load, questions, answers)
    return answers


async def _closed(load: Load, questions: Iterator[Question], answers: list[Answer], number: int) -> None:
    """One client: the next question as soon as the last is answered; a listener's, when the answer has been played."""
    connection = Connection(load.url)
    listens = load.mode == "listeners"
    await asyncio.sleep(listens * APART * number / load.clients)
    while (now := time.monotonic()) < load.end:
        answer = await connection.ask(load.path, next(questions), now)
        answers.append(answer)
        if listens:
            await asyncio.sleep(min(answer.first + answer.seconds, load.end) - time.monotonic())
    connection.close()


async def _poisson(load: Load, questions: Iterator[Question], answers: list[Answer]) -> None:
    """Arrivals that do not wait for answers. The time an arrival was due is when it counts as asked."""
    idle: deque[Connection] = deque()
    random_ = random.Random(load.seed)

    async def arrive(question: Question, due: float) -> None:
        connection = idle.pop() if idle else Connection(load.url)
        answers.append(await connection.ask(load.path, question, due))
        idle.append(connection)

    async with asyncio.TaskGroup() as group:
        due = load.begin + random_.expovariate(load.rate)
        while due < load.end:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            group.create_task(arrive(next(questions), due))
            due += random_.expovariate(load.rate)
    for connection in idle:
        connection.close()
