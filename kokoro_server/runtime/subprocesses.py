"""The environment of the processes that this one starts."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE_ROOT = Path(__file__).parents[2]


def python_path() -> str:
    """So that a child runs the same code as this process, wherever it was imported from."""
    return os.pathsep.join(filter(None, (str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH"))))
