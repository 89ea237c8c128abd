"""The metrics that Prometheus scrapes. Values are in base units; every label takes few values."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from kokoro_server.observability import conditions as degraded
from kokoro_server.observability.conditions import Condition, Reason
from kokoro_server.observability.siblings import Family
from kokoro_server.runtime.fair_slots import FairSlots

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
AUDIBLE_SECONDS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0)
ROWS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128)
HIGHEST = ("tts_degraded", "tts_device_up", "tts_ready")  # the highest value of all processes holds for the server
LOWEST = ("process_start_time_seconds", "process_max_fds")
RATIO = (1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0, 5.0)
LAGS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)  # seconds
GAPS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5)  # seconds

# The metrics for the resources that an engine reports. Counters end in "_total".
RESOURCES = {
    "graphs": ("tts_device_graphs", "CUDA graphs that are captured now"),
    "graphs_pending": ("tts_device_graphs_pending", "CUDA graphs yet to be captured"),
    "graph_captures": ("tts_device_graph_captures_total", "CUDA graphs captured"),
    "graph_evictions": ("tts_device_graph_evictions_total", "CUDA graphs dropped to make room for more"),
    "graph_bytes": ("tts_device_graph_bytes", "Device memory of the CUDA graphs"),
    "device_bytes": ("tts_device_memory_bytes", "Device memory in use"),
    "device_reserved_bytes": ("tts_device_memory_reserved_bytes", "Device memory that the process holds"),
    "pinned_bytes": ("tts_device_pinned_bytes", "Host memory pinned for copies from and to the device"),
}


class DeviceCollector(Collector):
    """The counts that devices keep, read at each scrape. RESOURCES has the metric for each resource."""

    def __init__(self) -> None:
        self._busy: dict[str, Callable[[], float]] = {}
        self._resources: dict[str, Callable[[], dict[str, float]]] = {}

    def watch(self, name: str, busy_seconds: Callable[[], float], resources: Callable[[], dict[str, float]]) -> None:
        self._busy[name] = busy_seconds
        self._resources[name] = resources

    def collect(self) -> Iterator[Metric]:
        busy = {name: seconds() for name, seconds in self._busy.items()}
        yield _family("tts_device_busy_seconds_total", "Time that the device has worked", busy)
        resources = {name: read() for name, read in self._resources.items()}
        for key, (metric, documentation) in RESOURCES.items():
            if found := {name: values[key] for name, values in resources.items() if key in values}:
                yield _family(metric, documentation, found)


class LoopCollector(Collector):
    """The CPU time of the thread that collects, which in every process is the one that runs the event loop."""

    def __init__(self, process: str) -> None:
        self._process = process

    def collect(self) -> Iterator[Metric]:
        used = {self._process: time.thread_time()}
        yield _family("tts_loop_cpu_seconds_total", "CPU time of the event loop's thread", used, "process")


def _family(name: str, documentation: str, values: dict[str, float], label: str = "device") -> Metric:
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = kind(name, documentation, labels=[label])
    for labelled, value in values.items():
        family.add_metric([labelled], value)
    return family


class Metrics:
    """The service's metrics. Each app has its own object with its own registry; nothing is shared.

    `process` is which one of the server's processes this is.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, process: str = "server") -> None:
        self.registry = CollectorRegistry()
        self.before: Sequence[Family] = ()  # the counts of the process that this one replaces
        self.requests = self._counter("tts_requests_total", "Requests answered", "endpoint", "outcome")
        self.refused = self._counter("tts_requests_refused_total", "Requests refused before they were read", "reason")
        self.key_requests = self._counter("tts_key_requests_total", "Requests accepted, by the key's name", "key")
        self.running = self._gauge("tts_requests_running", "Rows on the devices now")
        self.waiting = self._gauge("tts_requests_waiting", "Entries in the batch queue now", "priority")
        self.queued_audio = self._gauge(
            "tts_queued_audio_seconds", "Audio of the entries in the batch queue, as predicted", "priority"
        )
        self.first_audio = self._histogram("tts_time_to_first_audio_seconds", "From request to its first audio byte")
        self.first_audible = self._histogram(
            "tts_time_to_first_audible_seconds", "From request to its first audible sound", AUDIBLE_SECONDS, "kind"
        )
        self.queue_time = self._histogram("tts_queue_time_seconds", "An entry's wait for its batch to start")
        self.g2p_time = self._histogram("tts_g2p_time_seconds", "Text to phonemes, for one call")
        self.inference_time = self._histogram("tts_inference_time_seconds", "A batch on the device, retries included")
        self.request_time = self._histogram("tts_request_seconds", "From request to the last byte of its answer")
        self.batch_rows = self._histogram("tts_batch_rows", "Rows in a batch", ROWS)
        self.batch_padding = self._histogram("tts_batch_padding_ratio", "Padded frames by real frames", RATIO)
        self.batches = self._counter("tts_batches_total", "Batches run", "fire_reason")
        self.device_batches = self._counter("tts_device_batches_total", "Batches run", "device")
        self.device_rows = self._counter("tts_device_rows_total", "Rows of the batches run", "device")
        self.device_gap = self._histogram(
            "tts_device_gap_seconds", "Idle time of a device before a batch whose rows were waiting", GAPS, "device"
        )
        self.ready = self._gauge("tts_ready", "1 while requests are accepted, as in /health/ready")
        self.loop_lag = self._histogram("tts_loop_lag_seconds", "How late the event loop is", LAGS, "process").labels(
            process
        )
        self.device_running = self._gauge("tts_device_rows_running", "Rows on this device now", "device")
        self.device_up = self._gauge("tts_device_up", "1 while the device takes batches, 0 when it is lost", "device")
        self.model_loaded = self._gauge("tts_model_loaded", "1 while the model is in memory, 0 while it is not")
        self.model_changes = self._counter("tts_model_changes_total", "Unloads, loads and loads that failed", "change")
        self.model_load_time = self._histogram(
            "tts_model_load_seconds", "Loading the model again after it was unloaded"
        )
        self.degraded = self._gauge("tts_degraded", "1 while it works worse than it should; see /health", "reason")
        self.streams_open = self._gauge("tts_streams_open", "Streams and WebSockets that are open now")
        self.jobs = self._gauge("tts_jobs", "Jobs that are kept, by their state", "state")
        self.stalled = self._counter("tts_connections_stalled_total", "Connections broken off as nobody read them")
        self.clip_seconds = self._gauge(
            "tts_clip_audio_seconds", "Audio of long clips, as predicted: held in memory, or waiting for room", "state"
        )
        self.audio_seconds = self._counter("tts_audio_seconds_total", "Seconds of audio made")
        self.devices = DeviceCollector()
        self.registry.register(self.devices)
        self.registry.register(LoopCollector(process))
        ProcessCollector(registry=self.registry)

    def watch_device(self, name: str, *, running: Callable[[], float], up: Callable[[], float]) -> None:
        """Call these at each scrape. The device is shown even before its first batch."""
        for metric in (self.device_batches, self.device_rows, self.device_gap):
            metric.labels(name)
        self.device_running.labels(name).set_function(running)
        self.device_up.labels(name).set_function(up)

    def watch_clips(self, seconds: FairSlots) -> None:
        self.clip_seconds.labels("held").set_function(lambda: seconds.used)
        self.clip_seconds.labels("waiting").set_function(lambda: seconds.waiting)

    def watch_conditions(self, conditions: Callable[[], Iterable[Condition]]) -> None:
        """Show at each scrape which of these are set. Every reason is shown, whether one of them can have it or not."""
        for reason in Reason:
            self.degraded.labels(reason.value).set_function(partial(_is_set, reason, conditions))

    def families(self) -> list[Family]:
        """All values, as they can be sent to another process."""
        own: list[Family] = [
            (each.name, each.type, each.documentation, [(s.name, s.labels, s.value) for s in each.samples])
            for each in self.registry.collect()
        ]
        return merged([own, self.before]) if self.before else own

    def render(self, siblings: Sequence[Sequence[Family]] = ()) -> bytes:
        """The response to a scrape, for this process and its siblings; its media type is `content_type`."""
        return generate_latest(_Collected(merged([self.families(), *siblings])))

    def _counter(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(name, documentation, labels, registry=self.registry)

    def _gauge(self, name: str, documentation: str, *labels: str) -> Gauge:
        return Gauge(name, documentation, labels, registry=self.registry)

    def _histogram(
        self, name: str, documentation: str, buckets: tuple[float, ...] = SECONDS, *labels: str
    ) -> Histogram:
        return Histogram(name, documentation, labels, registry=self.registry, buckets=buckets)


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
    """The families that only grow."""
    return [family for family in families if family[1] in ("counter", "histogram")]


def left_over(families: Sequence[Family]) -> list[Family]:
    """The metrics of a process that has ended: its counts, and gauges of 0."""
    gauges = [family for family in families if family[1] == "gauge" and not family[0].startswith("process")]
    nothing: list[Family] = [
        (name, kind, documentation, [(sample, labels, 0.0) for sample, labels, _ in samples])
        for name, kind, documentation, samples in gauges
    ]
    return accumulated(families) + nothing


def _together(sample: str) -> Callable[[float, float], float]:
    if sample in HIGHEST:
        return max
    return min if sample in LOWEST or sample.endswith("_created") else operator.add


def _is_set(reason: Reason, conditions: Callable[[], Iterable[Condition]]) -> float:
    return float(any(each.reason is reason for each in degraded.current(conditions())))
