"""An OpenTelemetry collector that keeps what it is sent, for tests to look at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SentSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

PATIENCE = 60.0  # seconds; a slow machine may be busy with other things
Value = str | int | float | bool


@dataclass(frozen=True)
class Span:
    name: str
    trace: str
    id: str
    parent: str
    process: str
    attributes: dict[str, Value]
    resource: dict[str, Value]
    links: tuple[str, ...]  # ids of spans
    events: tuple[str, ...]
    failed: bool
    start: int
    end: int


@dataclass
class Collector:
    url: str
    spans: list[Span] = field(default_factory=list)

    def trace(self, trace: str) -> list[Span]:
        return [span for span in list(self.spans) if span.trace == trace]

    def await_trace(self, trace: str, is_whole: Callable[[list[Span]], object]) -> list[Span]:
        """The spans of a trace, once all that are needed have been sent."""
        deadline = time.monotonic() + PATIENCE
        while not is_whole(found := self.trace(trace)):
            assert time.monotonic() < deadline, [(span.process, span.name) for span in found]
            time.sleep(0.05)
        return found


def named(spans: list[Span], name: str) -> list[Span]:
    return [span for span in spans if span.name == name]


@contextmanager
def running() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces":
                collector.spans += _spans(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield collector
        finally:
            server.shutdown()


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for group in request.resource_spans:
        resource = _attributes(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield _span(span, resource)


def _span(span: SentSpan, resource: dict[str, Value]) -> Span:
    return Span(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        str(resource["kokoro.process"]),
        _attributes(span.attributes),
        resource,
        tuple(link.span_id.hex() for link in span.links),
        tuple(event.name for event in span.events),
        span.status.code == Status.STATUS_CODE_ERROR,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )


def _attributes(pairs: list[KeyValue]) -> dict[str, Value]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
