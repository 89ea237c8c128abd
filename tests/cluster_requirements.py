"""`.venv/cluster/bin/python -m tests.cluster_requirements`: write deploy/docker/cluster.txt, what Ray Serve needs.

Beside what a server needs anyway. Versions that constraints.txt does not have are in the list itself: Ray is installed
nowhere else.
"""

from __future__ import annotations

from importlib import metadata

from packaging.requirements import Requirement

from tests.cpu_requirements import ROOT, normal, project

FILE = ROOT / "deploy" / "docker" / "cluster.txt"
HEAD = """\
# What Ray Serve needs beside the server, installed with --no-deps; where no version is here, constraints.txt has it.
# Made by `.venv/cluster/bin/python -m tests.cluster_requirements`, and checked by tests/cluster/test_requirements.py.
"""


def needed() -> set[str]:
    """The extra `cluster` and all that it requires, as installed here."""
    found: set[tuple[str, str]] = set()
    todo = [Requirement(line) for line in project()["cluster"]]
    while todo:
        requirement = todo.pop()
        name = normal(requirement.name)
        for extra in {"", *requirement.extras} - {extra for known, extra in found if known == name}:
            found.add((name, extra))
            required = map(Requirement, metadata.requires(name) or ())
            todo += [each for each in required if each.marker is None or each.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


def pinned() -> set[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return {normal(line.partition("==")[0]) for line in lines}


def content() -> str:
    server = (ROOT / "requirements-cpu.txt").read_text(encoding="utf-8").splitlines()
    names = needed() - {normal(line.partition(";")[0]) for line in server}
    known = pinned()
    return HEAD + "".join(
        f"{name}\n" if name in known else f"{name}=={metadata.version(name)}\n" for name in sorted(names)
    )


if __name__ == "__main__":
    FILE.write_text(content(), encoding="utf-8")
