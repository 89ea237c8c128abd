"""The ONNX graphs that a CPU runs: built once from the weights, kept beside them in the cache.

    <cache>/onnx/<key>/text.onnx, decode.onnx     complete: the folder gets its name when everything is in it
    <cache>/onnx/<key>/built.json                 what they were built from, their sizes and hashes

The key names everything that a build depends on. A damaged build is made again.

Two versions of the server may share a cache. Each marks the build that it uses, by the time of its manifest. When a
build is made, those of another exporter or onnxruntime are removed if no server has started with them for a week.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import platform
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from kokoro_server.assets import files
from kokoro_server.assets.cache import AssetCache
from kokoro_server.config.settings import CpuPrecision
from kokoro_server.engine.cpu.instructions import Instructions, instructions
from kokoro_server.errors import AssetError, ConfigError
from kokoro_server.runtime.files import UNFINISHED, sync

log = logging.getLogger(__name__)

Build = Callable[[Path, Path, CpuPrecision, Callable[[str], None]], None]  # see `build.build`

BUILDER_VERSION = 6  # raised whenever a build would come out differently
BUILDER_FILES = (  # all code and data of this package that a build depends on
    "build.py", "graph.py", "instructions.py", "lowering.py", "moments.py", "numerics.py", "quantization.py",
    "saturation.py", "sessions.py", "stages.py",
    "fused/kernels.py", "fused/stage.py", "fused/tile.py", "fused/vectors.py", "fused/weights.py",
    "data/channel_amax.npz", "data/decode.onnx.gz", "data/moments.npz", "data/text.onnx.gz",
)  # fmt: skip
FOLDER = "onnx"
MANIFEST = "built.json"
UNUSED_S = 7 * 86_400  # seconds without a use, after which another version removes a build
DISK_SPACE = 1.5  # times the size of the weights: the graphs in fp32, and something to spare


@dataclass(frozen=True, slots=True)
class Key:
    """Everything that a build depends on. `weights` is the sha256 of the weights file.

    `machine` includes the processor's class of instructions: weights quantized for one may overflow on another.
    """

    weights: str
    precision: CpuPrecision
    exporter: str
    onnxruntime: str
    machine: str

    @property
    def name(self) -> str:
        return f"{self.precision}-{self.weights[:8]}-v{self.exporter}-ort{self.onnxruntime}-{self.machine}"

    def outdates(self, other: Key) -> bool:
        """Whether `other` is for this machine, but by another exporter or for another onnxruntime."""
        ours, theirs = ((key.exporter, key.onnxruntime) for key in (self, other))
        # Older versions named the architecture alone, or knew fewer classes.
        architecture = self.machine.partition("-")[0]
        return ours != theirs and other.machine in {self.machine, architecture, f"{architecture}-{Instructions.OTHER}"}


@dataclass(frozen=True, slots=True)
class CachedBuild:
    """A build in the cache, and the sizes and hashes that its files should have."""

    key: Key
    folder: Path
    sizes: dict[str, int]
    hashes: dict[str, str]

    def __str__(self) -> str:
        return f"{'build':<8} {self.key.name:<40} {sum(self.sizes.values()):>12,} bytes"

    def problems(self) -> list[str]:
        """One line for each missing or damaged file."""
        return [
            f"{name} is missing or damaged"
            for name, digest in self.hashes.items()
            if not files.intact(self.folder / name, digest, self.sizes[name])
        ]


def key(weights: str, precision: CpuPrecision) -> Key:
    """The key of a build made by what is installed here."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise ConfigError("onnxruntime is not installed; pip install kokoro-server")
    import onnxruntime

    machine = f"{platform.machine()}-{instructions().build}"
    return Key(weights, precision, _builder_version(), onnxruntime.__version__, machine)


@cache
def _builder_version() -> str:
    """The version and a hash of the builder's files: a change of the code needs no change of the version."""
    home = Path(__file__).parent
    digest = sha256(b"".join((home / name).read_bytes() for name in BUILDER_FILES))
    return f"{BUILDER_VERSION}.{digest.hexdigest()[:6]}"


def ensure(cache_dir: Path, weights: Path, wanted: Key, build: Build | None = None) -> Path:
    """The folder of intact graphs for `wanted`, built from the file `weights` if need be, in about half a minute.

    Blocking; safe in several processes at once. Every failure is an AssetError.
    """
    if folder := find(cache_dir, wanted):
        return folder
    if build is None:
        from kokoro_server.engine.cpu.build import build as build_graphs

        build = build_graphs
    store = AssetCache(cache_dir)
    folder = store.directory / FOLDER / wanted.name
    with files.explain_os_errors(cache_dir), store.locked("building the model"):
        # Another process may have built them while this one waited for the lock.
        if not _intact(folder, wanted):
            _build(store, weights, wanted, folder, build)
    return folder


def find(cache_dir: Path, wanted: Key) -> Path | None:
    """The folder of intact graphs for `wanted`, if they have been built. Marks them as used."""
    with files.explain_os_errors(cache_dir):
        folder = AssetCache(cache_dir).directory / FOLDER / wanted.name
        if not _intact(folder, wanted):
            return None
        with contextlib.suppress(OSError):  # the cache may be read-only, or another user's
            os.utime(folder / MANIFEST)
        return folder


def made_from(cache_dir: Path, weights: str) -> bool:
    """Whether the cache has intact graphs made from the weights with this hash."""
    return any(each.key.weights == weights and not each.problems() for each in listing(cache_dir))


def listing(cache_dir: Path) -> list[CachedBuild]:
    """All builds in the cache, of any key, unchecked."""
    home = AssetCache(cache_dir).directory / FOLDER
    with files.explain_os_errors(cache_dir):
        folders = sorted(path for path in home.iterdir() if path.is_dir()) if home.is_dir() else []
        return [build for folder in folders if (build := _read(folder))]


def remove(cache_dir: Path, weights: Collection[str]) -> None:
    """Delete all builds of the weights with these hashes."""
    for build in listing(cache_dir):
        if build.key.weights in weights:
            shutil.rmtree(build.folder)


def _intact(folder: Path, wanted: Key) -> bool:
    build = _read(folder)
    return build is not None and build.key == wanted and not build.problems()


def _read(folder: Path) -> CachedBuild | None:
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        sizes = {name: int(file["size"]) for name, file in manifest["files"].items()}
        hashes = {name: str(file["sha256"]) for name, file in manifest["files"].items()}
        return CachedBuild(Key(**manifest["key"]), folder, sizes, hashes)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("build unreadable, ignored path=%s error=%r", folder, error)
        return None


def _build(store: AssetCache, weights: Path, wanted: Key, folder: Path, build: Build) -> None:
    """Build into `folder`. The caller holds the lock."""
    if folder.exists():
        log.warning("built graphs are damaged, building them again path=%s", folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for unfinished in folder.parent.glob("*" + UNFINISHED):
        shutil.rmtree(unfinished)
    _remove_outdated(store, wanted)
    files.require_space(store.directory, int(DISK_SPACE * weights.stat().st_size))
    started = time.monotonic()
    log.info("building the model for this machine, once precision=%s", wanted.precision)

    def on_progress(step: str) -> None:
        log.info("building step=%r seconds=%.0f", step, time.monotonic() - started)

    unfinished = folder.with_name(folder.name + UNFINISHED)
    unfinished.mkdir()
    try:
        build(weights, unfinished, wanted.precision, on_progress)
        _write_manifest(unfinished, wanted)
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.rename(folder)
    except (OSError, AssetError):
        raise
    except Exception as error:  # onnxruntime raises errors of its own, for a full disk too
        free = files.megabytes(shutil.disk_usage(unfinished).free)
        raise AssetError(f"the model could not be built in {folder.parent} ({free} free): {error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    size = sum(path.stat().st_size for path in folder.iterdir())
    seconds = time.monotonic() - started
    log.info("built precision=%s path=%s size_mb=%.0f seconds=%.1f", wanted.precision, folder, size / 1e6, seconds)


def _write_manifest(folder: Path, wanted: Key) -> None:
    """Write the manifest, after all other files are on the disk: then the folder may get its name."""
    graphs = sorted(folder.iterdir())
    if not graphs:
        raise AssetError(f"the build left nothing in {folder}")
    for path in graphs:
        path.chmod(files.PUBLIC)
        sync(path)
    described = {path.name: {"size": path.stat().st_size, "sha256": files.sha256(path)} for path in graphs}
    content = json.dumps({"key": asdict(wanted), "files": described}, indent=2) + "\n"
    files.atomic_write(folder / MANIFEST, content.encode())


def _remove_outdated(store: AssetCache, wanted: Key) -> None:
    for build in listing(store.directory):
        if not wanted.outdates(build.key):
            continue
        unused = time.time() - (build.folder / MANIFEST).stat().st_mtime
        if unused > UNUSED_S:
            log.info("removing an outdated build path=%s unused_days=%.0f", build.folder, unused / 86_400)
            shutil.rmtree(build.folder)
