"""The one way to start a Python process of ours: with this process's code, and nothing from the working folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PACKAGE_ROOT = Path(__file__).parents[2]


def python_path() -> str:
    """The PYTHONPATH with which a child runs the same code as this process, wherever that was imported from."""
    return os.pathsep.join(filter(None, (str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH"))))


async def start_python(
    module: str, *arguments: str, environ: Mapping[str, str] | None = None, **options: Any
) -> Process:
    """Run a module in a child process with pipes to and from it. `options` are of `create_subprocess_exec`."""
    command, settings = _command(module, arguments), _environ(environ)
    return await asyncio.create_subprocess_exec(*command, env=settings, **{"stdin": PIPE, "stdout": PIPE} | options)


def popen_python(module: str, *arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """The same for a thread without an event loop."""
    return subprocess.Popen(_command(module, arguments), env=_environ(environ), stdin=PIPE, stdout=PIPE)


def _command(module: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    # -P: without it, the working folder comes first in the search path, and a stranger's `av.py` there would be run.
    return sys.executable, "-P", "-m", module, *arguments


def _environ(changes: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": python_path(), **(changes or {})}
