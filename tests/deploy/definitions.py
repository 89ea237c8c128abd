"""What deploy/ asks of the metrics: the expressions of the dashboard and of the alerts."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from kokoro_server.observability.metrics import RESOURCES
from tests.servers import ROOT

GRAFANA = ROOT / "deploy" / "grafana"
PROMETHEUS = ROOT / "deploy" / "prometheus"
METRIC = re.compile(r"\b(?:tts|process)_\w+")
OF_GPUS = {name for name, _ in RESOURCES.values()}  # engines on a CPU tell nothing of the kind
COMPARED = re.compile(r" (?:==|[<>]=?) [\d.]+")
ABSENT = re.compile(r"absent\((.*)\)")


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((GRAFANA / "kokoro.json").read_text(encoding="utf-8"))
    return document


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def panel_expressions() -> list[tuple[str, str]]:
    """Each with the panel's title."""
    return [(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]]


def alerts() -> list[dict[str, Any]]:
    document = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def signal(expression: str) -> str:
    """What an alert looks at, without the bound at which it fires."""
    return ABSENT.sub(r"\1", COMPARED.sub("", expression))


def metric_names(expression: str) -> set[str]:
    return set(METRIC.findall(expression))
