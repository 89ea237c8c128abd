"""`kokoro-server bench`: run the benchmarks of the repository."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from kokoro_server.cli import CommandFailed
from kokoro_server.config.settings import Settings

ROOT = Path(__file__).parents[2]
SUFFIX = "_bench"
BY_NAME_ONLY = ("fidelity", "report")


def run(_settings: Settings, options: argparse.Namespace) -> int:
    """Run one benchmark by name, or all of them even if some fail. `report` writes docs/performance.md."""
    known = names(ROOT)
    if not known:
        raise CommandFailed(
            "benchmarks come with the sources, not with the package: clone the repository, run it there"
        )
    others = [name for name in BY_NAME_ONLY if (ROOT / "benchmarks" / f"{name}.py").exists()]
    if options.name and options.name not in [*known, *others]:
        raise CommandFailed(f"there is no benchmark {options.name!r}; there are {', '.join([*known, *others])}")
    failed = [name for name in ([options.name] if options.name else known) if not _succeeds(name, options.arguments)]
    if failed:
        raise CommandFailed(f"failed: {', '.join(failed)}")
    return 0


def _succeeds(name: str, arguments: list[str]) -> bool:
    module = name if name in BY_NAME_ONLY else name + SUFFIX
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def names(root: Path) -> list[str]:
    return sorted(path.stem.removesuffix(SUFFIX) for path in (root / "benchmarks").glob(f"*{SUFFIX}.py"))
