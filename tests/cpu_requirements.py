"""`python -m tests.cpu_requirements > requirements-cpu.txt`: what a server on a CPU needs of the installed packages.

The requirements of pyproject.toml and theirs, except for those that nothing here uses. pip would install them all.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Container, Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
FILE = ROOT / "requirements-cpu.txt"
# What each of these requires and nothing here uses. Where it is imported, kokoro_server/g2p/service/stubs.py stands in.
UNUSED = {
    "huggingface-hub": {"hf-xet"},  # another protocol for downloads
    "kokoro-server": {"pip"},  # every virtual environment has it
    "num2words": {"docopt"},
    "phonemizer-fork": {"attrs", "joblib", "segments"},
    "spacy": {"jinja2", "requests", "setuptools", "spacy-legacy", "spacy-loggers", "typer", "weasel"},
    "thinc": {"setuptools"},
}
HEAD = """\
# What a server on a CPU needs, without what nothing uses: make serve installs it with --no-deps, pinned by
# constraints.txt. Made by `python -m tests.cpu_requirements`, and checked by tests/test_installation.py.
"""


def project() -> dict[str, list[str]]:
    """The requirements of this package, and of each of its extras."""
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {"": facts["dependencies"], **facts["optional-dependencies"]}


def needed(extras: Iterable[str] = (), without: Container[str] = ()) -> dict[str, str]:
    """The names of all packages, each with the condition under which it is needed; `without` these and theirs."""
    found: dict[str, str] = {}
    known = project()
    todo = [("kokoro-server", line, "") for extra in ("", *extras) for line in known[extra] if _applies(line)]
    while todo:
        parent, line, condition = todo.pop()
        requirement = Requirement(line)
        name = normal(requirement.name)
        if name in without or name in UNUSED.get(parent, ()):
            continue
        # make serve and the images install misaki on newer Pythons too, with --ignore-requires-python.
        if parent == "kokoro-server" and "python_version" not in str(requirement.marker or "python_version"):
            condition = f"; {requirement.marker}"
        if name not in found:
            found[name] = condition
            asked = {"", *requirement.extras}
            todo += [(name, each, condition) for each in metadata.requires(name) or () if _applies(each, asked)]
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _applies(line: str, extras: Iterable[str] = ("",)) -> bool:
    marker = Requirement(line).marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


def content() -> str:
    return HEAD + "".join(f"{name}{condition}\n" for name, condition in sorted(needed().items()))


if __name__ == "__main__":
    sys.stdout.write(content())
