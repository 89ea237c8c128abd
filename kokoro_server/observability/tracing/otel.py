"""Spans by OpenTelemetry. The only module that imports it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import requests
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from kokoro_server import __version__
from kokoro_server.observability.tracing import Attributes

log = logging.getLogger(__name__)

FLUSH_SECONDS = 3.0  # at the end, to send the remaining spans
EXPORTER_LOG = logging.getLogger("opentelemetry.exporter")
PROPAGATOR = TraceContextTextMapPropagator()  # W3C's
HEADERS = ("traceparent", "tracestate")
# Logs each header of a client that is no valid one, with all of its 8,000 characters.
logging.getLogger("opentelemetry.trace").setLevel(logging.ERROR)


class Span:
    """One step of a traced request. Times are in nanoseconds since 1970."""

    __slots__ = ("_span", "_tracer")

    def __init__(self, tracer: trace.Tracer, span: trace.Span) -> None:
        self._tracer = tracer
        self._span = span

    @property
    def trace_id(self) -> str:
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    def child(
        self, name: str, attributes: Attributes | None = None, *, links: Sequence[Span] = (), start: int | None = None
    ) -> Span:
        made = self._tracer.start_span(
            name,
            trace.set_span_in_context(self._span, Context()),
            attributes=attributes,
            links=[Link(each._span.get_span_context()) for each in links],
            start_time=start,
        )
        return Span(self._tracer, made)

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(attributes)

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def event(self, name: str) -> None:
        self._span.add_event(name)

    def link(self, other: Span) -> None:
        self._span.add_link(other._span.get_span_context())

    def fail(self, reason: str) -> None:
        """`reason` is one word, without anything from the text."""
        self._span.set_attribute("error.type", reason)
        self._span.set_status(Status(StatusCode.ERROR, reason))

    def end(self, at: int | None = None) -> None:
        self._span.end(at)

    def headers(self) -> dict[str, str]:
        """W3C's headers, for a process that continues this step."""
        carrier: dict[str, str] = {}
        PROPAGATOR.inject(carrier, trace.set_span_in_context(self._span, Context()))
        return carrier

    @property
    def carrier(self) -> str:
        """The headers' values as one text, for `Tracer.received`."""
        return "\n".join(self.headers().values())


class Tracer:
    """Creates the spans of a process. The provider sends them in a thread."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("kokoro_server", __version__)

    @classmethod
    def exporting(cls, service: str, process: str) -> Tracer:
        """A tracer that sends to the collector in OpenTelemetry's variables."""
        given = OTELResourceDetector().detect().attributes
        facts = {
            SERVICE_NAME: given.get(SERVICE_NAME, service),
            SERVICE_VERSION: given.get(SERVICE_VERSION, __version__),
            "process.pid": os.getpid(),
            "kokoro.process": process,
        }
        # Not OpenTelemetry's global provider: with that, FastAPI would create spans, too.
        provider = TracerProvider(resource=Resource.create(facts), shutdown_on_exit=False)
        exporter = OTLPSpanExporter(session=None if _has_credentials() else _UnreadAnswers())
        provider.add_span_processor(BatchSpanProcessor(_QuietExporter(exporter)))
        return cls(provider)

    def begin(self, name: str, headers: Mapping[str, str], *, root: bool) -> Span | None:
        context = PROPAGATOR.extract(headers, Context())
        if not root and not trace.get_current_span(context).get_span_context().is_valid:
            return None
        span = self._tracer.start_span(name, context, SpanKind.SERVER)
        return Span(self._tracer, span) if span.is_recording() else None

    def received(self, carrier: str) -> Span:
        headers = dict(zip(HEADERS, carrier.split("\n"), strict=False))
        return Span(self._tracer, trace.get_current_span(PROPAGATOR.extract(headers, Context())))

    def close(self) -> None:
        """Send the remaining spans, as far as that succeeds in a few seconds."""
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(FLUSH_SECONDS)


def _has_credentials() -> bool:
    """Whether the environment names a provider of credentials, which makes its own session."""
    return any(name.endswith("CREDENTIAL_PROVIDER") for name in os.environ)


class _UnreadAnswers(requests.Session):
    """Reads no more of an answer than its status and headers: its body may come slowly, or be without end."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = True

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        answer = super().send(request, **kwargs)
        answer.close()
        return answer


class _QuietExporter(SpanExporter):
    """Logs once that the collector refuses spans, and once that it takes them again: it is tried every few seconds."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        failing = result is not SpanExportResult.SUCCESS
        if failing != self._failing:
            self._failing = failing
            # The exporter's first message has said why; the rest is silenced.
            EXPORTER_LOG.setLevel(logging.CRITICAL if failing else logging.NOTSET)
            if failing:
                log.warning("traces cannot be sent and are dropped; the next line about it comes when they can")
            else:
                log.info("traces are sent again")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()
