"""What every benchmark writes beside its figures: the machine, the commit, the versions."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("kokoro-server", "kokoro", "torch", "transformers", "numpy", "onnxruntime", "numba")

T = TypeVar("T")


def facts() -> dict[str, Any]:
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "python": platform.python_version(),
        "versions": versions(),
    }


def commit() -> str:
    """The commit of the working tree, marked where files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine() -> dict[str, Any]:
    return {
        "system": platform.platform(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def cpu_name() -> str:
    try:
        lines = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return platform.processor() or platform.machine()
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("Model name")]
    return named[0] if named else platform.machine()


def versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def find(weights: Path | None, voices: Path | None) -> tuple[Path, Path]:
    """A weights file and a folder of voices: those given, else those of the cache, fetched if they are missing."""
    if weights is None or voices is None:
        from kokoro_server.assets import library
        from kokoro_server.config.settings import Settings

        settings = Settings.load(dotenv=None)
        found = library.ensure(settings.cache_dir, settings.asset_source, settings.model_path)
        weights, voices = weights or found.weights, voices or found.voices
    return weights, voices


def show(name: str, found: T) -> T:
    """Print what was found, as it is found."""
    print(name, json.dumps(found, ensure_ascii=False), flush=True)
    return found


def write(path: Path, results: dict[str, Any]) -> None:
    """One JSON file: the facts, then the results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts() | results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
