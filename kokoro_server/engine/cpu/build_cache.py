"""The ONNX graphs that a CPU runs: built once from the weights, kept beside them in the cache.

    <cache>/onnx/<key>/text.onnx, decode.onnx     written whole: the folder gets its name when all is in it
    <cache>/onnx/<key>/built.json                 what they were built from, their sizes and hashes

The key says what a build depends on. One whose key is another than ours is of no use to this version and is removed
when a new one is made; one that is damaged is made anew.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from kokoro_server.assets import files
from kokoro_server.assets.cache import Cache
from kokoro_server.errors import AssetError, ConfigError

log = logging.getLogger(__name__)

Precision = Literal["int8", "fp32"]
Build = Callable[[Path, Path, Precision, Callable[[str], None]], None]

EXPORTER_VERSION = 4  # to be raised whenever a build would come out differently
EXPORTER = (  # its code and data, beside this file
    "build.py", "graph.py", "lowering.py", "data/channel_amax.npz", "data/decode.onnx.gz", "data/text.onnx.gz",
)  # fmt: skip
FOLDER = "onnx"
FACTS = "built.json"
ROOM = 1.5  # times the size of the weights: the graphs in fp32, and something to spare


@dataclass(frozen=True, slots=True)
class Key:
    """What a build depends on. `weights` is the sha256 of the weights file."""

    weights: str
    precision: Precision
    exporter: str
    onnxruntime: str
    machine: str

    @property
    def name(self) -> str:
        return f"{self.precision}-{self.weights[:8]}-v{self.exporter}-ort{self.onnxruntime}-{self.machine}"

    def outdates(self, other: Key) -> bool:
        """Whether `other` is a build that no longer serves: of another exporter or runtime, for this machine."""
        ours, theirs = ((key.exporter, key.onnxruntime) for key in (self, other))
        return ours != theirs and self.machine == other.machine


@dataclass(frozen=True, slots=True)
class Found:
    """A build in the cache. `sizes` and `hashes` are what its files should have."""

    key: Key
    folder: Path
    sizes: dict[str, int]
    hashes: dict[str, str]

    def __str__(self) -> str:
        return f"{'build':<8} {self.key.name:<40} {sum(self.sizes.values()):>12,} bytes"

    def problems(self) -> list[str]:
        """What is wrong with its files."""
        return [
            f"{name} is missing or damaged"
            for name, digest in self.hashes.items()
            if not files.intact(self.folder / name, digest, self.sizes[name])
        ]


def key(weights: str, precision: Precision) -> Key:
    """The key of a build made by what is installed here."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise ConfigError("onnxruntime is not installed; pip install 'kokoro-server[cpu]'")
    import onnxruntime

    return Key(weights, precision, _exporter_version(), onnxruntime.__version__, platform.machine())


@cache
def _exporter_version() -> str:
    """The version, and the hash of the exporter's own files: while it is worked on, no change must go unnoticed."""
    home = Path(__file__).parent
    digest = sha256(b"".join((home / name).read_bytes() for name in EXPORTER))
    return f"{EXPORTER_VERSION}.{digest.hexdigest()[:6]}"


def ensure(cache_dir: Path, weights: Path, wanted: Key, build: Build | None = None) -> Path:
    """The folder of intact graphs for `wanted`, built from the file `weights` if need be: half a minute or so.

    Blocking; safe in several processes at once. Whatever goes wrong is an AssetError.
    """
    if folder := find(cache_dir, wanted):
        return folder
    store = Cache(cache_dir)
    folder = store.directory / FOLDER / wanted.name
    with files.explain_os_errors(cache_dir), store.locked():
        # Another process may have built them while this one waited for the lock.
        if not _intact(folder, wanted):
            _build(store, weights, wanted, folder, build or _exporter())
    return folder


def find(cache_dir: Path, wanted: Key) -> Path | None:
    """The folder of intact graphs for `wanted`, if they have been built."""
    with files.explain_os_errors(cache_dir):
        folder = Cache(cache_dir).directory / FOLDER / wanted.name
        return folder if _intact(folder, wanted) else None


def made_from(cache_dir: Path, weights: str) -> bool:
    """Whether there are intact graphs made from the weights with this hash."""
    return any(found.key.weights == weights and not found.problems() for found in listing(cache_dir))


def listing(cache_dir: Path) -> list[Found]:
    """The builds that are in the cache, whoever made them. Nothing is hashed."""
    home = Cache(cache_dir).directory / FOLDER
    with files.explain_os_errors(cache_dir):
        folders = sorted(path for path in home.iterdir() if path.is_dir()) if home.is_dir() else []
        return [found for folder in folders if (found := _read(folder))]


def _exporter() -> Build:
    from kokoro_server.engine.cpu import build

    return build.build


def _intact(folder: Path, wanted: Key) -> bool:
    found = _read(folder)
    return found is not None and found.key == wanted and not found.problems()


def _read(folder: Path) -> Found | None:
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        sizes = {name: int(file["size"]) for name, file in facts["files"].items()}
        hashes = {name: str(file["sha256"]) for name, file in facts["files"].items()}
        return Found(Key(**facts["key"]), folder, sizes, hashes)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("build unreadable, taken as none path=%s error=%r", folder, error)
        return None


def _build(store: Cache, weights: Path, wanted: Key, folder: Path, build: Build) -> None:
    """With the lock held."""
    if folder.exists():
        log.warning("built graphs are damaged, making them anew path=%s", folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for unfinished in folder.parent.glob("*" + files.UNFINISHED):
        shutil.rmtree(unfinished)
    _remove_outdated(store, wanted)
    files.require_space(store.directory, int(ROOM * weights.stat().st_size))
    started = time.monotonic()
    log.info("building the model for this machine, once precision=%s", wanted.precision)

    def progress(what: str) -> None:
        log.info("building step=%r seconds=%.0f", what, time.monotonic() - started)

    unfinished = folder.with_name(folder.name + files.UNFINISHED)
    unfinished.mkdir()
    try:
        _run(build, weights, unfinished, wanted.precision, progress)
        _seal(unfinished, wanted)
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    size = sum(path.stat().st_size for path in folder.iterdir())
    seconds = time.monotonic() - started
    log.info("built precision=%s path=%s size_mb=%.0f seconds=%.1f", wanted.precision, folder, size / 1e6, seconds)


def _run(build: Build, weights: Path, folder: Path, precision: Precision, progress: Callable[[str], None]) -> None:
    try:
        build(weights, folder, precision, progress)
    except (OSError, AssetError):
        raise
    except Exception as error:  # onnxruntime has errors of its own, for a full disk too
        free = files.megabytes(shutil.disk_usage(folder).free)
        raise AssetError(f"the model could not be built in {folder.parent} ({free} free): {error}") from error


def _seal(folder: Path, wanted: Key) -> None:
    """Write down what is in the folder, all of it on the disk before the folder gets its name."""
    made = sorted(folder.iterdir())
    if not made:
        raise AssetError(f"the build left nothing in {folder}")
    for path in made:
        path.chmod(0o644)
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    described = {path.name: {"size": path.stat().st_size, "sha256": files.sha256(path)} for path in made}
    content = json.dumps({"key": asdict(wanted), "files": described}, indent=2) + "\n"
    files.atomic_write(folder / FACTS, content.encode())


def _remove_outdated(store: Cache, wanted: Key) -> None:
    for found in listing(store.directory):
        if wanted.outdates(found.key):
            log.info("removing an outdated build path=%s", found.folder)
            shutil.rmtree(found.folder)
