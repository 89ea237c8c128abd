"""deploy/: well formed, and of one mind with the Dockerfile, the settings and the metrics."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kokoro_server import __version__
from kokoro_server.cli.settings import variables
from kokoro_server.observability import tracing
from kokoro_server.observability.metrics import Metrics
from tests.cpu_requirements import ROOT

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "kokoro-server"
TARGETS = set(re.findall(r"(?m)^FROM \S+ AS (\S+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8")))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", ["compose.yaml", "compose.cuda.yaml"])
def test_what_compose_builds_can_be_built(file: str) -> None:
    for service in read(DEPLOY / file)["services"].values():
        if "build" in service:
            assert service["image"] == f"kokoro-server:{service['build']['target']}"
            assert service["build"]["target"] in TARGETS
        else:
            assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])


def test_no_container_of_compose_writes_to_its_image_or_gains_rights() -> None:
    composed = read(DEPLOY / "compose.yaml")
    for service in composed["services"].values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    server = composed["services"]["server"]
    assert {"cache:/cache"} <= {*server["volumes"]}
    assert "/tmp" in server["tmpfs"]
    assert all(
        port.startswith(("127.0.0.1:", "${BIND:-127.0.0.1}:"))
        for each in composed["services"].values()
        for port in each.get("ports", ())
    )


def test_settings_that_are_given_exist() -> None:
    named = {*read(DEPLOY / "compose.yaml")["services"]["server"]["environment"]}
    for file in ("values.yaml", "values-cuda.yaml"):
        values = read(CHART / file)
        named |= {*values.get("settings", ()), *values["g2p"].get("settings", ())}
    named |= set(re.findall(r"- name: ([A-Z]\w+)", (CHART / "templates" / "server.yaml").read_text(encoding="utf-8")))
    assert "G2P_SERVICE_URL" in named
    assert named <= {*variables(), *tracing.ENDPOINTS}


def test_the_chart_is_of_this_version_and_names_targets() -> None:
    assert read(CHART / "Chart.yaml")["appVersion"] == __version__
    values, cuda = read(CHART / "values.yaml"), read(CHART / "values-cuda.yaml")
    assert {values["image"]["tag"], values["g2p"]["image"]["tag"], cuda["image"]["tag"]} <= TARGETS


def test_pods_are_added_by_a_metric_that_exists() -> None:
    template = (CHART / "templates" / "autoscaling.yaml").read_text(encoding="utf-8")
    (metric,) = re.findall(r"sum\((\w+)\{", template)
    assert f"# TYPE {metric} gauge" in Metrics().render().decode()


def test_every_value_is_used_and_every_value_used_exists() -> None:
    templates = "".join(path.read_text(encoding="utf-8") for path in (CHART / "templates").iterdir())
    used = {tuple(name.split(".")) for name in re.findall(r"\.Values\.([\w.]+)", templates)}
    values = read(CHART / "values.yaml")
    for path in used:
        found: Any = values
        for part in path:
            assert part in found, path
            found = found[part]
    assert {path[0] for path in used} == {*values}
    laid_over = read(CHART / "values-cuda.yaml")
    assert {*laid_over} <= {*values}


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
@pytest.mark.parametrize("values", [(), ("-f", str(CHART / "values-cuda.yaml"), "--set", "autoscaling.enabled=true")])
def test_the_chart_is_rendered(values: tuple[str, ...]) -> None:
    subprocess.run(["helm", "lint", "--strict", str(CHART), *values], check=True)
    command = ["helm", "template", "kokoro", str(CHART), *values]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    objects = [each for each in yaml.safe_load_all(rendered) if each]
    deployments = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Deployment"}
    assert {*deployments} == {"kokoro", "kokoro-g2p"}
    for deployment in deployments.values():
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
