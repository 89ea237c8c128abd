"""A front's queue and the engine process's, over a real socket and real shared memory; the engine is a double."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kokoro_server.batching import BatchingOptions, BatchQueue, Priority
from kokoro_server.callers.limits import CallerCounts
from kokoro_server.engine.facts import ModelFacts
from kokoro_server.engine.protocol import Pcm16, Result
from kokoro_server.errors import BadAudio, EngineUnavailable, Expired, RateLimited, TooBusy, TooManyAtOnce
from kokoro_server.server.ipc import client, server
from kokoro_server.server.ipc.audio_buffers import AudioBuffers
from kokoro_server.server.ipc.client import RemoteQueue, SharedLimits
from kokoro_server.server.ipc.server import IpcServer
from tests.batching.doubles import EchoEngine, make_engines, make_result, make_row, name_of, names
from tests.batching.test_idle_unloader import EchoModel

OPTIONS = BatchingOptions(max_queue_size=6)
PATIENCE = 10.0


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class Pair:
    """An engine process and its fronts, in one process."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "engine"
        self.engine = EchoEngine()
        self.fronts: list[RemoteQueue] = []
        self.buffer_bytes = 2**24

    async def start_engine(self, limits: CallerCounts | None = None, model: EchoModel | None = None) -> None:
        """A `model` is unloaded as soon as it is idle."""
        engines, options = (model.engines, replace(OPTIONS, idle_unload=0.05)) if model else ([self.engine], OPTIONS)
        self.queue = BatchQueue(engines, options, model=model)
        await self.queue.start()
        facts = ModelFacts(Path("voices"), "fp32", "path")
        self.server = IpcServer(
            self.queue, limits or CallerCounts(0, 0), facts, buffers=AudioBuffers(self.buffer_bytes)
        )
        self.server.start(self.path)

    async def stop_engine(self) -> None:
        self.engine.gate.set()
        await self.queue.stop()
        await self.server.stop()

    async def kill_engine(self) -> None:
        """As if it had been killed: nobody gets a last word."""
        self.path.unlink()
        for connection in list(self.server.connections):
            connection.abort()
        await until(lambda: not self.server.connections)
        await self.stop_engine()

    async def front(self) -> RemoteQueue:
        front = RemoteQueue(self.path, OPTIONS)
        self.fronts.append(front)
        await front.start()
        return front

    def shut(self) -> None:
        """Make the engine hang in its next call."""
        self.engine.gate.clear()
        self.engine.entered.clear()

    @property
    def waiting(self) -> int:
        size: int = self.queue.snapshot()["queue_status"]["current_size"]
        return size


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path)
    await pair.start_engine()
    yield pair
    for front in pair.fronts:
        await front.stop()
    await pair.stop_engine()


async def test_rows_of_two_fronts_share_a_batch(pair: Pair) -> None:
    one, two = await pair.front(), await pair.front()
    pair.queue.hold()
    tasks = [asyncio.create_task((one, two)[n % 2].submit(make_row(n), voice="af_heart")) for n in range(4)]
    await until(lambda: pair.waiting == 4)
    pair.queue.release()
    outcomes = await asyncio.gather(*tasks)
    assert names(outcomes) == [0, 1, 2, 3]
    assert {outcome.batch_size for outcome in outcomes} == {4}
    assert len(pair.engine.calls) == 1
    expected = make_result(make_row(3))
    assert np.array_equal(outcomes[3].result.audio, expected.audio)
    assert np.array_equal(outcomes[3].result.durations, expected.durations)
    await until(lambda: pair.server.buffers.used == 0)


async def test_ready_samples_come_along(pair: Pair) -> None:
    def with_pcm(results: list[Result]) -> list[Result]:
        return [Result(r.audio, r.durations, Pcm16(r.audio.astype(np.int16), 5.0)) for r in results]

    pair.engine.after = with_pcm
    outcome = await (await pair.front()).submit(make_row(4), voice="af_heart")
    assert outcome.result.pcm16 is not None
    assert set(outcome.result.pcm16.samples.tolist()) == {5}
    assert outcome.result.pcm16.peak == 5.0


async def test_without_room_in_shared_memory_audio_goes_through_the_socket(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.buffer_bytes = 4096
    await pair.start_engine()
    front = await pair.front()
    assert name_of((await front.submit(make_row(8), voice="af_heart")).result) == 8
    await front.stop()
    await pair.stop_engine()


async def test_a_row_that_is_cancelled_leaves_the_queue(pair: Pair) -> None:
    front = await pair.front()
    pair.queue.hold()
    task = asyncio.create_task(front.submit(make_row(1), voice="af_heart"))
    await until(lambda: pair.waiting == 1)
    task.cancel()
    await until(lambda: pair.waiting == 0)
    pair.queue.release()
    assert pair.engine.calls == []


async def test_a_row_cancelled_on_the_device_leaves_no_memory_taken(pair: Pair) -> None:
    front = await pair.front()
    pair.shut()
    task = asyncio.create_task(front.submit(make_row(1), voice="af_heart"))
    await until(pair.engine.entered.is_set)
    task.cancel()
    await asyncio.sleep(0.05)
    pair.engine.gate.set()
    assert name_of((await front.submit(make_row(2), voice="af_heart")).result) == 2
    await until(lambda: pair.server.buffers.used == 0)


async def test_a_deadline_holds_while_waiting(pair: Pair) -> None:
    front = await pair.front()
    pair.queue.hold()
    with pytest.raises(Expired, match="not started"):
        await front.submit(make_row(1), voice="af_heart", deadline=front.now() + 0.05)
    assert pair.waiting == 0


async def test_a_bad_row_fails_as_in_one_process(pair: Pair) -> None:
    pair.engine.after = lambda results: [Result(r.audio * np.nan, r.durations) for r in results]
    with pytest.raises(BadAudio, match="no usable audio"):
        await (await pair.front()).submit(make_row(1), voice="af_heart")


async def test_a_full_queue_refuses_what_comes_from_any_front(pair: Pair) -> None:
    one, two = await pair.front(), await pair.front()
    pair.queue.hold()
    tasks = [asyncio.create_task(one.submit(make_row(n), voice="af_heart")) for n in range(6)]
    await until(lambda: pair.waiting == 6)
    with pytest.raises(TooBusy, match="6 texts are waiting") as refused:
        async with two.admission():
            pytest.fail("was admitted")
    assert refused.value.retry_after
    pair.queue.release()
    await asyncio.gather(*tasks)


async def test_a_text_counts_as_on_its_way_while_it_is_read(pair: Pair) -> None:
    front = await pair.front()
    async with front.admission():
        assert pair.queue.snapshot()["queue_status"]["preparing"] == 1
    await until(lambda: pair.queue.snapshot()["queue_status"]["preparing"] == 0)


async def test_an_admission_cancelled_before_its_answer_is_given_back(pair: Pair) -> None:
    front = await pair.front()

    async def enter() -> None:
        async with front.admission():
            await asyncio.sleep(PATIENCE)

    task = asyncio.create_task(enter())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0.1)
    assert pair.queue.snapshot()["queue_status"]["preparing"] == 0


async def test_a_front_that_dies_takes_its_rows_and_admissions_along(pair: Pair) -> None:
    one, two = await pair.front(), await pair.front()
    pair.queue.hold()
    admission = one.admission()
    await admission.__aenter__()
    doomed = [asyncio.create_task(one.submit(make_row(n), voice="af_heart")) for n in range(2)]
    kept = asyncio.create_task(two.submit(make_row(9), voice="af_heart"))
    await until(lambda: pair.waiting == 3)
    await one.stop()
    await until(lambda: pair.waiting == 1)
    assert pair.queue.snapshot()["queue_status"]["preparing"] == 0
    for task in doomed:
        with pytest.raises(EngineUnavailable):
            await task
    with pytest.raises(EngineUnavailable):  # its link is gone: whoever comes out of it finds nobody
        await one.submit(make_row(1), voice="af_heart")
    pair.queue.release()
    assert name_of((await kept).result) == 9
    await admission.__aexit__(None, None, None)


async def test_when_the_engine_process_dies_rows_and_texts_wait_for_the_next(pair: Pair) -> None:
    front = await pair.front()
    pair.queue.hold()
    waiting = [asyncio.create_task(front.submit(make_row(n), voice="af_heart")) for n in range(3)]
    await until(lambda: pair.waiting == 3)
    await pair.kill_engine()
    await until(lambda: not front.ready and front.condition.current)
    assert front.alive
    assert (await front.state())["status"] == "unhealthy"
    hasty = front.submit(make_row(3), voice="af_heart", deadline=front.now() + 0.05)
    with pytest.raises(EngineUnavailable, match="restarted") as error:
        await hasty
    assert error.value.retry_after
    admission = front.admission()
    entering = asyncio.create_task(admission.__aenter__())
    leaving = asyncio.create_task(front.submit(make_row(9), voice="af_heart"))
    await asyncio.sleep(0)
    leaving.cancel()
    await pair.start_engine()
    await entering
    await admission.__aexit__(None, None, None)
    assert names(await asyncio.gather(*waiting)) == [0, 1, 2]
    assert front.ready
    assert front.condition.current is None
    assert sum(map(len, pair.engine.calls)) == 3  # the hasty one and the one that has left are not spoken
    assert (await front.state())["status"] == "healthy"


async def test_a_row_that_ends_one_engine_process_after_the_other_is_given_up(pair: Pair) -> None:
    front = await pair.front()
    poison = asyncio.create_task(front.submit(make_row(1), voice="af_heart"))
    for _ in range(client.MAX_SENDS):
        pair.queue.hold()
        await until(lambda: pair.waiting == 1)
        await pair.kill_engine()
        await pair.start_engine()
        pair.queue.hold()
        await until(lambda: front.ready)
    with pytest.raises(EngineUnavailable):
        await poison


async def test_no_more_texts_wait_for_an_engine_process_than_for_a_device(pair: Pair) -> None:
    front = await pair.front()
    await pair.kill_engine()
    await until(lambda: not front.ready)
    waiting = [asyncio.create_task(front.submit(make_row(n), voice="af_heart")) for n in range(OPTIONS.max_queue_size)]
    await asyncio.sleep(0)
    with pytest.raises(TooBusy, match="6 texts and rows wait"):
        async with front.admission():
            pytest.fail("was admitted")
    await pair.start_engine()
    assert len(await asyncio.gather(*waiting)) == OPTIONS.max_queue_size


async def test_a_long_text_keeps_few_pieces_in_the_queue(pair: Pair) -> None:
    front = await pair.front()
    pair.queue.hold()
    taken = []

    async def read() -> None:
        ticket = front.ticket(ahead=3)
        rows = (make_row(n) for n in range(10))
        async with aclosing(front.submit_all(rows, voice="af_heart", ticket=ticket)) as outcomes:
            async for outcome in outcomes:
                taken.append(name_of(outcome.result))
                if len(taken) == 1:
                    stalled.set()
                    await go_on.wait()

    stalled, go_on = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(read())
    await until(lambda: pair.waiting == 3)
    pair.queue.release()
    await stalled.wait()
    await asyncio.sleep(0.2)
    assert sum(map(len, pair.engine.calls)) <= 4  # a slow reader holds up its own pieces alone
    assert name_of((await front.submit(make_row(99), voice="af_heart")).result) == 99
    go_on.set()
    await task
    assert taken == list(range(10))


async def test_limits_of_a_caller_hold_over_all_fronts(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    await pair.start_engine(CallerCounts(per_minute=3, at_once=2))
    one, two = [SharedLimits(await pair.front(), limited=True) for _ in range(2)]
    await one.enter("alice")
    leave = await two.enter("alice")
    with pytest.raises(TooManyAtOnce):
        await one.enter("alice")
    leave()
    await until(lambda: pair.server.limits._running["alice"] == 1)
    (await one.enter("alice"))()
    with pytest.raises(RateLimited):
        await two.enter("alice")
    await two.enter("bob")
    await pair.fronts[0].stop()  # what it had entered is free again
    await until(lambda: not pair.server.limits._running["alice"])
    await pair.fronts[1].stop()
    await pair.stop_engine()


async def test_status_follows_the_engine(pair: Pair) -> None:
    front = await pair.front()
    assert front.ready
    assert front.device_states() == {"double": "healthy"}
    assert front.max_rows == pair.queue.max_rows
    assert math.isclose(front.now(), pair.queue.now(), abs_tol=1.0)
    await pair.queue.stop()
    await until(lambda: not front.ready)
    with pytest.raises(EngineUnavailable):
        await front.submit(make_row(1), voice="af_heart", priority=Priority.BULK)


async def test_a_front_that_dies_while_it_connects_keeps_no_other_one_out(pair: Pair) -> None:
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as doomed:
            doomed.connect(str(pair.path))
    async with asyncio.timeout(PATIENCE):
        front = await pair.front()
    assert name_of((await front.submit(make_row(3), voice="af_heart")).result) == 3


async def test_who_enters_and_goes_before_the_answer_counts_no_longer(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    await pair.start_engine(CallerCounts(per_minute=0, at_once=1))
    limits = SharedLimits(await pair.front(), limited=True)
    task = asyncio.create_task(limits.enter("alice"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    leave = await limits.enter("alice")
    with pytest.raises(TooManyAtOnce):
        await limits.enter("alice")
    leave()
    await pair.fronts[0].stop()
    await pair.stop_engine()


async def test_who_had_entered_before_a_restart_leaves_no_place_to_others(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    await pair.start_engine(CallerCounts(per_minute=0, at_once=1))
    front = await pair.front()
    limits = SharedLimits(front, limited=True)
    leave = await limits.enter("alice")
    await pair.stop_engine()
    await until(lambda: not front.ready)
    await pair.start_engine(CallerCounts(per_minute=0, at_once=1))
    await until(lambda: front.ready)
    await limits.enter("alice")
    leave()  # a WebSocket, say, that has outlived the engine process
    with pytest.raises(TooManyAtOnce):
        await limits.enter("alice")
    await front.stop()
    await pair.stop_engine()


async def test_a_row_without_a_limit_waits_for_an_engine_process_that_hangs_as_long_as_bulk(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "WATCH_INTERVAL", 0.02)
    front = await pair.front()
    front.options = replace(OPTIONS, job_timeout=0.2)
    pair.queue.hold()
    waiting = asyncio.create_task(front.submit(make_row(1), voice="af_heart"))
    await until(lambda: pair.waiting == 1)
    (connection,) = pair.server.connections
    monkeypatch.setattr(connection, "send", lambda _message: None)
    with pytest.raises(Expired, match="does not answer"):
        await waiting


async def test_deadlines_hold_while_the_engine_process_hangs(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "WATCH_INTERVAL", 0.02)
    front = await pair.front()
    pair.queue.hold()
    deadline = front.now() + 0.3
    waiting = asyncio.create_task(front.submit(make_row(1), voice="af_heart", deadline=deadline))
    patient = asyncio.create_task(front.submit(make_row(2), voice="af_heart"))
    await until(lambda: pair.waiting == 2)
    (connection,) = pair.server.connections
    assert connection._transport
    connection._transport.pause_reading()  # as when it is stopped: it neither hears nor says anything
    with monkeypatch.context() as hung:
        hung.setattr(connection, "send", lambda _message: None)
        with pytest.raises(Expired, match="does not answer"):
            await waiting
        with pytest.raises(Expired, match="does not answer"):
            async with front.admission(front.ticket(deadline=front.now() + 0.1)):
                pytest.fail("was admitted")
        assert not front.ready
        assert front.device_states() == {"double": "lost"}
        assert front.condition.current
    connection._transport.resume_reading()
    pair.queue.release()
    assert name_of((await patient).result) == 2
    await until(lambda: front.ready and not front.condition.current)
    await until(lambda: pair.server.buffers.used == 0)


async def test_whoever_leaves_at_whatever_moment_leaves_nothing_behind(pair: Pair) -> None:
    one, two = await pair.front(), await pair.front()
    chance = random.Random(5)

    async def visit(number: int) -> None:
        front = chance.choice((one, two))
        with contextlib.suppress(TimeoutError, TooBusy):
            async with asyncio.timeout(chance.random() * 0.05):
                async with front.admission():
                    await asyncio.sleep(chance.random() * 0.01)
                await front.submit(make_row(number), voice="af_heart")

    for start in range(0, 200, 20):
        await asyncio.gather(*(visit(number) for number in range(start, start + 20)))
    for front in (one, two):
        assert name_of((await front.submit(make_row(7), voice="af_heart")).result) == 7
        await until(lambda front=front: not front._waiting)  # type: ignore[misc]
    await until(lambda: pair.server.buffers.used == 0)
    state = pair.queue.snapshot()["queue_status"]
    assert (pair.waiting, state["preparing"], state["callers"]) == (0, 0, 0)
    for connection in pair.server.connections:
        assert not connection._rows and not connection._admissions and not connection._blocks  # noqa: PT018


async def test_a_front_that_dies_with_audio_in_its_hands_takes_no_memory_along(pair: Pair) -> None:
    front = await pair.front()
    assert front._connection
    front._connection._release = lambda _offset: None  # type: ignore[method-assign]
    await front.submit(make_row(1), voice="af_heart")
    assert pair.server.buffers.used
    await front.stop()
    await until(lambda: pair.server.buffers.used == 0)


async def test_whoever_is_told_of_a_lost_device_sees_it_lost(pair: Pair) -> None:
    def lose(_rows: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    front = await pair.front()
    pair.engine.before = lose
    with pytest.raises(EngineUnavailable):
        await front.submit(make_row(1), voice="af_heart")
    assert front.device_states() == {"double": "lost"}
    assert not front.ready


async def test_a_worker_that_never_reads_does_not_keep_the_engine_process_from_ending(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STOP_GRACE", 0.05)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf:
        deaf.connect(str(pair.path))
        await until(lambda: pair.server.connections)
        [connection] = pair.server.connections
        connection.send(bytes(2**24))  # more than the socket takes
        async with asyncio.timeout(PATIENCE):
            await pair.server.stop()
    assert not pair.server.connections
    await pair.queue.stop()
    await pair.start_engine()  # for the end of the test


async def test_buffers_of_a_connection_that_ended_hold_no_other_audio_yet(pair: Pair) -> None:
    one, two = await pair.front(), await pair.front()
    assert one._connection
    one._connection._release = lambda _offset: None  # type: ignore[method-assign]
    await one.submit(make_row(1), voice="af_heart")
    (block,) = pair.server.buffers._taken
    await one.stop()
    await until(lambda: len(pair.server.connections) == 1)
    places = []
    put = pair.server.buffers.put
    pair.server.buffers.put = lambda result: places.append(put(result)) or places[-1]  # type: ignore[method-assign,func-returns-value]
    await two.submit(make_row(2), voice="af_heart")
    assert block not in places


async def test_a_front_waits_for_a_model_that_was_unloaded(pair: Pair) -> None:
    await pair.stop_engine()
    model = EchoModel(lambda: make_engines(1))
    await pair.start_engine(model=model)
    front = await pair.front()
    await until(lambda: front.model_state()["state"] == "unloaded")
    assert front.ready
    model.gate.clear()
    async with front.admission():
        outcome = asyncio.create_task(front.submit(make_row(7), voice="af_heart"))
        await until(lambda: front.model_state()["state"] == "loading")
    assert front.ready
    model.gate.set()
    assert names([await outcome]) == [7]
    assert (await front.state())["model"]["loads"] == 1
    await until(lambda: front.model_state()["unloads"] == 2)
