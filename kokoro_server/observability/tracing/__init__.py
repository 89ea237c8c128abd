"""Traces of requests, for OpenTelemetry. While they are off, nothing is done and OpenTelemetry is not imported.

A span is one step of a request. Code asks for a `step`, or passes a span on to where the context does not reach: to the
queue, and to other processes. A request that is not sampled has no span: then, as when traces are off, it is None.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeVar

from kokoro_server.errors import ConfigError, KokoroError, SetupError

if TYPE_CHECKING:
    from kokoro_server.observability.tracing.otel import Span, Tracer

T = TypeVar("T")
Mode = Literal["auto", "on", "off"]
Attributes = Mapping[str, str | int | float | bool]

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
EXPORTER = "opentelemetry.exporter.otlp.proto.http"
NOTHING: AbstractContextManager[None] = nullcontext()

_tracer: Tracer | None = None  # of this process, from `configured`
_current: ContextVar[Span | None] = ContextVar("span", default=None)


def is_wanted(mode: Mode) -> bool:
    """Whether requests are traced. If TRACING is auto, OpenTelemetry's variables decide."""
    if _variable("OTEL_SDK_DISABLED") == "true" or _variable("OTEL_TRACES_EXPORTER") == "none":
        return False
    return mode == "on" or (mode == "auto" and any(map(_variable, ENDPOINTS)))


@contextmanager
def configured(mode: Mode, process: str, service: str = "kokoro-server") -> Iterator[None]:
    """Trace this process within the block, if that is wanted. At the end, the remaining spans are sent.

    `service` is the name of the service if the environment has none. Raises SetupError if the packages are missing.
    """
    global _tracer
    if not is_wanted(mode):
        yield
        return
    _check()
    from kokoro_server.observability.tracing.otel import Tracer

    tracer = _tracer = Tracer.exporting(service, process)
    try:
        yield
    finally:
        _tracer = None
        tracer.close()


def _check() -> None:
    exporter = _variable("OTEL_TRACES_EXPORTER")
    if exporter not in ("", "otlp"):
        raise ConfigError(f"OTEL_TRACES_EXPORTER={exporter}: must be otlp or none")
    for name in PROTOCOLS:
        if (protocol := _variable(name)) not in ("", "http/protobuf"):
            raise ConfigError(f"{name}={protocol}: must be http/protobuf, which collectors take on port 4318")
    try:
        missing = find_spec(EXPORTER) is None
    except ImportError:
        missing = True
    if missing:
        raise SetupError(
            "tracing is asked for, by TRACING or by OTEL_EXPORTER_OTLP_ENDPOINT, and its packages are not installed: "
            "pip install 'kokoro-server[tracing]', or set TRACING=off"
        )


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip().lower()


def begin(name: str, headers: Mapping[str, str] | None = None, *, root: bool = True) -> Span | None:
    """The span of a request: part of the trace in its headers, or without one a `root` or None."""
    return _tracer.begin(name, headers or {}, root=root) if _tracer is not None else None


def received(carrier: str) -> Span | None:
    """The span of another process, from its `carrier`."""
    return _tracer.received(carrier) if _tracer is not None and carrier else None


def current() -> Span | None:
    """The step that this code is part of."""
    return _current.get()


def step(name: str, attributes: Attributes | None = None) -> AbstractContextManager[Span | None]:
    """A step within the current one. Not around a `yield`: the context is the caller's."""
    parent = _current.get()
    return NOTHING if parent is None else _during(parent.child(name, attributes))


def root_step(name: str) -> AbstractContextManager[Span | None]:
    """A request that does not come by HTTP."""
    span = begin(name)
    return NOTHING if span is None else _during(span)


def shared_step(name: str, members: Iterable[Span | None]) -> AbstractContextManager[Span | None]:
    """A step that several requests share, run in the context of any of them."""
    return NOTHING if _tracer is None else _during(shared(name, members))


def shared(name: str, members: Iterable[Span | None]) -> Span | None:
    """A span with links to all `members` that are traced, as a child of the first."""
    if _tracer is None or not (traced := [member for member in members if member is not None]):
        return None
    return traced[0].child(name, links=traced)


def within(span: Span | None, call: Callable[[], T]) -> Callable[[], T]:
    """`call`, as a part of the span, for another thread."""
    return call if span is None else partial(_call_within, span, call)


def _call_within(span: Span, call: Callable[[], T]) -> T:
    with use(span):
        return call()


@contextmanager
def use(span: Span | None) -> Iterator[None]:
    token = _current.set(span)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def _during(span: Span | None) -> Iterator[Span | None]:
    with use(span):
        try:
            yield span
        except BaseException as error:
            if span is not None:
                span.fail(reason(error))
            raise
        finally:
            if span is not None:
                span.end()


def reason(error: BaseException) -> str:
    """Why a step failed, in one word: messages may contain the text."""
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return "cancelled"
    return error.code if isinstance(error, KokoroError) else type(error).__name__
