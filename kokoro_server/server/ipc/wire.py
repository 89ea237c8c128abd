"""The messages between a front and the engine process: a header, fixed fields, then what has no fixed length."""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kokoro_server import errors
from kokoro_server.batching.entry import FireReason, Outcome, Priority
from kokoro_server.engine.protocol import STYLE_DIM, Row
from kokoro_server.errors import KokoroError, for_client

HEADER = struct.Struct("<IB")  # bytes of the body, kind
ID = struct.Struct("<Q")  # of a request, or the place of a block of memory
ROW = struct.Struct("<QdddqHHHB")  # id, deadline, speed, pitch, seed, tokens, bytes of voice and caller, priority
ADMIT = struct.Struct("<QdBB")  # id, deadline, priority, whether another text of its job was admitted
OUTCOME = struct.Struct("<QddIBIIQBd")  # id, times, rows, reason, durations, samples, offset, which audio, peak
REASONS = tuple(FireReason)
STYLE_BYTES = STYLE_DIM * 4
PCM16, INLINE = 1, 2  # whether an outcome has 16-bit samples too, and whether its audio is in the message
ERRORS = {each.__name__: each for each in vars(errors).values() if isinstance(each, type)}


class MessageKind(IntEnum):
    """What a message is. The first ones are a front's, the others the engine process's."""

    SUBMIT = 1
    CANCEL = 2
    RELEASE = 3
    ADMIT = 4
    ARRIVED = 5
    ENTER = 6
    COUNT = 7
    LEAVE = 8
    ASK_STATE = 9
    REFRESH = 10  # show on the board what is true now; goes on to all other fronts
    OUTCOME = 20
    FAILURE = 21
    DONE = 22
    STATE = 23
    STATUS = 24


class Frames:
    """Cuts what a socket gives into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) >= start + HEADER.size:
            length, kind = HEADER.unpack_from(buffer, start)
            end = start + HEADER.size + length
            if len(buffer) < end:
                break
            yield kind, bytes(buffer[start + HEADER.size : end])
            start = end
        del buffer[:start]


def frame(kind: MessageKind, *body: bytes) -> bytes:
    return b"".join((HEADER.pack(sum(map(len, body)), kind), *body))


@dataclass(frozen=True, slots=True)
class Submission:
    """A row on its way to the queue."""

    id: int
    row: Row
    voice: str
    priority: Priority
    deadline: float
    caller: str
    trace: str = ""  # the `carrier` of the span that it is part of, if it is traced

    def encode(self) -> bytes:
        row, voice, caller = self.row, self.voice.encode(), self.caller.encode()
        fixed = ROW.pack(
            self.id,
            self.deadline,
            row.speed,
            row.pitch,
            row.seed,
            len(row.tokens),
            len(voice),
            len(caller),
            self.priority,
        )
        tokens, style, trace = array("H", row.tokens).tobytes(), row.style.tobytes(), self.trace.encode()
        return frame(MessageKind.SUBMIT, fixed, tokens, style, voice, caller, trace)

    @classmethod
    def decode(cls, body: bytes) -> Submission:
        number, deadline, speed, pitch, seed, tokens, voice, caller, priority = ROW.unpack_from(body)
        style = ROW.size + 2 * tokens
        text = style + STYLE_BYTES
        ids = array("H", body[ROW.size : style])
        row = Row(tuple(ids), np.frombuffer(body, np.float32, STYLE_DIM, style), speed, pitch, seed)
        named, owner = body[text : text + voice].decode(), body[text + voice : text + voice + caller].decode()
        trace = body[text + voice + caller :].decode()
        return cls(number, row, named, Priority(priority), deadline, owner, trace)


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeHead:
    """All of an outcome but its audio, which is at `offset` of the shared memory, or `inline` in the message."""

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
    def of(cls, number: int, outcome: Outcome, offset: int | None) -> OutcomeHead:
        """Without an `offset` the audio is in the message."""
        result = outcome.result
        audio = (PCM16 if result.pcm16 else 0) | (INLINE if offset is None else 0)
        inline = b""
        if offset is None:
            inline = result.audio.tobytes() + (result.pcm16.samples.tobytes() if result.pcm16 else b"")
        return cls(
            number,
            outcome.queue_ms,
            outcome.inference_ms,
            outcome.batch_size,
            outcome.fire_reason,
            result.durations,
            len(result.audio),
            offset or 0,
            audio,
            result.pcm16.peak if result.pcm16 else 0.0,
            inline,
        )

    def encode(self) -> bytes:
        fixed = OUTCOME.pack(
            self.id,
            self.queue_ms,
            self.inference_ms,
            self.batch_size,
            REASONS.index(self.reason),
            len(self.durations),
            self.samples,
            self.offset,
            self.audio,
            self.peak,
        )
        return frame(MessageKind.OUTCOME, fixed, self.durations.astype(np.int32).tobytes(), self.inline)

    @classmethod
    def decode(cls, body: bytes) -> OutcomeHead:
        number, queue, inference, rows, reason, count, samples, offset, audio, peak = OUTCOME.unpack_from(body)
        durations = np.frombuffer(body, np.int32, count, OUTCOME.size).astype(np.int64)
        inline = body[OUTCOME.size + 4 * count :]
        return cls(number, queue, inference, rows, REASONS[reason], durations, samples, offset, audio, peak, inline)


def failure(number: int, error: BaseException) -> bytes:
    told = for_client(error)
    fields = {"type": type(told).__name__, "message": told.message, "field": told.field, "retry": told.retry_after}
    return frame(MessageKind.FAILURE, ID.pack(number), json.dumps(fields).encode())


def read_failure(body: bytes) -> KokoroError:
    fields = json.loads(body[ID.size :])
    kind = ERRORS.get(fields["type"], KokoroError)
    error: KokoroError = kind(fields["message"], field=fields["field"], retry_after=fields["retry"])
    return error


def admit(number: int, deadline: float, priority: Priority, caller: str, *, admitted: bool) -> bytes:
    return frame(MessageKind.ADMIT, ADMIT.pack(number, deadline, priority, admitted), caller.encode())


def read_admit(body: bytes) -> tuple[int, float, Priority, bool, str]:
    number, deadline, priority, admitted = ADMIT.unpack_from(body)
    return number, deadline, Priority(priority), bool(admitted), body[ADMIT.size :].decode()


def named(kind: MessageKind, number: int, name: str = "") -> bytes:
    """A message of a number, and of a name where the kind has one."""
    return frame(kind, ID.pack(number), name.encode())


def read_named(body: bytes) -> tuple[int, str]:
    return ID.unpack_from(body)[0], body[ID.size :].decode()


def document(kind: MessageKind, number: int, value: dict[str, Any]) -> bytes:
    return frame(kind, ID.pack(number), json.dumps(value).encode())


def read_document(body: bytes) -> tuple[int, dict[str, Any]]:
    return ID.unpack_from(body)[0], json.loads(body[ID.size :])
