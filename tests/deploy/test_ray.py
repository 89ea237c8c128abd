"""deploy/ray-serve.yaml and the RayService: of one mind with the code, as far as that goes without Ray."""

from __future__ import annotations

import ast
import re
import subprocess
from typing import Any

import pytest
import yaml

from kokoro_server.cli.settings import variables
from tests.cpu_requirements import ROOT
from tests.deploy.test_manifests import DEPLOY, TARGETS

MANIFEST = DEPLOY / "kubernetes" / "rayservice.yaml"
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")))
RAY_SERVICE = OBJECTS[0]["spec"]["rayClusterConfig"]
HEAD = RAY_SERVICE["headGroupSpec"]["template"]["spec"]
(WORKER,) = [group["template"]["spec"] for group in RAY_SERVICE["workerGroupSpecs"]]


def variables_of_ray() -> dict[str, str]:
    """HAPROXY and ALWAYS of kokoro_server/cluster/local.py, which imports Ray."""
    module = ast.parse((ROOT / "kokoro_server" / "cluster" / "local.py").read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    for node in module.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("HAPROXY", "ALWAYS"):
            found |= ast.literal_eval(node.value)
    return found


def environment(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"]}


@pytest.mark.parametrize("spec", [HEAD, WORKER], ids=["head", "worker"])
def test_nodes_have_the_variables_that_the_command_sets(spec: dict[str, Any]) -> None:
    given = environment(spec["containers"][0])
    expected = variables_of_ray()
    assert len(expected) > 5
    assert given.items() >= expected.items()
    assert given.keys() - expected.keys() <= {*variables()}


def test_what_is_to_be_exported_is_what_the_command_sets() -> None:
    """The lines in the comment of ray-serve.yaml, as bash reads them."""
    text = (DEPLOY / "ray-serve.yaml").read_text(encoding="utf-8")
    lines = re.findall(r"(?m)^#   (export .*)$", text)
    command = ["env", "-i", "bash", "-c", "\n".join([*lines, "env -0"])]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    exported = dict(each.split("=", 1) for each in printed.split("\0") if each.startswith("RAY"))
    assert exported == variables_of_ray()


def test_images_are_targets_and_ray_is_of_one_version() -> None:
    images = re.findall(r"image: kokoro-server:(\S+)", MANIFEST.read_text(encoding="utf-8"))
    assert {*images} == {"cluster", "g2p"} <= TARGETS
    listed = (DEPLOY / "docker" / "cluster.txt").read_text(encoding="utf-8")
    assert f"ray=={RAY_SERVICE['rayVersion']}\n" in listed


def test_no_container_writes_to_its_image_or_gains_rights() -> None:
    g2p = next(each for each in OBJECTS if each["kind"] == "Deployment")["spec"]["template"]["spec"]
    for spec in (HEAD, WORKER, g2p):
        assert spec["securityContext"]["runAsNonRoot"]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        (container,) = spec["containers"]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
        volumes = {volume["name"] for volume in spec["volumes"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts.keys() <= volumes
        assert mounts["tmp"] == "/tmp"


def test_ports_that_are_named_are_there() -> None:
    served = yaml.safe_load(OBJECTS[0]["spec"]["serveConfigV2"])
    (application,) = served["applications"]
    (worker,) = WORKER["containers"]
    ports = {port["name"]: port["containerPort"] for port in worker["ports"]}
    assert ports["serve"] == served["http_options"]["port"]
    assert ports["replica"] == application["args"]["port"]
    requested = worker["resources"]["limits"]
    assert requested["nvidia.com/gpu"] == application["args"]["gpus"]
    assert int(requested["cpu"]) >= application["args"]["cpus"]


@pytest.mark.parametrize("name", [each["kind"] for each in OBJECTS[1:]] + ["head", "worker"])
def test_the_objects_match_the_schemas_of_kubernetes(name: str) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    for spec in [spec for known, spec in (("head", HEAD), ("worker", WORKER)) if known == name]:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        validate.validate(pod, "1.34", strict=True)
    for each in [each for each in OBJECTS[1:] if each["kind"] == name]:
        validate.validate(each, "1.34", strict=True)
