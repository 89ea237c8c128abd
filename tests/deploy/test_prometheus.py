"""A real Prometheus asks real servers, one of one process and one of several: the dashboard and the alerts see them."""

from __future__ import annotations

import concurrent.futures
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.deploy import definitions, prometheus
from tests.deploy.definitions import PROMETHEUS
from tests.deploy.prometheus import PATIENCE, Prometheus, Tools
from tests.servers import FAULTY, TINY, Server, running
from tests.services.faulty import RAISES

pytestmark = pytest.mark.dashboards

ALERTS_TEST = Path(__file__).parent / "alerts_test.yml"
LONG = "This is one of many sentences. " * 10
ROW_BY_ROW = {"KOKORO_MAX_BATCH_SIZE": "1"}  # so that rows wait
INTERVAL = "20s"  # Grafana's $__rate_interval
# Outcomes of every kind: 429 when several come at once, 400, 500, 401.
KEY = "0123456789abcdef"
KEYS = {"API_KEYS": f"reader={KEY}", "OPEN_METRICS": "true", "MAX_CONCURRENT_REQUESTS": "1"}
UNLOADS = {"KOKORO_IDLE_UNLOAD_S": "3600"}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    return prometheus.find(tmp_path_factory.mktemp("prometheus"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    folder = tmp_path_factory.mktemp("servers")
    with (
        running(FAULTY, folder / "one", SERVER_PROCESSES="1", **KEYS, **UNLOADS) as one,
        running(TINY, folder / "several", SERVER_PROCESSES="2", **ROW_BY_ROW) as several,
    ):
        yield [one, several]


@pytest.fixture(scope="module")
def asked(servers: list[Server]) -> Iterator[None]:
    """Requests of all kinds, until the tests are over."""
    ended = threading.Event()

    def ask() -> None:
        one, several = servers
        bodies = [{"text": "Hello there."}, {"text": "Hello."}, {"text": ""}, {"text": "Hello.", "speed": RAISES}]
        speak = lambda body: client.post(f"{one.url}/tts", json=body, headers={"X-API-Key": KEY})  # noqa: E731
        with httpx.Client(timeout=60) as client, concurrent.futures.ThreadPoolExecutor(4) as pool:
            while not ended.wait(0.2):
                for body in bodies:
                    speak(body)
                list(pool.map(speak, bodies))
                client.post(f"{one.url}/tts", json=bodies[0], headers={"X-API-Key": "not one of its keys"})
                client.post(f"{several.url}/tts/stream", json={"text": LONG})

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            yield
        finally:
            ended.set()
            asking.result()


@pytest.fixture(scope="module")
def observer(
    tools: Tools, servers: list[Server], asked: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    urls = [server.url for server in servers]
    with prometheus.running(tools, tmp_path_factory.mktemp("observer"), urls) as observer:
        yield observer


def until(condition: Callable[[], object], message: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, message
        time.sleep(0.5)


def filled_in(expression: str, instance: str = ".*") -> str:
    return expression.replace("$__rate_interval", INTERVAL).replace("$instance", instance)


def test_every_panel_has_something_to_show(observer: Prometheus) -> None:
    for title, expression in definitions.panel_expressions():
        query = filled_in(expression)
        if definitions.metric_names(expression) <= definitions.OF_GPUS:
            observer.get("query", query=query)  # it is understood
        else:
            until(lambda: observer.numbers(query), f"{title}: {query}")  # noqa: B023


def test_every_alert_looks_at_something(observer: Prometheus) -> None:
    for rule in definitions.alerts():
        signal = definitions.signal(rule["expr"])
        assert not re.search(r"[<>]|==", signal)
        until(lambda: observer.get("query", query=signal)["result"], f"{rule['alert']}: {signal}")  # noqa: B023


def test_prometheus_evaluates_every_alert(observer: Prometheus) -> None:
    def rules() -> list[dict[str, str]]:
        return [rule for group in observer.get("rules")["groups"] for rule in group["rules"]]

    until(lambda: {rule["health"] for rule in rules()} == {"ok"}, f"{rules()}")
    assert {rule["name"] for rule in rules()} == {rule["alert"] for rule in definitions.alerts()}


def test_each_server_is_seen_by_itself_and_each_of_its_processes(observer: Prometheus, servers: list[Server]) -> None:
    one, several = (server.url.removeprefix("http://") for server in servers)
    until(lambda: len(observer.numbers("tts_ready == 1")) == 2, "both are ready")
    assert {labels["instance"] for labels, _ in observer.numbers("tts_ready")} == {one, several}
    for panel, processes in ((one, {"server"}), (several, {"engine", "front-1", "front-2"})):
        for title in ("Share of a core that an event loop takes", "Lag of an event loop, p99"):
            query = filled_in(dict(definitions.panel_expressions())[title], instance=panel)
            seen = lambda: {labels["process"] for labels, _ in observer.numbers(query)}  # noqa: B023, E731
            until(lambda: seen() == processes, query)  # noqa: B023
    busy = filled_in(dict(definitions.panel_expressions())["True utilisation"])
    until(lambda: len(observer.numbers(busy)) == 2, busy)
    assert all(0 <= share <= 1.05 for _, share in observer.numbers(busy))


def test_alerts_fire_when_they_should_and_only_then(tools: Tools) -> None:
    document = yaml.safe_load(ALERTS_TEST.read_text(encoding="utf-8"))
    fired = {
        check["alertname"] for test in document["tests"] for check in test["alert_rule_test"] if check.get("exp_alerts")
    }
    assert fired == {rule["alert"] for rule in definitions.alerts()}
    for words in (("test", "rules", ALERTS_TEST), ("check", "config", PROMETHEUS / "prometheus.yml")):
        found = subprocess.run([tools.promtool, *words], capture_output=True, text=True)
        assert found.returncode == 0, found.stdout + found.stderr
