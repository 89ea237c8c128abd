from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from kokoro_server import errors
from kokoro_server.batching import FireReason, Outcome, Priority, Submission
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.protocol import STYLE_DIM, Pcm16, Result, Row
from kokoro_server.errors import KokoroError, SetupError
from kokoro_server.observability import tracing
from kokoro_server.server.ipc import wire
from kokoro_server.server.ipc.wire import Admit, EngineStatus, Frames, Greeting, MessageKind, OutcomeHead

random = np.random.default_rng(1)


def only(message: bytes) -> tuple[int, bytes]:
    [(kind, body)] = Frames().feed(message)
    return kind, body


def test_a_row_arrives_as_it_was_sent() -> None:
    style = random.normal(size=STYLE_DIM).astype(np.float32)
    row = Row((0, 177, 510), style, speed=1.1, pitch=-2.5, seed=2**63 - 1)
    sent = Submission(row, "af_bella(2)+af_sky(1)", Priority.BULK, 12.25, "@Ünïcode", runs_out=13.5)
    kind, body = only(wire.submit(7, sent, "de-kikiri"))
    number, (model, got) = wire.ID.unpack_from(body)[0], wire.read_submit(body)
    assert (kind, model) == (MessageKind.SUBMIT, "de-kikiri")
    assert (number, got.voice, got.priority, got.deadline, got.caller) == (
        7,
        sent.voice,
        Priority.BULK,
        12.25,
        "@Ünïcode",
    )
    assert (got.row.tokens, got.row.speed, got.row.pitch, got.row.seed) == (row.tokens, 1.1, -2.5, 2**63 - 1)
    assert np.array_equal(got.row.style, style)
    assert got.runs_out == 13.5


def test_a_row_without_tokens_arrives() -> None:
    sent = Submission(Row((), np.zeros(STYLE_DIM, np.float32)), "", Priority.NORMAL, 0.0, "")
    model, got = wire.read_submit(only(wire.submit(1, sent))[1])
    assert model == wire.OWN_MODEL
    assert (got.row.tokens, got.runs_out) == ((), -math.inf)


@pytest.mark.parametrize("pcm", [False, True])
def test_an_outcome_with_its_audio_inside(pcm: bool) -> None:
    audio = random.normal(size=1200).astype(np.float32)
    ready = Pcm16(np.arange(1200, dtype=np.int16), 0.75) if pcm else None
    outcome = Outcome(Result(audio, np.array([1, 0, 1]), ready), 1.5, 2.5, 3, FireReason.QUIET)
    kind, body = only(wire.outcome(9, outcome, None))
    head = OutcomeHead.decode(body)
    assert kind == MessageKind.OUTCOME
    assert (head.id, head.queue_ms, head.inference_ms, head.batch_size) == (9, 1.5, 2.5, 3)
    assert head.reason is FireReason.QUIET
    assert head.durations.tolist() == [1, 0, 1]
    assert head.durations.dtype == np.int64
    assert head.inline[:4800] == audio.tobytes()
    assert bool(head.audio & wire.PCM16) is pcm


def test_messages_are_cut_wherever_the_socket_cuts_them() -> None:
    sent = [wire.named(MessageKind.CANCEL, number, "x" * number) for number in range(20)]
    for size in (1, 3, 7, 1000):
        frames, got = Frames(), []
        stream = b"".join(sent)
        for start in range(0, len(stream), size):
            got += [
                (wire.ID.unpack_from(body)[0], wire.read_name(body))
                for _, body in frames.feed(stream[start : start + size])
            ]
        assert got == [(number, "x" * number) for number in range(20)]


def every_error() -> list[type[KokoroError]]:
    found = (each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, KokoroError))
    return [each for each in found if not issubclass(each, SetupError)]


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_every_error_keeps_its_kind(kind: type[KokoroError]) -> None:
    _, body = only(wire.failure(3, kind("what is wrong", field="text", retry_after=1.5)))
    error = wire.read_failure(body)
    assert type(error) is kind
    assert (error.message, error.field, error.retry_after) == ("what is wrong", "text", 1.5)


def test_what_is_no_error_for_clients_stays_in_the_log() -> None:
    _, body = only(wire.failure(3, RuntimeError("/secret/path")))
    assert type(wire.read_failure(body)) is KokoroError
    assert b"secret" not in body


def test_an_admission_arrives() -> None:
    for model in (wire.OWN_MODEL, "de-kikiri"):
        sent = Admit(17.5, Priority.BYPASS, "älice", True, model)
        _, body = only(sent.encode(5))
        assert wire.ID.unpack_from(body)[0] == 5
        assert Admit.decode(body) == sent


def test_only_a_row_that_is_traced_takes_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Span:
        carrier = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\nvendor=1"

    monkeypatch.setattr(tracing, "received", lambda carrier: carrier)
    row = Row((1, 2), np.zeros(STYLE_DIM, np.float32))
    plain = wire.submit(1, Submission(row, "af_heart", Priority.NORMAL, 0.0, "alice"))
    traced = wire.submit(1, Submission(row, "af_heart", Priority.NORMAL, 0.0, "alice", trace=Span()))  # type: ignore[arg-type]
    assert wire.read_submit(only(traced)[1])[1].trace == Span.carrier
    assert wire.read_submit(only(plain)[1])[1].trace == ""
    assert len(traced) == len(plain) + len(Span.carrier)


def test_a_greeting_arrives() -> None:
    model = ModelFacts(Path("voices"), "fp32", "path", devices=("cuda:0", "cuda:1"))
    status = EngineStatus(True, {"cuda:0": "healthy"}, 0.5, {"state": "loaded"}, Greeting(model, 64, {}))  # type: ignore[typeddict-item]
    kind, body = only(status.encode())
    assert kind == MessageKind.STATUS
    assert EngineStatus.decode(body) == status
    assert EngineStatus.decode(only(EngineStatus().encode())[1]) == EngineStatus()


def test_a_message_that_its_reader_fails_on_is_not_read_twice() -> None:
    frames, got = Frames(), list[bytes]()
    messages = [wire.frame(MessageKind.CANCEL, b"one"), wire.frame(MessageKind.CANCEL, b"two")]

    def read(data: bytes) -> None:
        for _, body in frames.feed(data):
            got.append(body)
            if body == b"one":
                raise ValueError

    with pytest.raises(ValueError):
        read(b"".join(messages))
    read(wire.frame(MessageKind.CANCEL, b"three"))
    assert got == [b"one", b"two", b"three"]
