"""The messages between an API worker and the engine process: a header, fixed fields, then fields of any length."""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from itertools import accumulate
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kokoro_server import errors
from kokoro_server.batching.entry import FireReason, Outcome, Priority, Submission
from kokoro_server.batching.state import ModelSnapshot, QueueSnapshot
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.protocol import STYLE_DIM, Row
from kokoro_server.errors import KokoroError, for_client
from kokoro_server.observability import tracing

HEADER = struct.Struct("<IB")  # bytes of the body, kind
ID = struct.Struct("<Q")  # of a request, or the offset of an audio buffer
# id, deadline, when the audio before it runs out, speed, pitch, seed, tokens, bytes of voice, of caller and of model,
# priority
ROW = struct.Struct("<QddddqHHHBB")
# id, deadline, priority, whether another text of its ticket was admitted, bytes of the model
ADMIT = struct.Struct("<QdBBB")
OWN_MODEL = ""  # the server's own; others have the names of their folders
OUTCOME = struct.Struct("<QddIBIIQBd")  # id, times, rows, reason, durations, samples, offset, which audio, peak
REASONS = tuple(FireReason)
STYLE_BYTES = STYLE_DIM * 4
PCM16, INLINE = 1, 2  # flags: the outcome has 16-bit samples too; its audio is in the message
# Errors cross the socket by the name of their class.
ERRORS = {each.__name__: each for each in vars(errors).values() if isinstance(each, type)}


class MessageKind(IntEnum):
    """API workers send SUBMIT to REFRESH. The engine process sends OUTCOME to STATUS, and passes REFRESH on."""

    SUBMIT = 1
    CANCEL = 2  # of a row
    RELEASE = 3  # of an audio buffer
    ADMIT = 4
    ARRIVED = 5  # the end of an admission
    ENTER = 6  # of a request into its caller's limits
    COUNT = 7  # of an attempt with a wrong key
    LEAVE = 8
    ASK_STATE = 9
    REFRESH = 10  # publish the shared state now; goes on to all other API workers
    OUTCOME = 20
    FAILURE = 21
    DONE = 22  # answers ADMIT, ENTER and COUNT; FAILURE does so if they are refused
    STATE = 23
    STATUS = 24


class Frames:
    """Cuts the bytes from a socket into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yields each message once, also if the caller fails on one; the next call then goes on after that one."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= HEADER.size:
            length, kind = HEADER.unpack_from(buffer)
            end = HEADER.size + length
            if len(buffer) < end:
                break
            body = bytes(buffer[HEADER.size : end])
            del buffer[:end]  # moves nothing
            yield kind, body


def frame(kind: MessageKind, *body: bytes) -> bytes:
    return b"".join((HEADER.pack(sum(map(len, body)), kind), *body))


def submit(number: int, submission: Submission, model: str = OWN_MODEL) -> bytes:
    """Packs all fields but `detached`: the API worker gets a copy of the audio in any case."""
    row, names = submission.row, [name.encode() for name in (submission.voice, submission.caller, model)]
    times, sizes = (submission.deadline, submission.runs_out), (len(row.tokens), *map(len, names))
    fixed = ROW.pack(number, *times, row.speed, row.pitch, row.seed, *sizes, submission.priority)
    trace = b"" if submission.trace is None else submission.trace.carrier.encode()
    return frame(MessageKind.SUBMIT, fixed, array("H", row.tokens).tobytes(), row.style.tobytes(), *names, trace)


def read_submit(body: bytes) -> tuple[str, Submission]:
    """The model, and the row for it."""
    _, deadline, runs_out, speed, pitch, seed, tokens, *sizes, priority = ROW.unpack_from(body)
    style = ROW.size + 2 * tokens
    voice, caller, model, trace = accumulate(sizes, initial=style + STYLE_BYTES)
    ids = array("H", body[ROW.size : style])
    row = Row(tuple(ids), np.frombuffer(body, np.float32, STYLE_DIM, style), speed, pitch, seed)
    submission = Submission(
        row,
        body[voice:caller].decode(),
        Priority(priority),
        deadline,
        body[caller:model].decode(),
        trace=tracing.received(body[trace:].decode()),
        runs_out=runs_out,
    )
    return body[model:trace].decode(), submission


def outcome(number: int, outcome: Outcome, offset: int | None) -> bytes:
    """`offset` is that of the audio in the shared memory. Without it the audio is in the message."""
    result = outcome.result
    pcm16 = result.pcm16
    how = outcome.queue_ms, outcome.inference_ms, outcome.batch_size, REASONS.index(outcome.fire_reason)
    flags = (PCM16 if pcm16 else 0) | (INLINE if offset is None else 0)
    peak = pcm16.peak if pcm16 else 0.0
    fixed = OUTCOME.pack(number, *how, len(result.durations), len(result.audio), offset or 0, flags, peak)
    inline = b""
    if offset is None:
        inline = result.audio.tobytes() + (pcm16.samples.tobytes() if pcm16 else b"")
    return frame(MessageKind.OUTCOME, fixed, result.durations.astype(np.int32).tobytes(), inline)


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeHead:
    """An outcome without its audio, which is at `offset` of the shared memory, or `inline` in the message."""

    id: int
    queue_ms: float
    inference_ms: float
    batch_size: int
    reason: FireReason
    durations: NDArray[np.int64]
    samples: int
    offset: int
    audio: int  # PCM16, INLINE
    peak: float
    inline: bytes = b""

    @classmethod
    def decode(cls, body: bytes) -> OutcomeHead:
        number, queue, inference, rows, reason, count, samples, offset, audio, peak = OUTCOME.unpack_from(body)
        durations = np.frombuffer(body, np.int32, count, OUTCOME.size).astype(np.int64)
        inline = body[OUTCOME.size + 4 * count :]
        return cls(number, queue, inference, rows, REASONS[reason], durations, samples, offset, audio, peak, inline)


def failure(number: int, error: BaseException) -> bytes:
    shown = for_client(error)
    fields = {"type": type(shown).__name__, "message": shown.message, "field": shown.field, "retry": shown.retry_after}
    return frame(MessageKind.FAILURE, ID.pack(number), json.dumps(fields).encode())


def read_failure(body: bytes) -> KokoroError:
    fields = json.loads(body[ID.size :])
    kind = ERRORS.get(fields["type"], KokoroError)
    error: KokoroError = kind(fields["message"], field=fields["field"], retry_after=fields["retry"])
    return error


@dataclass(frozen=True, slots=True)
class Admit:
    """A text of the caller that is to be let in, by the queue of the model."""

    deadline: float
    priority: Priority
    caller: str
    admitted: bool  # whether another text of its ticket was
    model: str = OWN_MODEL

    def encode(self, number: int) -> bytes:
        model = self.model.encode()
        fixed = ADMIT.pack(number, self.deadline, self.priority, self.admitted, len(model))
        return frame(MessageKind.ADMIT, fixed, model, self.caller.encode())

    @classmethod
    def decode(cls, body: bytes) -> Admit:
        _, deadline, priority, admitted, size = ADMIT.unpack_from(body)
        caller = ADMIT.size + size
        model = body[ADMIT.size : caller].decode()
        return cls(deadline, Priority(priority), body[caller:].decode(), bool(admitted), model)


def named(kind: MessageKind, number: int, name: str = "") -> bytes:
    """A message of a number, and of a name where the kind has one."""
    return frame(kind, ID.pack(number), name.encode())


def read_name(body: bytes) -> str:
    return body[ID.size :].decode()


def state(number: int, snapshot: QueueSnapshot) -> bytes:
    return frame(MessageKind.STATE, ID.pack(number), json.dumps(snapshot).encode())


def read_state(body: bytes) -> QueueSnapshot:
    return cast(QueueSnapshot, json.loads(body[ID.size :]))


@dataclass(frozen=True, slots=True)
class Greeting:
    """The facts that an API worker needs before its first request; sent once, when it connects."""

    model: ModelFacts
    max_rows: int
    snapshot: QueueSnapshot


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """Of a model of MODELS_PATH."""

    identity: str  # of its folder, as the engine process has read it
    ready: bool
    state: str
    max_rows: int
    real_time_factor: float | None
    devices: dict[str, str]


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """Sent twice a second, as a sign of life, and after a failure."""

    ready: bool = False
    devices: dict[str, str] = field(default_factory=dict)
    real_time_factor: float | None = None
    model: ModelSnapshot = field(default_factory=lambda: ModelSnapshot(state="unloaded"))
    greeting: Greeting | None = None
    models: dict[str, ModelStatus] = field(default_factory=dict)  # of MODELS_PATH

    def encode(self) -> bytes:
        return frame(MessageKind.STATUS, json.dumps(asdict(self), default=str).encode())  # a Path becomes a str

    @classmethod
    def decode(cls, body: bytes) -> EngineStatus:
        fields: dict[str, Any] = json.loads(body)
        fields["models"] = {name: ModelStatus(**status) for name, status in fields["models"].items()}
        if greeting := fields.pop("greeting"):
            model = ModelFacts.from_json(greeting.pop("model"))
            return cls(**fields, greeting=Greeting(model, **greeting))
        return cls(**fields)
