from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial

import pytest

from kokoro_server.errors import G2PUnavailable
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.observability.metrics import Metrics
from kokoro_server.observability.siblings import Cell
from kokoro_server.server.ipc.shared_state import (
    ENGINE,
    FIRST_WORKER,
    HEAD,
    SUPERVISOR,
    TEXT_BYTES,
    ProcessSlot,
    SharedState,
)
from kokoro_server.server.ipc.siblings import Publisher, SharedG2P, SharedSiblings, retire


@pytest.fixture
def board():
    board = SharedState.create(4)
    yield board
    board.close()


def test_what_was_published_last_is_read(board: SharedState) -> None:
    assert board.slots[1].read() == {}
    for number in range(5):
        board.slots[1].publish({"number": number})
        assert board.slots[1].read() == {"number": number}
    assert board.slots[2].read() == {}


def test_too_much_is_refused_and_the_old_stays(board: SharedState) -> None:
    board.slots[0].publish({"a": 1})
    with pytest.raises(ValueError, match="too many"):
        board.slots[0].publish({"a": "x" * TEXT_BYTES})
    assert board.slots[0].read() == {"a": 1}


def test_another_process_reads_it(board: SharedState) -> None:
    board.slots[3].publish({"text": "çà"})
    board.slots[3].cells[1] = -5
    code = (
        "import sys; from kokoro_server.server.ipc.shared_state import SharedState; "
        "slot = SharedState(int(sys.argv[1])).slots[3]; "
        "print(slot.read()['text'], slot.cells[1])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(board.fd)],
        pass_fds=(board.fd,),
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert told.stdout == "çà -5\n"


def test_a_reader_never_sees_half_a_document(board: SharedState) -> None:
    slot, done = board.slots[0], threading.Event()

    def write() -> None:
        for number in range(300):
            slot.publish({"number": number, "padding": "x" * (number % 7 * 1000)})
        done.set()

    reader = SharedState(os.dup(board.fd))
    thread = threading.Thread(target=write)
    thread.start()
    while not done.is_set():
        if document := reader.slots[0].read():
            assert len(document["padding"]) == document["number"] % 7 * 1000
    thread.join()
    assert reader.slots[0].read()["number"] == 299
    reader.close()


def test_a_document_that_is_overwritten_while_it_is_read_is_not_taken(board: SharedState) -> None:
    slot = board.slots[0]
    slot.publish({"number": 1})

    class Interrupted(ProcessSlot):
        interrupted = False

        @property
        def version(self) -> int:
            version = super().version
            if not self.interrupted:  # the writer goes on, and is in the middle of a third one
                self.interrupted = True
                slot.publish({"number": 2})
                start = slot._start(version + 2) + HEAD.size
                slot._bytes[start : start + 8] = b'{"number'[::-1]
            return version

    reader = Interrupted(board._memory, 0)
    assert reader.read() == {"number": 2}
    reader.close()


def test_counters_go_on_where_a_killed_process_left_them(board: SharedState) -> None:
    slot = board.slots[FIRST_WORKER]
    for _ in range(3):  # each a process that counts two requests and is killed
        metrics = Metrics()
        publisher = Publisher(slot, metrics)
        metrics.requests.labels("/tts", "ok").inc(2)
        metrics.request_time.observe(0.5)
        publisher.publish()
    text = metrics.render().decode()
    assert 'tts_requests_total{endpoint="/tts",outcome="ok"} 6.0' in text
    assert "tts_request_seconds_count 3.0" in text


def test_thousands_of_keys_have_room(board: SharedState) -> None:
    metrics = Metrics()
    for number in range(5000):
        metrics.key_requests.labels(f"customer-{number:06}")
    Publisher(board.slots[FIRST_WORKER], metrics).publish()
    shown = {name: samples for name, _, _, samples in board.slots[FIRST_WORKER].read()["metrics"]}
    assert len(shown["tts_key_requests"]) >= 5000


def test_a_process_with_too_many_metrics_still_shows_that_it_lives(
    board: SharedState, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kokoro_server.server.ipc.shared_state.TEXT_BYTES", 2000)
    Publisher(board.slots[FIRST_WORKER], Metrics()).publish()
    assert board.slots[FIRST_WORKER].read()["metrics"] == []
    assert "too many" in caplog.text


def test_of_a_process_that_ended_only_what_it_counted_is_shown(board: SharedState) -> None:
    metrics = Metrics()
    metrics.watch_device("cuda:0", running=lambda: 3.0, up=lambda: 1.0)
    metrics.requests.labels("/tts", "ok").inc(2)
    broken = Condition(Reason.GPU_MEMORY)
    broken.set("little is free")
    publisher = Publisher(board.slots[ENGINE], metrics)
    publisher.conditions = lambda: [broken]
    publisher.publish()
    board.slots[ENGINE].cells[Cell.STREAMS] = 5
    retire(board.slots[ENGINE])
    seen = SharedSiblings(board, FIRST_WORKER)
    text = Metrics().render(seen.metrics()).decode()
    assert 'tts_requests_total{endpoint="/tts",outcome="ok"} 2.0' in text
    assert 'tts_device_up{device="cuda:0"} 0.0' in text
    assert 'tts_device_rows_running{device="cuda:0"} 0.0' in text
    assert seen.degradations() == []
    assert board.slots[ENGINE].cells[Cell.STREAMS] == 0


def test_one_scrape_shows_the_sum_of_all(board: SharedState) -> None:
    fronts = [Metrics(), Metrics()]
    for number, metrics in enumerate(fronts):
        publisher = Publisher(board.slots[FIRST_WORKER + number], metrics)
        metrics.requests.labels("/tts", "ok").inc(number + 1)
        broken = Condition(Reason.LEXICON)
        if number:
            broken.set("cannot be read")
        publisher.conditions = partial(list, [broken])
        metrics.watch_conditions(publisher.conditions)
        publisher.publish()
    seen = SharedSiblings(board, FIRST_WORKER)
    text = fronts[0].render(seen.metrics()).decode()
    assert 'tts_requests_total{endpoint="/tts",outcome="ok"} 3.0' in text
    assert 'tts_degraded{reason="lexicon"} 1.0' in text
    assert 'tts_degraded{reason="g2p"} 0.0' in text
    assert text.count("# TYPE tts_requests_total counter") == 1
    assert [each.message for each in seen.degradations()] == ["cannot be read"]


def test_cells_count_at_once(board: SharedState) -> None:
    one, two = SharedSiblings(board, FIRST_WORKER), SharedSiblings(board, FIRST_WORKER + 1)
    one.show(Cell.STREAMS, 3)
    assert (one.total(Cell.STREAMS), two.total(Cell.STREAMS), two.fewest(Cell.STREAMS)) == (0, 3, 3)
    Publisher(board.slots[FIRST_WORKER], Metrics())  # its successor has none yet
    assert two.total(Cell.STREAMS) == 0


def test_the_g2p_service_is_found_wherever_it_is(board: SharedState) -> None:
    g2p, supervisor = SharedG2P(board), board.slots[SUPERVISOR]
    with pytest.raises(G2PUnavailable, match="starting"):
        _ = g2p.url
    g2p.condition.set("it is starting")
    g2p.notice_restart()
    assert g2p.condition.current
    supervisor.publish({"g2p": {"state": "running", "restarts": 0, "url": "http://127.0.0.1:1"}})
    g2p.notice_restart()
    assert g2p.condition.current is None
    assert g2p.url == "http://127.0.0.1:1"
    g2p.condition.set("it did not answer")
    supervisor.publish({"g2p": {"state": "restarting", "restarts": 1}})
    g2p.notice_restart()
    with pytest.raises(G2PUnavailable, match="restarting"):
        _ = g2p.url
    assert g2p.condition.current
    supervisor.publish({"g2p": {"state": "running", "restarts": 1, "url": "http://127.0.0.1:2"}})
    g2p.notice_restart()
    assert g2p.url == "http://127.0.0.1:2"
    assert g2p.condition.current is None
