"""A Python package that pip does not install on newer Pythons, as it declares a narrower range than it runs on.

Its wheel comes into the cache with the model's files, checked like them, and is imported from there as it is.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from kokoro_server.assets import files, sources
from kokoro_server.assets.catalog import MISAKI, Package

FOLDER = "packages"  # of the cache


def ensure_misaki(cache_dir: Path, package: Package = MISAKI) -> None:
    """Make misaki importable, fetching it if it is neither installed nor in the cache. Raises AssetError."""
    if importlib.util.find_spec("misaki") is None:
        folder = cache_dir.absolute() / FOLDER
        with files.explain_os_errors(cache_dir):
            folder.mkdir(parents=True, exist_ok=True)
            sys.path.append(str(sources.fetch_package(package, folder)))
