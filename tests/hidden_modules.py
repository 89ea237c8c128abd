"""Processes in which installed packages are not to be found, as if they were not installed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Python runs a module of this name at its start, in child processes too.
SITECUSTOMIZE = """\
import os
import sys
from importlib.machinery import PathFinder

HIDDEN = set(os.environ["TEST_HIDDEN_MODULES"].split())


class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else PathFinder.find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""


def environment(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The variables for such a process. `folder` is empty and private to it."""
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))), "TEST_HIDDEN_MODULES": " ".join(names)}
