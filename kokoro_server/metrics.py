"""The metrics that Prometheus scrapes. Values are in base units; every label takes few values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector

from kokoro_server import degraded
from kokoro_server.degraded import Condition, Reason
from kokoro_server.siblings import Family

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ROWS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128)
HIGHEST = ("tts_degraded", "tts_device_up")  # of several processes' values, the one that holds for all
LOWEST = ("process_start_time_seconds", "process_max_fds")
RATIO = (1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0, 5.0)


class Metrics:
    """The service's metrics. Each app has its own object with its own registry; nothing is shared."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.before: Sequence[Family] = ()  # what was counted before this process took over
        self.requests = self._counter("tts_requests_total", "Requests answered", "endpoint", "outcome")
        self.refused = self._counter("tts_requests_refused_total", "Requests refused before they were read", "reason")
        self.key_requests = self._counter("tts_key_requests_total", "Requests accepted, by the key's name", "key")
        self.running = self._gauge("tts_requests_running", "Rows on the devices now")
        self.waiting = self._gauge("tts_requests_waiting", "Entries in the batch queue now", "priority")
        self.first_audio = self._histogram("tts_time_to_first_audio_seconds", "From request to its first audio byte")
        self.queue_time = self._histogram("tts_queue_time_seconds", "An entry's wait for its batch to start")
        self.g2p_time = self._histogram("tts_g2p_time_seconds", "Text to phonemes, for one call")
        self.inference_time = self._histogram("tts_inference_time_seconds", "A batch on the device, retries included")
        self.request_time = self._histogram("tts_request_seconds", "From request to the last byte of its answer")
        self.batch_rows = self._histogram("tts_batch_rows", "Rows in a batch", ROWS)
        self.batch_padding = self._histogram("tts_batch_padding_ratio", "Padded frames by real frames", RATIO)
        self.batches = self._counter("tts_batches_total", "Batches run", "fire_reason")
        self.device_batches = self._counter("tts_device_batches_total", "Batches run", "device")
        self.device_rows = self._counter("tts_device_rows_total", "Rows of the batches run", "device")
        self.device_busy = self._counter("tts_device_busy_seconds_total", "Time spent on batches", "device")
        self.device_running = self._gauge("tts_device_rows_running", "Rows on this device now", "device")
        self.device_up = self._gauge("tts_device_up", "1 while the device takes batches, 0 when it is lost", "device")
        self.degraded = self._gauge("tts_degraded", "1 while it works worse than it should; see /health", "reason")
        self.streams_open = self._gauge("tts_streams_open", "Streams and WebSockets that are open now")
        self.stalled = self._counter("tts_connections_stalled_total", "Connections broken off as nobody read them")
        self.audio_seconds = self._counter("tts_audio_seconds_total", "Seconds of audio made")
        ProcessCollector(registry=self.registry)

    def watch_queue(self, *, running: Callable[[], float], waiting: dict[str, Callable[[], float]]) -> None:
        """Call these at each scrape. `waiting` is by priority."""
        self.running.set_function(running)
        for priority, size in waiting.items():
            self.waiting.labels(priority).set_function(size)

    def watch_device(self, name: str, *, running: Callable[[], float], up: Callable[[], float]) -> None:
        """Call these at each scrape. The device is shown even before it has run a batch."""
        for counter in (self.device_batches, self.device_rows, self.device_busy):
            counter.labels(name)
        self.device_running.labels(name).set_function(running)
        self.device_up.labels(name).set_function(up)

    def watch_conditions(self, conditions: Sequence[Condition]) -> None:
        """Show at each scrape which of these are set. Every reason is shown, whether one of them can have it or not."""
        for reason in Reason:
            mine = [condition for condition in conditions if condition.reason is reason]
            self.degraded.labels(reason.value).set_function(partial(_any_set, mine))

    def families(self) -> list[Family]:
        """All values, as they can be sent to another process."""
        own: list[Family] = [
            (each.name, each.type, each.documentation, [(s.name, s.labels, s.value) for s in each.samples])
            for each in self.registry.collect()
        ]
        return merged([own, self.before]) if self.before else own

    def render(self, others: Sequence[Sequence[Family]] = ()) -> bytes:
        """The response to a scrape, for this process and `others`; its media type is `content_type`."""
        return generate_latest(_Collected(merged([self.families(), *others])))

    def _counter(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(name, documentation, labels, registry=self.registry)

    def _gauge(self, name: str, documentation: str, *labels: str) -> Gauge:
        return Gauge(name, documentation, labels, registry=self.registry)

    def _histogram(self, name: str, documentation: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
        return Histogram(name, documentation, registry=self.registry, buckets=buckets)


class _Collected(CollectorRegistry):
    """Families that have been collected."""

    def __init__(self, families: Sequence[Family]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for name, kind, documentation, samples in self._families:
            metric = Metric(name, documentation, kind)
            for sample, labels, value in samples:
                metric.add_sample(sample, labels, value)
            yield metric


def merged(processes: Sequence[Sequence[Family]]) -> list[Family]:
    """The metrics of several processes as one: sums, unless a sum would mean nothing."""
    found: dict[str, tuple[str, str, dict[tuple[str, tuple[tuple[str, str], ...]], float]]] = {}
    for families in processes:
        for name, kind, documentation, samples in families:
            _, _, values = found.setdefault(name, (kind, documentation, {}))
            for sample, labels, value in samples:
                key = sample, tuple(labels.items())
                values[key] = _together(sample)(values[key], value) if key in values else value
    return [
        (name, kind, documentation, [(sample, dict(labels), value) for (sample, labels), value in values.items()])
        for name, (kind, documentation, values) in found.items()
    ]


def accumulated(families: Sequence[Family]) -> list[Family]:
    """Those that only grow, without what belongs to one process."""
    return [
        family for family in families if family[1] in ("counter", "histogram") and not family[0].startswith("process")
    ]


def _together(sample: str) -> Callable[[float, float], float]:
    if sample in HIGHEST:
        return max
    return min if sample in LOWEST or sample.endswith("_created") else operator.add


def _any_set(conditions: Sequence[Condition]) -> float:
    return float(bool(degraded.current(conditions)))
