"""Real servers whose requests are traced: one trace of each, over all processes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import secrets
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from websockets.sync.client import connect
from wyoming.audio import AudioStop
from wyoming.client import AsyncClient
from wyoming.tts import Synthesize

from tests import servers
from tests.observability.tracing import collector as collectors
from tests.observability.tracing.collector import PATIENCE, Collector, Span, named
from tests.servers import TINY, Server, running

TEXT = "A secret sentence that no trace may tell."
LONG = "This is a long text, and whoever asked for it will not wait for its end. " * 60
# By the number of processes: those that a trace goes through, beside G2P's.
FORMS = [
    pytest.param({"SERVER_PROCESSES": "1"}, marks=pytest.mark.slow, id="one process"),
    pytest.param({"SERVER_PROCESSES": "2"}, id="fronts"),
]


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collectors.running() as collector:
        yield collector


@pytest.fixture(scope="module", params=FORMS)
def server(
    request: pytest.FixtureRequest, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=tests",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "LOG_LEVEL": "debug",
        "WYOMING_PORT": str(servers.free_port()),
    }
    with running(TINY, tmp_path_factory.mktemp("traced") / "log", **request.param, **environ) as server:
        yield server


def new_trace() -> tuple[str, dict[str, str]]:
    """A trace's id, and the headers of a request that is part of it."""
    trace = secrets.token_hex(16)
    return trace, {"traceparent": f"00-{trace}-{secrets.token_hex(8)}-01", "tracestate": "vendor=1"}


def say(server: Server, text: str, path: str = "/tts", **fields: object) -> tuple[str, httpx.Response]:
    trace, headers = new_trace()
    body = {"text": text, **fields}
    return trace, httpx.post(server.url + path, json=body, headers=headers, timeout=PATIENCE)


def has(*names: str) -> Callable[[list[Span]], bool]:
    return lambda spans: {span.name for span in spans} >= set(names)


def connected(root: str, *names: str) -> Callable[[list[Span]], bool]:
    """All of them are below the one that continues the caller's span. Each process sends its own when it likes."""

    def is_whole(spans: list[Span]) -> bool:
        ids = {span.id for span in spans}
        return has(*names)(spans) and [span.name for span in spans if span.parent not in ids] == [root]

    return is_whole


def test_one_trace_over_all_processes(server: Server, collector: Collector) -> None:
    trace, headers = new_trace()
    answer = httpx.post(f"{server.url}/tts", json={"text": TEXT}, headers=headers, timeout=PATIENCE)
    assert answer.status_code == 200
    below = ("text", "g2p", "g2p call", "POST /convert/batch", "row", "queue", "batch", "encode", "send")
    spans = collector.await_trace(trace, connected("POST /tts", *below))
    by_name = {span.name: span for span in spans}
    request, row, batch = by_name["POST /tts"], by_name["row"], by_name["batch"]
    assert request.parent == headers["traceparent"].split("-")[2]
    assert request.events == ("first_audio",)
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["kokoro.request_id"] == answer.headers["x-request-id"]
    assert by_name["text"].attributes == {"kokoro.voice": "af_heart", "kokoro.characters": len(TEXT)}
    assert by_name["g2p"].parent == by_name["text"].id
    assert by_name["POST /convert/batch"].parent == by_name["g2p call"].id
    assert row.parent == request.id
    assert row.attributes["kokoro.voice"] == "af_heart"
    assert row.attributes["kokoro.lane"] == "normal"
    assert row.attributes["kokoro.batch_size"] == 1
    assert row.attributes["kokoro.audio_seconds"] > 0
    assert row.attributes["kokoro.queue_ms"] >= 0
    assert row.start <= by_name["queue"].end <= row.end
    assert batch.links == (row.id,)
    assert row.links == (batch.id,)
    assert batch.attributes["kokoro.rows"] == 1
    assert batch.attributes["kokoro.device"] == "cpu"
    assert batch.attributes["kokoro.padding"] >= 1
    assert by_name["send"].attributes["http.response.body.size"] == len(answer.content)
    process = request.process
    owner = "server" if process == "server" else "engine"
    assert {span.process for span in spans} == {process, owner, "g2p"}
    assert (row.process, batch.process) == (owner, owner)
    assert request.resource["service.name"] == "kokoro-server"
    assert request.resource["deployment.environment"] == "tests"
    told = repr(collector.spans)
    assert "secret" not in told
    lines = [line for line in server.lines().splitlines() if trace in line]
    assert any("request method=POST path=/tts status=200" in line for line in lines)
    assert any("batch rows=1" in line for line in lines)
    assert any("g2p | " in line and "converting texts=1" in line for line in lines)


def test_a_batch_is_linked_to_all_of_its_rows(server: Server, collector: Collector) -> None:
    def is_shared(answer: httpx.Response) -> bool:
        return int(answer.headers["x-batch-size"]) > 1

    deadline = time.monotonic() + PATIENCE
    shared: list[str] = []
    while not shared:
        assert time.monotonic() < deadline
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: say(server, "One of many."), range(8)))
        shared = [trace for trace, answer in answers if is_shared(answer)]
    traces = [trace for trace, _ in answers]
    rows = {row.id: row for trace in traces for row in named(collector.await_trace(trace, has("row", "send")), "row")}
    batches = [span for trace in traces for span in named(collector.trace(trace), "batch")]
    largest = max(batches, key=lambda batch: len(batch.links))
    assert len(largest.links) > 1
    assert len(largest.links) == largest.attributes["kokoro.rows"]
    assert all(rows[link].links == (largest.id,) for link in largest.links)
    line = next(line for line in server.lines().splitlines() if largest.trace in line and "batch rows=" in line)
    assert all(rows[link].trace in line for link in largest.links)


def test_a_stream_that_is_hung_up_on(server: Server, collector: Collector) -> None:
    trace, headers = new_trace()
    url = f"{server.url}/tts/stream"
    with httpx.stream("POST", url, json={"text": LONG}, headers=headers, timeout=PATIENCE) as response:
        next(response.iter_bytes())
    spans = collector.await_trace(trace, has("POST /tts/stream"))
    [request] = named(spans, "POST /tts/stream")
    assert request.failed
    assert request.attributes["error.type"] == "client_gone"
    assert request.attributes["http.response.status_code"] == 200
    assert request.events == ("first_audio",)
    assert len(named(spans, "encode")) >= 1


def test_a_websocket(server: Server, collector: Collector) -> None:
    trace, headers = new_trace()
    url = server.url.replace("http", "ws") + "/tts/ws?api_key=never-told"
    with connect(url, additional_headers=headers, open_timeout=PATIENCE) as socket:
        for message in ({"type": "append", "text": "One. Two."}, {"type": "close"}):
            socket.send(json.dumps(message))
        received = list(socket)
    assert any(isinstance(each, bytes) for each in received)
    below = ("sentence", "text", "row", "batch", "encode", "send")
    whole = connected("WEBSOCKET /tts/ws", *below)
    spans = collector.await_trace(trace, lambda spans: whole(spans) and len(named(spans, "row")) == 2)
    [request] = named(spans, "WEBSOCKET /tts/ws")
    assert not request.failed
    assert request.events == ("first_audio",)
    sentences = {span.id for span in named(spans, "sentence")}
    assert len(sentences) == 2
    assert {row.parent for row in named(spans, "row")} == sentences
    assert "never-told" not in repr(collector.spans)


def test_wyoming(server: Server, collector: Collector) -> None:
    async def speak() -> None:
        async with AsyncClient.from_uri(server.wyoming, read_timeout=PATIENCE) as client:
            await client.write_event(Synthesize(text="Hello.").event())
            while (event := await client.read_event()) and not AudioStop.is_type(event.type):
                pass

    asyncio.run(speak())
    deadline = time.monotonic() + PATIENCE
    while not (requests := named(collector.spans, "WYOMING synthesize")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert requests[0].events == ("first_audio",)
    collector.await_trace(requests[0].trace, connected("WYOMING synthesize", "row", "batch"))


def test_errors_are_told_by_their_codes(server: Server, collector: Collector) -> None:
    trace, answer = say(server, "Mein Text: 漢字.")
    assert answer.status_code == 422
    spans = collector.await_trace(trace, has("POST /tts"))
    assert [span.attributes["error.type"] for span in spans if span.failed] == ["unspeakable"]
    assert not named(spans, "POST /tts")[0].failed  # it is the client's mistake
    assert "漢字" not in repr(collector.spans)


def test_what_is_not_sampled_is_traced_nowhere(server: Server, collector: Collector) -> None:
    trace, headers = new_trace()
    headers["traceparent"] = headers["traceparent"][:-2] + "00"
    answer = httpx.post(f"{server.url}/tts", json={"text": "Hello."}, headers=headers, timeout=PATIENCE)
    other, _ = say(server, "Hello again.")
    collector.await_trace(other, has("POST /tts", "batch", "POST /convert/batch"))
    assert answer.status_code == 200
    assert not collector.trace(trace)
    assert trace not in server.lines()


def test_what_is_left_is_sent_at_the_end(server: Server, collector: Collector) -> None:
    """The last one on this server."""
    trace, _ = say(server, "The last words.")
    assert server.stop() == 0
    assert has("POST /tts", "batch", "POST /convert/batch")(collector.trace(trace))
    assert "Traceback" not in server.lines()
