"""The dashboard and the alerts are well formed, and ask for nothing that a server does not tell."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.api.routes.test_monitoring import served
from tests.deploy import definitions
from tests.deploy.definitions import GRAFANA, PROMETHEUS

TYPE = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)
PARTS = {"histogram": ("_bucket", "_sum", "_count")}


async def test_every_metric_that_they_name_is_told(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, _parts):
        text = (await client.get("/metrics")).text
    told = {name + part for name, kind in TYPE.findall(text) for part in PARTS.get(kind, ("",))}
    expressions = [expression for _, expression in definitions.panel_expressions()]
    expressions += [rule["expr"] for rule in definitions.alerts()]
    asked = set().union(*map(definitions.metric_names, expressions))
    assert len(asked) > 30
    assert asked <= told | definitions.OF_GPUS


def test_every_panel_asks_the_source_and_the_servers_that_were_chosen() -> None:
    variables = {each["name"]: each for each in definitions.dashboard()["templating"]["list"]}
    assert variables.keys() == {"datasource", "instance"}
    assert variables["instance"]["multi"]
    assert variables["instance"]["includeAll"]
    panels = definitions.panels()
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        for each in (panel, *panel["targets"]):
            assert each["datasource"]["uid"] == "${datasource}"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    for title, expression in definitions.panel_expressions():
        selectors = definitions.METRIC.findall(expression)
        assert expression.count('instance=~"$instance"') == len(selectors), title


def test_no_panel_lies_over_another() -> None:
    taken = set()
    for panel in definitions.dashboard()["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for cell in ((place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])):
            assert cell not in taken, panel["title"]
            taken.add(cell)


def test_every_alert_says_how_bad_it_is_and_where() -> None:
    alerts = definitions.alerts()
    assert len({rule["alert"] for rule in alerts}) == len(alerts)
    for rule in alerts:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert "{{ $labels.instance }}" in rule["annotations"]["summary"] or rule["alert"] == "KokoroAllGone"


def test_what_containers_are_given_is_yaml() -> None:
    files = [*PROMETHEUS.glob("*.yml"), *GRAFANA.glob("provisioning/*/*.yaml")]
    assert len(files) == 4
    assert all(yaml.safe_load(file.read_text(encoding="utf-8")) for file in files)
