"""The workflows of .github, checked without GitHub: what they call exists. `make release-check` checks their schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kokoro_server import __version__
from tests.servers import ROOT

FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
TARGETS = {"all-in-one", "cpu", "cuda", "g2p", "cluster"}


def workflow(name: str) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return loaded


def steps(jobs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in jobs.values():
        yield from job["steps"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_it_runs_exists_and_it_may_do_little(file: Path) -> None:
    found = workflow(file.name)
    assert found["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in found["jobs"].values())
    rules = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for step in steps(found["jobs"]):
        assert "uses" in step or "run" in step
        if match := re.match(r"make ((?:[\w-]+ ?)+)", step.get("run", "")):
            assert set(match[1].replace(" TAG", "").split()) <= set(rules)
        assert "@" in step.get("uses", "@")
        # An expression in a script is text of whoever chose a branch's name.
        assert "${{" not in step.get("run", "")


def test_tests_run_on_both_architectures_and_a_new_installation_on_every_system() -> None:
    jobs = workflow("tests.yml")["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["runner"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
    assert {each.split("-")[0] for each in jobs["one-line"]["strategy"]["matrix"]["runner"]} == {
        "ubuntu",
        "macos",
        "windows",
    }


def test_a_release_has_every_image_for_both_architectures_with_its_parts_and_origin() -> None:
    jobs = workflow("release.yml")["jobs"]
    matrix = jobs["images"]["strategy"]["matrix"]
    assert set(matrix["target"]) == TARGETS == set(jobs["manifests"]["strategy"]["matrix"]["target"])
    assert all(f" AS {name}\n" in (ROOT / "Dockerfile").read_text(encoding="utf-8") for name in TARGETS)
    assert matrix["arch"] == ["amd64", "arm64"]
    build = next(step["with"] for step in jobs["images"]["steps"] if "build-push" in step.get("uses", ""))
    assert build["sbom"]
    assert build["provenance"] == "mode=max"


def test_the_version_is_in_one_place() -> None:
    assert "version =" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[tool.setuptools")[0]
    chart = yaml.safe_load((ROOT / "deploy/helm/kokoro-server/Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == __version__, "deploy/helm/kokoro-server/Chart.yaml names the version of the images"
